"""Points of a curve as arrays: its effective history, smoothing at full resolution, buckets that keep every spike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

POINT = np.dtype([("resume", ">i4"), ("step", ">i4"), ("value", ">f8"), ("at", ">f8")])
"""One stored point; `at` in seconds since 1970."""


@dataclass(frozen=True)
class Points:
    """Columns of equal length, ascending by step (ghosts: by resume and step)."""

    resume: Ints
    step: Ints
    value: Floats
    at: Floats

    def __len__(self) -> int:
        return len(self.step)

    def where(self, choice: NDArray[np.bool_] | Ints) -> Points:
        return Points(self.resume[choice], self.step[choice], self.value[choice], self.at[choice])


@dataclass(frozen=True)
class Smoothing:
    """mean: trailing mean of `amount` points; median likewise; ema: debiased, `amount` the weight of the past."""

    kind: Literal["none", "mean", "median", "ema"]
    amount: float = 0.0


@dataclass(frozen=True)
class Buckets:
    """One entry a bucket, ascending in x. NaN stands for no finite value; x is that of the bucket's last point."""

    x: Floats
    last: Floats
    mean: Floats
    low: Floats
    high: Floats
    count: Ints
    nan: Ints
    plus_inf: Ints
    minus_inf: Ints
    last_index: Ints
    """Of the last finite point of each bucket among all points; -1 without one."""
    is_raw: bool


def points_of(records: bytes) -> Points:
    """Records of POINT in the order (resume, step)."""
    rows = np.frombuffer(records, dtype=POINT)
    return Points(
        rows["resume"].astype(np.int64),
        rows["step"].astype(np.int64),
        rows["value"].astype(np.float64),
        rows["at"].astype(np.float64),
    )


def first_steps(points: Points, known: Mapping[int, int]) -> dict[int, int]:
    """By life of the trainer, its first step: the lower of what the points and the run itself say."""
    first = dict(known)
    for resume in np.unique(points.resume):
        lowest = int(points.step[points.resume == resume].min())
        first[int(resume)] = min(lowest, first.get(int(resume), lowest))
    return first


def effective(points: Points, first: Mapping[int, int]) -> tuple[Points, Points]:
    """What counts, by step, and what a later life undid.

    A later life supersedes every point of earlier ones at or after its own first step, also those that it
    has not reached again yet.
    """
    is_superseded = np.zeros(len(points), dtype=bool)
    for resume, step in first.items():
        is_superseded |= (points.resume < resume) & (points.step >= step)
    kept = points.where(~is_superseded)
    return kept.where(np.argsort(kept.step, kind="stable")), points.where(is_superseded)


def smoothed(values: Floats, x: Floats, method: Smoothing, wanted: Ints) -> Floats:
    """The smoothed line at the points `wanted`, from all finite values before each: buckets cannot change it.

    NaN where the value itself is not finite or the index is negative.
    """
    is_finite = np.isfinite(values)
    is_known = (wanted >= 0) & is_finite[wanted]
    ranks = np.cumsum(is_finite)[wanted[is_known]] - 1
    line = np.full(len(wanted), np.nan)
    if not len(ranks):
        return line
    finite = values[is_finite]
    if method.kind == "none":
        line[is_known] = finite[ranks]
    elif method.kind == "ema":
        line[is_known] = _ema(finite, x[is_finite], method.amount)[ranks]
    else:
        line[is_known] = _trailing(finite, ranks, method)
    return line


def _trailing(values: Floats, ends: Ints, method: Smoothing) -> Floats:
    """Mean or median of the last values up to each end; of fewer where there are not so many yet."""
    reduce = np.mean if method.kind == "mean" else np.median
    width = int(method.amount)
    is_full = ends >= width - 1
    line = np.empty(len(ends))
    line[is_full] = reduce(values[ends[is_full, None] - np.arange(width)], axis=1)
    line[~is_full] = [reduce(values[: end + 1]) for end in ends[~is_full]]
    return line


def _ema(values: Floats, x: Floats, weight: float) -> Floats:
    """Exponential mean whose past fades with the distance on x, in units of the median distance.

    Debiased: the weights of the values that there are sum to 1, so that a constant stays constant.
    """
    gaps = np.maximum(np.diff(x), 0)
    typical = float(np.median(gaps[gaps > 0])) if np.any(gaps > 0) else 1.0
    fades = np.concatenate([[0.0], weight ** (gaps / typical)])
    total = mass = 0.0
    line = []
    for fade, value in zip(fades.tolist(), values.tolist(), strict=True):
        total = total * fade + value
        mass = mass * fade + 1.0
        line.append(total / mass)
    return np.asarray(line)


def bucketed(x: Floats, values: Floats, num: int) -> Buckets:
    """At most `num` buckets of equal width in x, which must ascend; every point is its own while they suffice."""
    is_raw = len(x) <= num
    starts = np.arange(len(x)) if is_raw else _starts(x, num)
    if not len(x):
        none, zero = np.empty(0), np.empty(0, dtype=np.int64)
        return Buckets(none, none, none, none, none, zero, zero, zero, zero, zero, is_raw)
    is_finite = np.isfinite(values)
    num_finite = np.add.reduceat(is_finite, starts, dtype=np.int64)
    is_empty = num_finite == 0
    places = np.arange(len(x))
    last_index = np.maximum.reduceat(np.where(is_finite, places, -1), starts)
    low = np.minimum.reduceat(np.where(is_finite, values, np.inf), starts)
    high = np.maximum.reduceat(np.where(is_finite, values, -np.inf), starts)
    # Scaled before it is added, so that a sum of large values is no infinity.
    shares = np.where(is_finite, values, 0.0) / np.repeat(
        np.maximum(num_finite, 1), np.diff(np.append(starts, len(x)))
    )
    mean = np.clip(np.add.reduceat(shares, starts), low, high)
    return Buckets(
        x=x[np.append(starts[1:], len(x)) - 1],
        last=np.where(is_empty, np.nan, values[last_index]),
        mean=np.where(is_empty, np.nan, mean),
        low=np.where(is_empty, np.nan, low),
        high=np.where(is_empty, np.nan, high),
        count=np.diff(np.append(starts, len(x))),
        nan=np.add.reduceat(np.isnan(values), starts, dtype=np.int64),
        plus_inf=np.add.reduceat(np.isposinf(values), starts, dtype=np.int64),
        minus_inf=np.add.reduceat(np.isneginf(values), starts, dtype=np.int64),
        last_index=last_index,
        is_raw=is_raw,
    )


def _starts(x: Floats, num: int) -> Ints:
    """The index of the first point of each bucket that has any."""
    low, high = float(x[0]), float(x[-1])
    width = (high - low) / num
    if width <= 0:
        return np.zeros(1, dtype=np.int64)
    bucket = np.minimum(((x - low) / width).astype(np.int64), num - 1)
    return np.flatnonzero(np.diff(bucket, prepend=-1))

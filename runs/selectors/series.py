"""What charts draw of a curve: on an axis, smoothed at full resolution, in as many buckets as there are pixels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import numpy as np
from django.db import connection
from typing_extensions import TypeAliasType, TypedDict

from controlplane.accounts.access import Actor
from runs.metrics_catalogue import label_of, unit_of
from runs.models import Run, Step
from runs.selectors.checkpoints import lives
from runs.selectors.metrics import NonFinite, in_catalogue_order, in_json
from runs.selectors.runs import visible_run
from runs.series import (
    Buckets,
    Floats,
    Ints,
    Points,
    Smoothing,
    bucketed,
    effective,
    first_steps,
    points_of,
    smoothed,
)

XAxis = TypeAliasType(
    "XAxis", Literal["step", "wall", "elapsed", "active_elapsed", "trajectories", "tokens"]
)

TOKENS = "train/tokens"


class BucketMarkRow(TypedDict):
    """How many values of one kind JSON could not hold, in the bucket with this index."""

    index: int
    kind: NonFinite
    count: int


class BucketsRow(TypedDict):
    """Columns of equal length, ascending in x, which is that of a bucket's last point.

    last, mean, low and high are over the bucket's finite values, and null where it has none; count is of all.
    """

    x: list[float]
    last: list[float | None]
    mean: list[float | None]
    low: list[float | None]
    high: list[float | None]
    count: list[int]
    non_finite: list[BucketMarkRow]


class SeriesResumeRow(TypedDict):
    """A later life of the trainer, where it begins in this curve, and why."""

    resume: int
    step: int
    x: float
    reason: str
    downtime_s: float


class CentralRow(TypedDict):
    """The 1st and the 99th percentile of the finite values in range."""

    low: float
    high: float


class SeriesRow(TypedDict):
    """A curve's effective history on an axis: the highest resume of each step; `ghosts` is what was superseded.

    is_raw: every bucket is one point. num_points: of the effective history in range; num_unplaced: those that
    have no place on this axis, as SFT steps on trajectories. smooth: from full resolution, at each bucket's end.
    """

    name: str
    label: str
    unit: str
    is_raw: bool
    num_points: int
    num_unplaced: int
    buckets: BucketsRow
    smooth: list[float | None]
    ghosts: BucketsRow
    resumes: list[SeriesResumeRow]
    central: CentralRow | None


class SeriesSetRow(TypedDict):
    x: XAxis
    series: list[SeriesRow]


class SeriesPointRow(TypedDict):
    """One stored point at full resolution; `x` is its place on the axis that was asked for."""

    name: str
    resume: int
    step: int
    at: datetime
    x: float
    value: float | NonFinite
    is_superseded: bool


@dataclass
class _Timeline:
    """What a run says about places on the axes, apart from its points. Lives of the trainer by number."""

    start: float
    """Seconds since 1970."""
    downtimes: dict[int, float]
    reasons: dict[int, str]
    first_steps: dict[int, int]
    steps: list[tuple[int, int]]
    """(step of a curve, trajectories) of the steps that count."""


def series(
    actor: Actor,
    *,
    run: int,
    name: list[str] | None = None,
    x: XAxis = "step",
    low: float | None = None,
    high: float | None = None,
    buckets: int = 400,
    smoothing: Smoothing,
) -> SeriesSetRow:
    """The named curves (or all) on an axis between low and high, in at most so many buckets. Raises NotFound."""
    axis, curves = _curves(visible_run(actor, run), name, x)
    return SeriesSetRow(
        x=x,
        series=[
            axis.row(each, points, (low, high), buckets, smoothing)
            for each, points in curves.items()
        ],
    )


def series_points(
    actor: Actor,
    *,
    run: int,
    name: list[str] | None = None,
    x: XAxis = "step",
    low: float | None = None,
    high: float | None = None,
) -> Iterator[list[SeriesPointRow]]:
    """The points that `series` is drawn from, all of them, a list a curve; superseded ones last. Raises NotFound."""
    axis, curves = _curves(visible_run(actor, run), name, x)
    return (axis.points(each, points, (low, high)) for each, points in curves.items())


def _curves(run: Run, name: list[str] | None, x: XAxis) -> tuple[_Axis, dict[str, Points]]:
    wanted = [*dict.fromkeys(name)] if name else None
    stored = _stored(run, [*wanted, TOKENS] if wanted and x == "tokens" else wanted)
    axis = _Axis(x, _timeline(run, stored), stored.get(TOKENS))
    none = points_of(b"")
    if wanted:
        return axis, {each: stored.get(each, none) for each in wanted}
    return axis, dict(sorted(stored.items(), key=in_catalogue_order))


_PACKED = """
SELECT name, string_agg(point, ''::bytea) FROM (
  SELECT name, int4send(resume) || int4send(step) || float8send(value)
    || float8send(date_part('epoch', at)) AS point
  FROM runs_metricpoint WHERE run_id = %s AND (%s::text[] IS NULL OR name = ANY(%s))
  ORDER BY name, resume, step
) points GROUP BY name
"""


def _stored(run: Run, names: list[str] | None) -> dict[str, Points]:
    """By name. The database packs the points, so that a hundred thousand of them are one value of one row."""
    with connection.cursor() as cursor:
        cursor.execute(_PACKED, [run.pk, names, names])
        return {name: points_of(bytes(records)) for name, records in cursor.fetchall()}


def _timeline(run: Run, stored: dict[str, Points]) -> _Timeline:
    before, total = {}, 0
    for stage, kind, num_steps in run.stages.values_list("id", "kind", "num_steps"):
        before[stage] = total
        total += num_steps if kind == "rl" else 0
    first: dict[int, int] = {}
    counted = []
    rows = Step.objects.filter(run=run).order_by("stage__index", "index")
    for stage, index, resume, status, num in rows.values_list(
        "stage", "index", "resume", "status", "num_trajectories"
    ):
        step = before[stage] + index
        first.setdefault(resume, step)
        if status == Step.Status.DONE:
            counted.append((step, num))
    later = lives(run)
    began = [float(points.at.min()) for points in stored.values() if len(points)]
    return _Timeline(
        start=run.started_at.timestamp() if run.started_at else min(began, default=0.0),
        downtimes={life["resume"]: life["downtime_s"] or 0.0 for life in later},
        reasons={life["resume"]: life["reason"] for life in later},
        first_steps=first,
        steps=counted,
    )


class _Axis:
    """Where points lie on one of the axes, and the rows that a chart draws."""

    def __init__(self, kind: XAxis, timeline: _Timeline, tokens: Points | None) -> None:
        self.kind = kind
        self.timeline = timeline
        steps = np.array(timeline.steps, dtype=np.int64).reshape(-1, 2)
        self.steps, self.totals = steps[:, 0], np.cumsum(steps[:, 1])
        if kind == "tokens":
            kept, _ = self.history(TOKENS, tokens or points_of(b""))
            self.steps, self.totals = kept.step, np.nancumsum(kept.value)

    def history(self, name: str, points: Points) -> tuple[Points, Points]:
        """The effective points and the superseded ones. SFT has no steps of its own to go by."""
        known = {} if _is_sft(name) else self.timeline.first_steps
        return effective(points, first_steps(points, known))

    def places(self, name: str, points: Points) -> Floats:
        """The x of each point; NaN where the axis has no place for it."""
        if self.kind == "step":
            return points.step.astype(np.float64)
        if self.kind in ("trajectories", "tokens"):
            if _is_sft(name) or not len(self.steps):
                return np.full(len(points), np.nan)
            sums = np.concatenate([[0.0], self.totals])
            return sums[np.searchsorted(self.steps, points.step, side="right")]
        if self.kind == "wall":
            return points.at
        elapsed = points.at - self.timeline.start
        if self.kind == "active_elapsed":
            for resume, seconds in self.timeline.downtimes.items():
                elapsed = elapsed - np.where(points.resume >= resume, seconds, 0.0)
        return elapsed

    def row(
        self,
        name: str,
        points: Points,
        span: tuple[float | None, float | None],
        num: int,
        smoothing: Smoothing,
    ) -> SeriesRow:
        kept, ghosts = self.history(name, points)
        x = self.places(name, kept)
        order = _ascending_within(x, span)
        drawn = bucketed(x[order], kept.value[order], num)
        ends = np.where(drawn.last_index >= 0, _at(order, drawn.last_index), -1)
        finite = kept.value[order][np.isfinite(kept.value[order])]
        ghost_x = self.places(name, ghosts)
        ghost_order = _ascending_within(ghost_x, span)
        return SeriesRow(
            name=name,
            label=label_of(name),
            unit=unit_of(name),
            is_raw=drawn.is_raw,
            num_points=len(order),
            num_unplaced=int(np.isnan(x).sum()),
            buckets=_buckets_row(drawn),
            smooth=_nullable(smoothed(kept.value, x, smoothing, ends)),
            ghosts=_buckets_row(bucketed(ghost_x[ghost_order], ghosts.value[ghost_order], num)),
            resumes=list(self._resumes(kept, x)),
            central=CentralRow(
                low=float(np.quantile(finite, 0.01)), high=float(np.quantile(finite, 0.99))
            )
            if len(finite)
            else None,
        )

    def points(
        self, name: str, points: Points, span: tuple[float | None, float | None]
    ) -> list[SeriesPointRow]:
        rows = []
        for is_superseded, part in zip((False, True), self.history(name, points), strict=True):
            x = self.places(name, part)
            order = _ascending_within(x, span)
            chosen = part.where(order)
            columns = (chosen.resume, chosen.step, chosen.at, x[order], chosen.value)
            rows += [
                SeriesPointRow(
                    name=name,
                    resume=resume,
                    step=step,
                    at=datetime.fromtimestamp(at, tz=UTC),
                    x=place,
                    value=in_json(value),
                    is_superseded=is_superseded,
                )
                for resume, step, at, place, value in zip(
                    *(column.tolist() for column in columns), strict=True
                )
            ]
        return rows

    def _resumes(self, kept: Points, x: Floats) -> Iterable[SeriesResumeRow]:
        placed = kept.where(~np.isnan(x))
        for resume in np.unique(placed.resume)[1:].tolist():
            first = int(np.argmax(placed.resume == resume))
            yield SeriesResumeRow(
                resume=resume,
                step=int(placed.step[first]),
                x=float(x[~np.isnan(x)][first]),
                reason=self.timeline.reasons.get(resume, ""),
                downtime_s=self.timeline.downtimes.get(resume, 0.0),
            )


def _is_sft(name: str) -> bool:
    """Its points are of a stage that has no steps of its own and trains on no trajectories."""
    return name.partition("/")[0] == "sft"


def _ascending_within(x: Floats, span: tuple[float | None, float | None]) -> Ints:
    """Indices of the points between both ends, by x."""
    low = -math.inf if span[0] is None else span[0]
    high = math.inf if span[1] is None else span[1]
    chosen = np.flatnonzero((x >= low) & (x <= high))
    return chosen[np.argsort(x[chosen], kind="stable")]


def _at(values: Ints, places: Ints) -> Ints:
    return values[places] if len(values) else places


def _nullable(values: Floats) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values.tolist()]


def _buckets_row(drawn: Buckets) -> BucketsRow:
    kinds: dict[NonFinite, Ints] = {
        "NaN": drawn.nan,
        "Infinity": drawn.plus_inf,
        "-Infinity": drawn.minus_inf,
    }
    return BucketsRow(
        x=drawn.x.tolist(),
        last=_nullable(drawn.last),
        mean=_nullable(drawn.mean),
        low=_nullable(drawn.low),
        high=_nullable(drawn.high),
        count=drawn.count.tolist(),
        non_finite=[
            BucketMarkRow(index=index, kind=kind, count=int(counts[index]))
            for kind, counts in kinds.items()
            for index in np.flatnonzero(counts).tolist()
        ],
    )

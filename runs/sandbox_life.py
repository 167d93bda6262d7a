"""The life of a sandbox out of its row: which stage it was in when. Pure; figures of the fleet are made of it.

A row has three stamps and the seconds of each stage. What comes before `ready` is counted back from there,
what comes after the agent is counted back from the end, and the agent has the middle.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

LIFE = ("admit", "image", "start", "setup", "exec", "collect", "verify", "teardown")
"""The stages of a box in order; `timings` has the seconds of those that were measured."""
STARTING = ("image", "start", "setup")
"""From admitted to ready."""
CARPET = ("idle", "queued", "starting", "ready", "in use", "verifying", "stopping", "failed")
"""What a cell of the carpet may say, by its code."""
_CODE = {name: code for code, name in enumerate(CARPET)}
_SPANS = ("queued", "starting", "in use", "verifying", "stopping")

MAX_CELLS = 70_000
"""Of a carpet, so that its answer stays below 100 KB; with many rows there are fewer columns."""

Box = tuple[float, float | None, float | None, str, float, float, float]
"""created, ready and finished in seconds since the epoch, status, then the seconds from admitted to ready, of the
verifier and of the teardown."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Lives:
    """Many boxes at once, in the order of their starts. edges: [n, 6] seconds since the epoch, of the five spans
    queued, starting, `words`, verifying and stopping; a span may be empty, none is missing."""

    edges: Floats
    words: NDArray[np.uint8]
    """[n] code of the middle span: in use, unless the box never was."""
    is_failed: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.edges)

    def __getitem__(self, part: Any) -> Lives:
        return Lives(self.edges[part], self.words[part], self.is_failed[part])


def lives_of(boxes: Sequence[Box], now: float) -> Lives:
    """Those that lived for some time, or failed."""
    created, ready, finished, status, before, verify, teardown = (
        np.array(column) for column in (zip(*boxes, strict=True) if boxes else [()] * 7)
    )
    ready, finished = ready.astype(float), finished.astype(float)  # None becomes NaN
    has_ended = ~np.isnan(finished)
    end = np.where(has_ended, finished, now)
    is_ready = ~np.isnan(ready)
    up = np.where(is_ready, np.fmin(ready, end), end)
    begin = np.where(is_ready, np.minimum(created, up - before), created).astype(float)
    admitted = np.where(is_ready, up - before, np.where(status == "requested", end, begin))
    stopping = end - np.where(has_ended, teardown, 0.0)
    verifying = stopping - np.where(has_ended, verify, 0.0)
    edges = [begin, admitted, up, np.maximum(up, verifying), np.maximum(up, stopping), end]
    words = np.full(len(end), _CODE["in use"], np.uint8)
    for word in ("ready", "stopping"):
        words[status == word] = _CODE[word]
    lives = Lives(np.stack(edges, axis=1), words, status == "failed")
    lived = lives[(end > begin) | lives.is_failed]
    return lived[np.argsort(lived.edges[:, 0], kind="stable")]


@dataclass(frozen=True)
class Carpet:
    stages: tuple[str, ...]
    from_at: datetime | None
    to_at: datetime | None
    cells: np.ndarray
    """[num_slots, num_bins] uint8."""
    num_boxes: int


def carpet(
    boxes: Sequence[Box], *, bins: int, now: datetime, max_pause_s: float | None = None
) -> Carpet:
    """Boxes laid into the first row that is free, up to `bins` columns from the first start to the last end;
    with `max_pause_s`, those since the last pause (no box alive) that was longer."""
    lives = lives_of(boxes, now.timestamp())
    if max_pause_s is not None:
        lives = since_pause(lives, max_pause_s)
    if not len(lives):
        return Carpet(CARPET, None, None, np.zeros((0, bins), np.uint8), 0)
    begin, end = lives.edges[:, 0], lives.edges[:, -1]
    first, last = float(begin[0]), float(end.max())
    slots = np.array(first_free(list(zip(begin.tolist(), end.tolist(), strict=True))))
    num_slots = int(slots.max()) + 1
    bins = max(1, min(bins, MAX_CELLS // num_slots))
    places = (lives.edges - first) / max((last - first) / bins, 1e-9)
    codes = np.tile([_CODE[name] for name in _SPANS], (len(lives), 1))
    codes[:, 2] = lives.words
    starts, ends = places[:, :-1], places[:, 1:]
    is_there = ends > starts
    rows = np.broadcast_to(slots[:, None], codes.shape)
    shape = (num_slots, bins, len(CARPET))
    covered = _coverage(rows[is_there], codes[is_there], starts[is_there], ends[is_there], shape)
    cells = covered.argmax(axis=2).astype(np.uint8)
    failed_at = np.minimum(places[lives.is_failed, -1].astype(int), bins - 1)
    cells[slots[lives.is_failed], failed_at] = _CODE["failed"]
    at = [datetime.fromtimestamp(second, UTC) for second in (first, last)]
    return Carpet(CARPET, at[0], at[1], cells, len(lives))


def _coverage(
    slots: np.ndarray,
    codes: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    shape: tuple[int, int, int],
) -> np.ndarray:
    """[num_slots, num_bins, num_codes] share of each bin in each stage; starts and ends are in bins."""
    num_slots, bins, num_codes = shape
    covered = np.zeros(shape)
    steps = np.zeros((num_slots, bins + 1, num_codes))
    begin = np.minimum(starts.astype(int), bins - 1)
    end = np.minimum(ends.astype(int), bins - 1)
    is_one = begin == end
    np.add.at(covered, (slots, begin, codes), np.where(is_one, ends, begin + 1) - starts)
    np.add.at(covered, (slots, end, codes), np.where(is_one, 0.0, ends - end))
    np.add.at(steps, (slots, begin + 1, codes), np.where(is_one, 0.0, 1.0))
    np.add.at(steps, (slots, end, codes), np.where(is_one, 0.0, -1.0))
    result: np.ndarray = covered + steps.cumsum(axis=1)[:, :bins]
    return result


def since_pause(lives: Lives, max_pause_s: float) -> Lives:
    """Those after the last time that none was alive for so long."""
    ended = np.maximum.accumulate(lives.edges[:, -1])
    pauses = np.flatnonzero(lives.edges[1:, 0] - ended[:-1] > max_pause_s)
    return lives[pauses[-1] + 1 :] if pauses.size else lives


def first_free(intervals: Sequence[tuple[float, float]]) -> list[int]:
    """A row for each of the intervals (in the order of their starts): the first that is free."""
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    rows = []
    for start, end in intervals:
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        row = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end, row))
        rows.append(row)
    return rows


def stage_of_failure(stage: str) -> str:
    """Where in a box's life a failure of the taxonomy lies."""
    return {"infer": "exec", "ingest": "teardown"}.get(stage, stage)

"""The life of a sandbox out of its row: which stage it was in when. Pure; figures of the fleet are made of it.

A row has three stamps and the seconds of each stage. What comes before `ready` is counted back from there,
what comes after the agent is counted back from the end, and the agent has the middle.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

LIFE = ("admit", "image", "start", "setup", "exec", "collect", "verify", "teardown")
"""The stages of a box in order; `timings` has the seconds of those that were measured."""
STARTING = ("image", "start", "setup")
"""From admitted to ready."""
CARPET = ("idle", "queued", "starting", "ready", "in use", "verifying", "stopping", "failed")
"""What a cell of the carpet may say, by its code."""
_CODE = {name: code for code, name in enumerate(CARPET)}

MAX_CELLS = 70_000
"""Of a carpet, so that its answer stays below 100 KB; with many rows there are fewer columns."""

Box = tuple[datetime, datetime | None, datetime | None, str, dict[str, float]]
"""created_at, ready_at, finished_at, status, timings."""


class Span(NamedTuple):
    stage: str
    start: float
    end: float


def spans(box: Box, now: float) -> list[Span]:
    """Of one box, seconds since the epoch, in order, without gaps."""
    created_at, ready_at, finished_at, status, timings = box
    created = created_at.timestamp()
    end = finished_at.timestamp() if finished_at else now
    before = sum(timings.get(stage, 0.0) for stage in STARTING)
    ready = min(ready_at.timestamp(), end) if ready_at else None
    begin = min(created, ready - before) if ready is not None else created
    admitted = ready - before if ready is not None else begin
    found = [Span("queued", begin, min(admitted, end))]
    if ready is None:
        word = "queued" if status == "requested" else "starting"
        found = [Span(word, begin, end)]
    else:
        found.append(Span("starting", admitted, ready))
        stopping = end - (timings.get("teardown", 0.0) if finished_at else 0.0)
        verifying = stopping - (timings.get("verify", 0.0) if finished_at else 0.0)
        stopping, verifying = max(ready, stopping), max(ready, verifying)
        word = {"ready": "ready", "stopping": "stopping"}.get(status, "in use")
        found += [
            Span(word, ready, verifying),
            Span("verifying", verifying, stopping),
            Span("stopping", stopping, end),
        ]
    if status == "failed":
        found.append(Span("failed", end, end))
    return [span for span in found if span.end > span.start or span.stage == "failed"]


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
    lives = [life for box in boxes if (life := spans(box, now.timestamp()))]
    if not lives:
        return Carpet(CARPET, None, None, np.zeros((0, bins), np.uint8), 0)
    lives.sort(key=lambda life: life[0].start)
    lives = since_pause(lives, max_pause_s)
    first, last = lives[0][0].start, max(life[-1].end for life in lives)
    slots = first_free([(life[0].start, life[-1].end) for life in lives])
    num_slots = max(slots) + 1
    bins = max(1, min(bins, MAX_CELLS // num_slots))
    width = max((last - first) / bins, 1e-9)
    flat = [(slot, span) for slot, life in zip(slots, lives, strict=True) for span in life]
    covered = _coverage(
        np.array([slot for slot, _ in flat]),
        np.array([_CODE[span.stage] for _, span in flat]),
        np.array([(span.start - first) / width for _, span in flat]),
        np.array([(span.end - first) / width for _, span in flat]),
        (num_slots, bins, len(CARPET)),
    )
    cells = covered.argmax(axis=2).astype(np.uint8)
    for slot, span in flat:
        if span.stage == "failed":
            cells[slot, min(bins - 1, int((span.end - first) / width))] = _CODE["failed"]
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


def since_pause(lives: list[list[Span]], max_pause_s: float | None) -> list[list[Span]]:
    """Of lives in the order of their starts, those after the last time that none was alive for so long."""
    begin, ended = 0, lives[0][-1].end
    for at, life in enumerate(lives):
        if max_pause_s is not None and life[0].start - ended > max_pause_s:
            begin = at
        ended = max(ended, life[-1].end)
    return lives[begin:]


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

"""How a run's sandboxes went: stage by stage, driver by driver. Two queries; the figures are pure functions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np
import orjson
from django.db import connection
from typing_extensions import TypedDict

from sandboxes.selectors import FailureStage

STAGES: tuple[FailureStage, ...] = (
    "admit",
    "image",
    "start",
    "setup",
    "infer",
    "exec",
    "collect",
    "verify",
    "teardown",
)
_TIMED_AS = {"llm": "infer"}


class TopFailureRow(TypedDict):
    """The failure group with most failures of a stage in this run."""

    id: int
    message: str
    num: int


class FunnelRow(TypedDict):
    """One stage of the sandbox life cycle. entered = ok + failed; retried are those with a later attempt.

    Sandboxes of all stages of the run; infer is the model's side of exec. Times are seconds of those that passed it.
    """

    stage: FailureStage
    entered: int
    ok: int
    failed: int
    retried: int
    p50_s: float | None
    p99_s: float | None
    top_failure: TopFailureRow | None


class QuartilesRow(TypedDict):
    """Seconds of one stage with one driver."""

    stage: FailureStage
    num: int
    q25_s: float
    median_s: float
    q75_s: float


class DriverUseRow(TypedDict):
    """A sandbox driver: how far it was taken, and what its stages took."""

    driver: str
    num_sandboxes: int
    max_concurrent: int
    stages: list[QuartilesRow]


class Box(NamedTuple):
    driver: str
    status: str
    began: float
    ended: float
    timings: dict[str, float]


class FailedRow(NamedTuple):
    """Sandboxes of one failure group that failed in a stage: how many had a time for it, how many tried again."""

    stage: str
    group: int
    message: str
    num: int
    timed: int
    retried: int


_BOXES = """
SELECT driver, status, extract(epoch FROM created_at)::float8,
  extract(epoch FROM coalesce(finished_at, %(now)s))::float8, timings::text
FROM sandboxes_sandbox WHERE run_id = %(run)s
"""
_FAILURES = """
SELECT failure.stage, failure.group_id, fgroup.message,
  count(DISTINCT coalesce(failure.attempt_id, -failure.id)),
  count(DISTINCT failure.attempt_id) FILTER (WHERE EXISTS (
    SELECT 1 FROM sandboxes_sandbox AS box WHERE box.attempt_id = failure.attempt_id
      AND box.timings ? CASE failure.stage WHEN 'infer' THEN 'llm' ELSE failure.stage END)),
  count(DISTINCT failure.attempt_id) FILTER (WHERE EXISTS (
    SELECT 1 FROM runs_attempt AS failed
    JOIN runs_attempt AS later ON later.trajectory_id = failed.trajectory_id AND later.number > failed.number
    WHERE failed.id = failure.attempt_id))
FROM sandboxes_failure AS failure
JOIN sandboxes_failuregroup AS fgroup ON fgroup.id = failure.group_id
WHERE failure.run_id = %(run)s AND NOT failure.is_by_policy
GROUP BY failure.stage, failure.group_id, fgroup.message
"""


def boxes(run_id: int, *, now: datetime) -> list[Box]:
    with connection.cursor() as cursor:
        cursor.execute(_BOXES, {"run": run_id, "now": now})
        return [
            Box(driver, status, began, ended, orjson.loads(timings))
            for driver, status, began, ended, timings in cursor.fetchall()
        ]


def failed(run_id: int) -> list[FailedRow]:
    with connection.cursor() as cursor:
        cursor.execute(_FAILURES, {"run": run_id})
        return [FailedRow(*row) for row in cursor.fetchall()]


def _seconds(found: Sequence[Box]) -> dict[str, np.ndarray]:
    """By stage, the seconds of every box that has a time for it."""
    times: dict[str, list[float]] = defaultdict(list)
    for box in found:
        for name, value in box.timings.items():
            times[name].append(value)
    return {_TIMED_AS.get(name, name): np.asarray(values) for name, values in times.items()}


def funnel(found: Sequence[Box], failures: Sequence[FailedRow]) -> list[FunnelRow]:
    """Stages in their order; one that nothing entered is left out."""
    times = _seconds(found)
    rows = []
    for stage in STAGES:
        here = [row for row in failures if row.stage == stage]
        num_failed = sum(row.num for row in here)
        timed = times.get(stage)
        num_timed = 0 if timed is None else timed.size
        entered = num_timed + num_failed - sum(row.timed for row in here)
        if not entered:
            continue
        top = max(here, key=lambda row: row.num, default=None)
        p50, p99 = (None, None) if timed is None else np.percentile(timed, [50, 99]).tolist()
        rows.append(
            FunnelRow(
                stage=stage,
                entered=entered,
                ok=entered - num_failed,
                failed=num_failed,
                retried=sum(row.retried for row in here),
                p50_s=p50,
                p99_s=p99,
                top_failure=top and TopFailureRow(id=top.group, message=top.message, num=top.num),
            )
        )
    return rows


def drivers(found: Sequence[Box]) -> list[DriverUseRow]:
    """By number of sandboxes, the most used first."""
    by_driver: dict[str, list[Box]] = defaultdict(list)
    for box in found:
        by_driver[box.driver].append(box)
    rows = []
    for driver, those in sorted(by_driver.items(), key=lambda item: -len(item[1])):
        times = _seconds(those)
        quartiles = [
            QuartilesRow(stage=stage, num=times[stage].size, q25_s=q25, median_s=q50, q75_s=q75)
            for stage in STAGES
            if stage in times
            for q25, q50, q75 in [np.percentile(times[stage], [25, 50, 75]).tolist()]
        ]
        rows.append(
            DriverUseRow(
                driver=driver,
                num_sandboxes=len(those),
                max_concurrent=max_concurrent([(box.began, box.ended) for box in those]),
                stages=quartiles,
            )
        )
    return rows


def max_concurrent(spans: Sequence[tuple[float, float]]) -> int:
    """The most spans that were open at one moment; one that ends as another begins does not overlap it."""
    if not spans:
        return 0
    edges = [(began, 1) for began, _ in spans] + [(ended, -1) for _, ended in spans]
    edges.sort()
    return int(np.cumsum([change for _, change in edges]).max())


def by_status(found: Sequence[Box]) -> dict[str, int]:
    return dict(Counter(box.status for box in found))


def sandbox_hours(found: Sequence[Box]) -> float:
    return sum(max(0.0, box.ended - box.began) for box in found) / 3600

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


class Boxes(NamedTuple):
    """The sandboxes of one driver and status: when each lived, and by stage the seconds of those that have them."""

    driver: str
    status: str
    began: np.ndarray
    ended: np.ndarray
    seconds: dict[str, np.ndarray]


class FailedRow(NamedTuple):
    """Sandboxes of one failure group that failed in a stage: how many had a time for it, how many tried again."""

    stage: str
    group: int
    message: str
    num: int
    timed: int
    retried: int


# Arrays of numbers as JSON text: a quarter of the time of a row for each sandbox.
_BOXES = """
SELECT driver, status,
  json_agg(date_part('epoch', created_at))::text,
  json_agg(date_part('epoch', coalesce(finished_at, %(now)s)))::text,
  json_agg((timings->>'admit')::float8)::text,
  json_agg((timings->>'image')::float8)::text,
  json_agg((timings->>'start')::float8)::text,
  json_agg((timings->>'setup')::float8)::text,
  json_agg((timings->>'llm')::float8)::text,
  json_agg((timings->>'exec')::float8)::text,
  json_agg((timings->>'collect')::float8)::text,
  json_agg((timings->>'verify')::float8)::text,
  json_agg((timings->>'teardown')::float8)::text
FROM sandboxes_sandbox WHERE run_id = %(run)s GROUP BY driver, status
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


def boxes(run_id: int, *, now: datetime) -> list[Boxes]:
    with connection.cursor() as cursor:
        cursor.execute(_BOXES, {"run": run_id, "now": now})
        return [
            Boxes(driver, status, _array(began), _array(ended), _by_stage(texts))
            for driver, status, began, ended, *texts in cursor.fetchall()
        ]


def _by_stage(texts: list[str]) -> dict[str, np.ndarray]:
    arrays = {stage: _array(text) for stage, text in zip(STAGES, texts, strict=True)}
    return {stage: values[~np.isnan(values)] for stage, values in arrays.items()}


def _array(text: str) -> np.ndarray:
    """null is NaN."""
    return np.array(orjson.loads(text), dtype=float)


def failed(run_id: int) -> list[FailedRow]:
    with connection.cursor() as cursor:
        cursor.execute(_FAILURES, {"run": run_id})
        return [FailedRow(*row) for row in cursor.fetchall()]


def _seconds(found: Sequence[Boxes], stage: str) -> np.ndarray:
    return np.concatenate([boxes.seconds.get(stage, np.empty(0)) for boxes in found])


def funnel(found: Sequence[Boxes], failures: Sequence[FailedRow]) -> list[FunnelRow]:
    """Stages in their order; one that nothing entered is left out."""
    rows = []
    for stage in STAGES:
        here = [row for row in failures if row.stage == stage]
        num_failed = sum(row.num for row in here)
        timed = _seconds(found, stage) if found else np.empty(0)
        entered = timed.size + num_failed - sum(row.timed for row in here)
        if not entered:
            continue
        top = max(here, key=lambda row: row.num, default=None)
        p50, p99 = np.percentile(timed, [50, 99]).tolist() if timed.size else (None, None)
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


def drivers(found: Sequence[Boxes]) -> list[DriverUseRow]:
    """By number of sandboxes, the most used first."""
    by_driver: dict[str, list[Boxes]] = defaultdict(list)
    for boxes in found:
        by_driver[boxes.driver].append(boxes)
    rows = [
        DriverUseRow(
            driver=driver,
            num_sandboxes=sum(boxes.began.size for boxes in those),
            max_concurrent=max_concurrent(
                np.concatenate([boxes.began for boxes in those]),
                np.concatenate([boxes.ended for boxes in those]),
            ),
            stages=_quartiles(those),
        )
        for driver, those in by_driver.items()
    ]
    return sorted(rows, key=lambda row: -row["num_sandboxes"])


def _quartiles(found: Sequence[Boxes]) -> list[QuartilesRow]:
    rows = []
    for stage in STAGES:
        timed = _seconds(found, stage)
        if timed.size:
            q25, q50, q75 = np.percentile(timed, [25, 50, 75]).tolist()
            rows.append(
                QuartilesRow(stage=stage, num=timed.size, q25_s=q25, median_s=q50, q75_s=q75)
            )
    return rows


def max_concurrent(began: np.ndarray, ended: np.ndarray) -> int:
    """The most spans that were open at one moment; one that ends as another begins does not overlap it."""
    if not began.size:
        return 0
    open_then = np.searchsorted(np.sort(began), began, side="right")
    gone_then = np.searchsorted(np.sort(ended), began, side="right")
    return int((open_then - gone_then).max())


def by_status(found: Sequence[Boxes]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for boxes in found:
        counts[boxes.status] += boxes.began.size
    return dict(counts)


def sandbox_hours(found: Sequence[Boxes]) -> float:
    return sum(float(np.clip(boxes.ended - boxes.began, 0, None).sum()) for boxes in found) / 3600

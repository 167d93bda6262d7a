"""Failure groups with what they did: curves by hour, trajectories touched, facets, and why they are one group."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Literal

from django.db import connection
from typing_extensions import TypeAliasType, TypedDict

from controlplane.accounts.access import Actor
from controlplane.pages import Rows
from sandboxes import selectors as boxes

HOURS = 48
MAX_FACET_VALUES = 12


class FailureGroupRow(boxes.FailureGroupRow):
    """Failures with one fingerprint. With `run`, the figures below are of that run alone.

    hourly: failures an hour over the 48 hours up to its last one.
    num_invalidated: trajectories among those touched that ended without a reward.
    """

    num_here: int
    num_trajectories: int
    num_runs: int
    num_invalidated: int
    hourly: list[int]


FacetName = TypeAliasType("FacetName", Literal["driver", "host", "engine", "task", "run", "stage"])


class FacetValueRow(TypedDict):
    value: str
    num_failures: int


class FacetRow(TypedDict):
    """How the failures of a group are spread: one value that has them all is a lead."""

    name: FacetName
    num_values: int
    values: list[FacetValueRow]


class FingerprintPartRow(TypedDict):
    """One part of a fingerprint and what it stands for."""

    part: str
    meaning: str


class FailureGroupDetailRow(FailureGroupRow):
    """`num_attempts`: of the runs that it has a failure in, so that a share can be said."""

    why: list[FingerprintPartRow]
    facets: list[FacetRow]
    num_failed_attempts: int
    num_attempts: int


def failure_groups(
    actor: Actor, *, now: datetime, run: int | None = None, **filters: Any
) -> Rows[FailureGroupRow]:
    found = boxes.failure_groups(actor, now=now, run=run, **filters)
    return replace(found, shape=lambda rows: _with_figures(found.shape(rows), run))  # type: ignore[arg-type,return-value]


def failure_group(
    actor: Actor, group_id: int, *, now: datetime, run: int | None = None
) -> FailureGroupDetailRow:
    """Raises NotFound."""
    (row,) = _with_figures([boxes.failure_group(actor, group_id, now=now)], run)
    num_failed, num_attempts = _share(group_id, run)
    return FailureGroupDetailRow(
        **row,
        why=why_grouped(row["fingerprint"]),
        facets=_facets(group_id, run),
        num_failed_attempts=num_failed,
        num_attempts=num_attempts,
    )


_FIGURES = """
SELECT f.group_id, count(*) AS num_here, count(DISTINCT a.trajectory_id) AS num_trajectories,
  count(DISTINCT f.run_id) AS num_runs,
  count(DISTINCT a.trajectory_id) FILTER (WHERE t.status = 'failed') AS num_invalidated
FROM sandboxes_failure AS f
LEFT JOIN runs_attempt AS a ON a.id = f.attempt_id
LEFT JOIN runs_trajectory AS t ON t.id = a.trajectory_id
WHERE f.group_id = ANY(%(groups)s) AND (%(run)s::bigint IS NULL OR f.run_id = %(run)s)
GROUP BY 1
"""
_HOURLY = """
SELECT f.group_id, date_trunc('hour', f.at) AS hour, count(*)
FROM sandboxes_failure AS f JOIN sandboxes_failuregroup AS g ON g.id = f.group_id
WHERE f.group_id = ANY(%(groups)s) AND (%(run)s::bigint IS NULL OR f.run_id = %(run)s)
  AND f.at > date_trunc('hour', g.last_at) - make_interval(hours => %(hours)s)
GROUP BY 1, 2
"""
# One pass for all facets; of each row exactly one column counts, and GROUPING says which.
_FACETS = """
SELECT CASE 0 WHEN GROUPING(f.driver) THEN 'driver' WHEN GROUPING(f.host) THEN 'host'
    WHEN GROUPING(f.engine) THEN 'engine' WHEN GROUPING(task.key) THEN 'task'
    WHEN GROUPING(f.run_id) THEN 'run' ELSE 'stage' END AS facet,
  coalesce(f.driver, f.host, f.engine, task.key, f.run_id::text, stage.name, '') AS value, count(*)
FROM sandboxes_failure AS f
LEFT JOIN runs_attempt AS a ON a.id = f.attempt_id
LEFT JOIN runs_stage AS stage ON stage.id = a.stage_id
LEFT JOIN runs_trajectory AS t ON t.id = a.trajectory_id
LEFT JOIN runs_task AS task ON task.id = t.task_id
WHERE f.group_id = %(group)s AND (%(run)s::bigint IS NULL OR f.run_id = %(run)s)
GROUP BY GROUPING SETS ((f.driver), (f.host), (f.engine), (task.key), (f.run_id), (stage.name))
ORDER BY 3 DESC, 2
"""
_SHARE = """
WITH hit AS (
  SELECT DISTINCT attempt_id, run_id FROM sandboxes_failure
  WHERE group_id = %(group)s AND (%(run)s::bigint IS NULL OR run_id = %(run)s)
)
SELECT (SELECT count(DISTINCT attempt_id) FROM hit),
  (SELECT count(*) FROM runs_attempt WHERE run_id IN (SELECT run_id FROM hit) AND status <> 'queued')
"""


def _select(sql: str, **values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def _with_figures(rows: list[boxes.FailureGroupRow], run: int | None) -> list[FailureGroupRow]:
    ids = [row["id"] for row in rows]
    figures = {row[0]: row[1:] for row in _select(_FIGURES, groups=ids, run=run)}
    hours: dict[int, dict[datetime, int]] = defaultdict(dict)
    for group_id, hour, num in _select(_HOURLY, groups=ids, run=run, hours=HOURS - 1):
        hours[group_id][hour] = num
    found = []
    for row in rows:
        here, trajectories, num_runs, invalidated = figures.get(row["id"], (0, 0, 0, 0))
        found.append(
            FailureGroupRow(
                **row,
                num_here=here,
                num_trajectories=trajectories,
                num_runs=num_runs,
                num_invalidated=invalidated,
                hourly=_bins(hours[row["id"]], row["last_at"]),
            )
        )
    return found


def _bins(hours: dict[datetime, int], last_at: datetime) -> list[int]:
    last = last_at.replace(minute=0, second=0, microsecond=0)
    return [hours.get(last - timedelta(hours=back), 0) for back in range(HOURS - 1, -1, -1)]


def _facets(group_id: int, run: int | None) -> list[FacetRow]:
    values: dict[FacetName, list[FacetValueRow]] = {
        name: [] for name in ("stage", "run", "task", "driver", "host", "engine")
    }
    for name, value, num in _select(_FACETS, group=group_id, run=run):
        values[name].append(FacetValueRow(value=value, num_failures=num))
    return [
        FacetRow(name=name, num_values=len(found), values=found[:MAX_FACET_VALUES])
        for name, found in values.items()
    ]


def _share(group_id: int, run: int | None) -> tuple[int, int]:
    ((num_failed, num_attempts),) = _select(_SHARE, group=group_id, run=run)
    return num_failed, num_attempts


_PLACEHOLDERS = {
    "URL": "any address",
    "HEX": "any number in hexadecimal",
    "UUID": "any UUID",
    "ID": "any long identifier",
    "PATH": "any path of two parts or more",
    "N": "any number",
}


def why_grouped(fingerprint: str) -> list[FingerprintPartRow]:
    """The parts of `v1:{stage}:{class}:{message}`, and what each placeholder in the message stands for."""
    version, stage, kind, message = fingerprint.split(":", 3)
    parts = [
        (version, "the version of the rule; a new rule makes new groups"),
        (stage, "the stage of the attempt in which it was noticed"),
        (kind, "the class of the failure, given where it was raised"),
        (message, "the message without what varies from one failure to the next"),
    ]
    used = set(re.findall(r"\b[A-Z]+\b", message))
    parts += [(word, f"stands for {what}") for word, what in _PLACEHOLDERS.items() if word in used]
    return [FingerprintPartRow(part=part, meaning=meaning) for part, meaning in parts]

"""Sandboxes, failures and limits as the actor may see them."""

from __future__ import annotations

from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any, Literal

from django.db.models import F, QuerySet
from typing_extensions import TypeAliasType, TypedDict

from controlplane.accounts.access import Actor, visible_projects
from controlplane.errors import NotFound
from controlplane.pages import Rows
from sandboxes.failure_states import STATES, in_state, state_of
from sandboxes.models import Failure, FailureGroup, Limit, Sandbox

SandboxStatus = TypeAliasType(
    "SandboxStatus",
    Literal["requested", "starting", "ready", "leased", "stopping", "gone", "failed"],
)
FailureStage = TypeAliasType(
    "FailureStage",
    Literal[
        "admit",
        "image",
        "start",
        "setup",
        "infer",
        "exec",
        "collect",
        "verify",
        "teardown",
        "ingest",
        "train",
        "checkpoint",
        "publish",
    ],
)
FailureClass = TypeAliasType(
    "FailureClass",
    Literal[
        "capacity",
        "rate_limit",
        "start_timeout",
        "boot_fail",
        "image_error",
        "lost",
        "transport",
        "oom",
        "disk_full",
        "infer_infra",
        "verify_infra",
        "verify_timeout",
        "task_defect",
        "unknown",
    ],
)


FailureState = TypeAliasType(
    "FailureState", Literal["new", "ongoing", "regressed", "resolved", "ignored"]
)


class SandboxRow(TypedDict):
    """One box of a provider. timings: seconds by admit, image, start, setup, exec, verify, teardown."""

    id: int
    project: str
    key: str
    driver: str
    level: str
    status: SandboxStatus
    run_id: int | None
    attempt_id: int | None
    worker: str
    created_at: datetime
    ready_at: datetime | None
    finished_at: datetime | None
    timings: dict[str, float]


class FailureGroupRow(TypedDict):
    """Failures with one fingerprint, and what it is now (sandboxes/failure_states.py)."""

    id: int
    project: str
    fingerprint: str
    stage: FailureStage
    kind: FailureClass
    message: str
    num_failures: int
    first_at: datetime
    last_at: datetime
    state: FailureState
    state_reason: str
    state_by: str
    resolved_at: datetime | None
    regressed_at: datetime | None
    ignored_until: datetime | None


class FailureRow(TypedDict):
    """One thing that the infrastructure did."""

    id: int
    group: int
    stage: FailureStage
    kind: FailureClass
    message: str
    run_id: int | None
    attempt_id: int | None
    host: str
    engine: str
    driver: str
    evidence: dict[str, Any]
    is_by_policy: bool
    at: datetime


class LimitRow(TypedDict):
    """A cap of some layer with its configured and its measured value."""

    id: int
    project: str
    layer: str
    name: str
    scope: str
    unit: str
    configured: float | None
    measured: float | None
    peak: float | None
    measured_at: datetime | None


def _fields(row: Any, *without: str) -> list[str]:
    return [name for name in row.__annotations__ if name not in without]


def _with_project(rows: list[dict[str, Any]]) -> list[Any]:
    for row in rows:
        row["project"] = row.pop("project_slug")
    return rows


def sandboxes(
    actor: Actor,
    *,
    run: int | None = None,
    status: list[str] | None = None,
    driver: str | None = None,
) -> QuerySet[Sandbox]:
    query = Sandbox.objects.filter(project__in=visible_projects(actor))
    if run is not None:
        query = query.filter(run_id=run)
    if status:
        query = query.filter(status__in=status)
    if driver:
        query = query.filter(driver=driver)
    return query


def failure_groups(
    actor: Actor,
    *,
    now: datetime,
    run: int | None = None,
    stage: list[str] | None = None,
    kind: list[str] | None = None,
    state: list[str] | None = None,
    sort: str | None = None,
) -> Rows[FailureGroupRow]:
    """Newest fingerprint first; with `run`, the groups that it has a failure in."""
    query = FailureGroup.objects.filter(project__in=visible_projects(actor))
    if run is not None:
        query = query.filter(pk__in=Failure.objects.filter(run_id=run).values("group"))
    if stage:
        query = query.filter(stage__in=stage)
    if kind:
        query = query.filter(kind__in=kind)
    if state:
        query = query.filter(reduce(or_, (in_state(one, now) for one in STATES if one in state)))
    fields = _fields(FailureGroupRow, "project", "state")
    rows = query.values(*fields, project_slug=F("project__slug"))
    return Rows(rows, lambda found: _with_state(found, now), sort=sort)


def _with_state(rows: list[dict[str, Any]], now: datetime) -> list[FailureGroupRow]:
    names = ("first_at", "last_at", "resolved_at", "regressed_at", "ignored_until")
    for row in rows:
        row["state"] = state_of(**{name: row[name] for name in names}, now=now)
    return _with_project(rows)


def failure_group(actor: Actor, group_id: int, *, now: datetime) -> FailureGroupRow:
    """Raises NotFound."""
    rows = failure_groups(actor, now=now)
    found = rows.shape(list(rows.query.filter(pk=group_id)))
    if not found:
        raise NotFound(f"There is no failure group {group_id} in a project of yours.")
    return found[0]


def failures(actor: Actor, *, group: int | None = None, run: int | None = None) -> Rows[FailureRow]:
    """Newest first."""
    query = Failure.objects.filter(project__in=visible_projects(actor))
    if group is not None:
        query = query.filter(group=group)
    if run is not None:
        query = query.filter(run_id=run)
    fields = _fields(FailureRow, "group")
    return Rows(query.values(*fields, "group_id"), _with_group)


def _with_group(rows: list[dict[str, Any]]) -> list[FailureRow]:
    for row in rows:
        row["group"] = row.pop("group_id")
    return rows  # type: ignore[return-value]


def limits(actor: Actor, *, layer: str | None = None) -> Rows[LimitRow]:
    """By layer as they were made."""
    query = Limit.objects.filter(project__in=visible_projects(actor))
    if layer:
        query = query.filter(layer=layer)
    fields = _fields(LimitRow, "project")
    return Rows(query.values(*fields, project_slug=F("project__slug")), _with_project)

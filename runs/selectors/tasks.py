"""Task sets and their tasks as the actor may see them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from django.db.models import Count, F, Q
from typing_extensions import TypeAliasType, TypedDict

from controlplane.accounts.access import Actor, visible_projects
from controlplane.errors import NotFound
from controlplane.pages import Rows
from runs.models import Task, TaskSet
from runs.selectors.runs import IntervalRow

TaskSetSplit = TypeAliasType("TaskSetSplit", Literal["train", "validation", "held_out"])


class TaskSetRow(TypedDict):
    """A named, versioned collection of tasks."""

    id: int
    project: str
    name: str
    version: int
    split: TaskSetSplit
    digest: str
    num_tasks: int
    num_quarantined: int
    source: str
    baselines: dict[str, IntervalRow]
    created_at: datetime


class TaskRow(TypedDict):
    """A problem the policy is asked to solve."""

    id: int
    key: str
    repository: str
    instruction: str
    difficulty: str
    verify_timeout_s: float
    quarantined_at: datetime | None
    quarantine_reason: str


def task_sets(
    actor: Actor, *, project: str | None = None, name: str | None = None
) -> Rows[TaskSetRow]:
    """Newest first."""
    query = TaskSet.objects.filter(project__in=visible_projects(actor))
    if project:
        query = query.filter(project__slug=project)
    if name:
        query = query.filter(name=name)
    fields = (
        "id",
        "name",
        "version",
        "split",
        "digest",
        "num_tasks",
        "source",
        "baselines",
        "created_at",
    )
    quarantined = Count("tasks", filter=Q(tasks__quarantined_at__isnull=False))
    return Rows(
        query.annotate(num_quarantined=quarantined).values(
            *fields, "num_quarantined", project_slug=F("project__slug")
        ),
        _task_set_rows,
    )


def _task_set_rows(rows: list[dict[str, Any]]) -> list[TaskSetRow]:
    for row in rows:
        row["project"] = row.pop("project_slug")
    return rows  # type: ignore[return-value]


def tasks(
    actor: Actor,
    *,
    task_set: int,
    repository: str | None = None,
    is_quarantined: bool | None = None,
) -> Rows[TaskRow]:
    """In the order of their ids. Raises NotFound."""
    if not TaskSet.objects.filter(pk=task_set, project__in=visible_projects(actor)).exists():
        raise NotFound(f"There is no task set {task_set} in a project of yours.")
    query = Task.objects.filter(task_set=task_set)
    if repository:
        query = query.filter(repository=repository)
    if is_quarantined is not None:
        query = query.filter(quarantined_at__isnull=not is_quarantined)
    return Rows(query.values(*TaskRow.__annotations__), lambda rows: rows, key="id")  # type: ignore[arg-type,return-value]

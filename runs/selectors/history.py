"""What a run did: its optimizer steps and events."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from django.db.models import Count, F
from typing_extensions import TypeAliasType, TypedDict

from controlplane.accounts.access import Actor
from controlplane.pages import Rows
from runs.models import Event, Step
from runs.selectors.runs import visible_run

StepStatus = TypeAliasType(
    "StepStatus", Literal["collecting", "training", "publishing", "done", "failed", "superseded"]
)
EventLevel = TypeAliasType("EventLevel", Literal["info", "warning", "error"])


class StepRow(TypedDict):
    """One optimizer step; the four times are seconds, and publishing is not part of the step's sum."""

    id: int
    stage: str
    index: int
    resume: int
    status: StepStatus
    trained_version: int
    published_version: int | None
    num_groups: int
    num_trajectories: int
    reward_mean: float | None
    wait_s: float
    logprob_s: float
    update_s: float
    publish_s: float
    metrics: dict[str, Any]
    started_at: datetime
    finished_at: datetime | None


class EventRow(TypedDict):
    """One line of a run's event feed."""

    id: int
    at: datetime
    level: EventLevel
    kind: str
    sentence: str
    data: dict[str, Any]


class EventKindRow(TypedDict):
    """How many lines of one kind and level a run's feed has."""

    kind: str
    level: EventLevel
    num: int


def steps(
    actor: Actor, *, run: int, stage: str | None = None, resume: int | None = None
) -> Rows[StepRow]:
    """Newest first, superseded ones too. Raises NotFound."""
    query = Step.objects.filter(run=visible_run(actor, run))
    if stage:
        query = query.filter(stage__name=stage)
    if resume is not None:
        query = query.filter(resume=resume)
    fields = [name for name in StepRow.__annotations__ if name != "stage"]
    return Rows(query.values(*fields, stage_name=F("stage__name")), _with_stage_name)


def _with_stage_name(rows: list[dict[str, Any]]) -> list[Any]:
    for row in rows:
        row["stage"] = row.pop("stage_name")
    return rows


def events(
    actor: Actor, *, run: int, level: list[str] | None = None, kind: list[str] | None = None
) -> Rows[EventRow]:
    """Newest first. Raises NotFound."""
    query = Event.objects.filter(run=visible_run(actor, run))
    if level:
        query = query.filter(level__in=level)
    if kind:
        query = query.filter(kind__in=kind)
    return Rows(query.values(*EventRow.__annotations__), lambda rows: rows)  # type: ignore[arg-type,return-value]


def event_kinds(actor: Actor, *, run: int) -> list[EventKindRow]:
    """What a run wrote, by kind; the most frequent first. Raises NotFound."""
    query = Event.objects.filter(run=visible_run(actor, run))
    counted = query.values("kind", "level").annotate(num=Count("id"))
    return list(counted.order_by("-num", "kind"))  # type: ignore[arg-type]

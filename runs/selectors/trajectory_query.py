"""Trajectories with what their newest attempt, their step and their sandbox say, narrowed by the words of the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import (
    Case,
    CharField,
    F,
    FilteredRelation,
    FloatField,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Extract, NullIf
from typing_extensions import TypedDict

from runs.models import Trajectory
from sandboxes.models import Sandbox

OUTCOMES = ("solved", "unsolved", "invalid", "running", "cancelled")
FACETS: dict[str, str] = {
    "outcome": "outcome",
    "stop_reason": "stop_reason",
    "stage": "stage_name",
    "repository": "task_repository",
    "driver": "driver",
    "failure": "failure_kind",
}
"""Words of the API with few values, and their columns: how many rows each value has is worth knowing."""

SORTABLE: dict[str, str] = {
    "id": "id",
    "task": "task_key",
    "repository": "task_repository",
    "stage": "stage_name",
    "group": "group_id",
    "index": "index",
    "outcome": "outcome",
    "stop_reason": "stop_reason",
    "reward": "reward",
    "advantage": "advantage",
    "attempts": "num_attempts",
    "turns": "num_turns",
    "prompt_tokens": "prompt_tokens",
    "tokens": "output_tokens",
    "duration": "duration_s",
    "llm_share": "llm_share",
    "start": "start_s",
    "queue": "queue_s",
    "driver": "driver",
    "engine": "engine_index",
    "version": "version_min",
    "staleness": "staleness",
    "step": "step_index",
    "failure": "failure_kind",
    "started": "started_at",
    "finished": "finished_at",
}
COMPARED: dict[str, str] = {
    "reward": "reward",
    "turns": "num_turns",
    "tokens": "output_tokens",
    "duration": "duration_s",
    "staleness": "staleness",
}


class TrajectoryFilters(TypedDict, total=False):
    """reward, turns, tokens, duration, staleness are comparisons of their columns; lists are any of their words."""

    stage: list[str] | None
    group: int | None
    step: int | None
    status: list[str] | None
    outcome: list[str] | None
    task: str | None
    repository: list[str] | None
    stop_reason: list[str] | None
    driver: list[str] | None
    engine: int | None
    failure: list[str] | None
    is_valid: bool | None
    is_zero_gradient: bool | None
    reward: Q | None
    turns: Q | None
    tokens: Q | None
    duration: Q | None
    staleness: Q | None
    q: str | None


def _seconds(start: str, end: str) -> Cast:
    return Cast(Extract(F(end) - F(start), "epoch"), FloatField())


def _timing(name: str) -> Cast:
    return Cast(KeyTextTransform(name, "newest__timings"), FloatField())


_OUTCOME = Case(
    When(status="open", then=Value("running")),
    When(status="cancelled", then=Value("cancelled")),
    When(status="failed", then=Value("invalid")),
    When(reward__gte=1, then=Value("solved")),
    default=Value("unsolved"),
    output_field=CharField(),
)
_DRIVER = Subquery(
    Sandbox.objects.filter(attempt_id=OuterRef("newest__id")).order_by("-id").values("driver")[:1]
)
_STALENESS = Case(
    When(
        status="completed",
        group__status="consumed",
        then=F("group__step__trained_version") - F("version_min"),
    ),
    output_field=IntegerField(),
)


def annotated(query: QuerySet[Trajectory]) -> QuerySet[Any]:
    """With the columns of FACETS, SORTABLE and COMPARED. The newest attempt has the highest number."""
    newest = FilteredRelation("attempts", condition=Q(attempts__number=F("num_attempts")))
    joined: QuerySet[Any] = query.annotate(
        newest=newest,
        newest_id=F("newest__id"),
        attempt_status=F("newest__status"),
        timings=F("newest__timings"),
        started_at=F("newest__started_at"),
        duration_s=_seconds("newest__started_at", "newest__finished_at"),
        queue_s=_seconds("newest__created_at", "newest__started_at"),
        start_s=_timing("start"),
        failure_stage=F("newest__failure_stage"),
        failure_kind=F("newest__failure_class"),
        failure_message=F("newest__failure_message"),
        engine_index=F("newest__engine__index"),
        outcome=_OUTCOME,
        driver=_DRIVER,
        step_id=F("group__step_id"),
        step_index=F("group__step__index"),
        staleness=_STALENESS,
        task_key=F("task__key"),
        task_repository=F("task__repository"),
        stage_name=F("stage__name"),
    )
    shared: QuerySet[Any] = joined.annotate(
        llm_share=_timing("llm") / NullIf(F("duration_s"), Value(0.0), output_field=FloatField())
    )
    return shared


def narrowed(query: QuerySet[Any], given: Mapping[str, Any]) -> QuerySet[Any]:
    """The rows of an annotated query that fit every filter that is given."""
    wanted = {name: value for name, value in given.items() if value is not None}
    for name in (*FACETS, "status"):
        if name in wanted:
            query = query.filter(**{f"{FACETS.get(name, name)}__in": wanted[name]})
    for name, column in {
        "group": "group",
        "step": "group__step",
        "task": "task_key",
        "engine": "engine_index",
    }.items():
        if name in wanted:
            query = query.filter(**{column: wanted[name]})
    for name in COMPARED:
        if name in wanted:
            query = query.filter(wanted[name])
    if "is_valid" in wanted:
        query = query.filter(reward__isnull=not wanted["is_valid"])
    if "is_zero_gradient" in wanted:
        query = query.filter(status="completed", group__reward_std__isnull=False)
        has_none = Q(group__reward_std=0)
        query = query.filter(has_none if wanted["is_zero_gradient"] else ~has_none)
    if "q" in wanted:
        query = query.filter(_mentions(wanted["q"]))
    return query


def _mentions(text: str) -> Q:
    found = (
        Q(task_key__icontains=text)
        | Q(task_repository__icontains=text)
        | Q(failure_message__icontains=text)
    )
    is_id = text.isascii() and text.isdecimal() and len(text) < 19
    return found | Q(pk=int(text)) if is_id else found

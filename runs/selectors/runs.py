"""Runs and their stages as the actor may see them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal, cast

from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce
from typing_extensions import TypeAliasType, TypedDict

from controlplane.accounts.access import Actor, role_in, visible_projects
from controlplane.errors import NotFound
from runs.models import Attempt, Consumption, Run, Step, Trajectory
from runs.selectors.commands import (
    RunCommandRow,
    commands_of,
    stage_in_progress,
    why_no_checkpoint,
)
from runs.selectors.stages import StageRow, Tally, shaped_stages, stage_rows, trajectory_tallies

RunStatus = TypeAliasType(
    "RunStatus",
    Literal["draft", "queued", "running", "paused", "stopping", "succeeded", "failed", "cancelled"],
)
RATE_WINDOW = timedelta(minutes=10)


class RunCountsRow(TypedDict):
    """Trajectories of a run now; trained_twice is 0, or there is a bug.

    Rates are per hour over the last ten minutes, or over the whole of a run that has ended.
    """

    in_flight: int
    max_in_flight: int
    queued: int
    completed: int
    failed: int
    cancelled: int
    infra_failures: int
    trained_twice: int
    steps_done: int
    produced_per_h: float | None
    consumed_per_h: float | None


class RunRefRow(TypedDict):
    """Another run, named."""

    id: int
    name: str


class CheckpointRefRow(TypedDict):
    """A checkpoint that a run's first weights come from."""

    id: int
    run: int
    stage: str
    step: int


class RunDetailRow(TypedDict):
    """One execution of a recipe, with its stages, counts and rates, and what may be done with it."""

    id: int
    project: str
    name: str
    is_demo: bool
    status: RunStatus
    wait_sentence: str
    stop_reason: str
    recipe: str
    description: str
    seed: int
    created_by: str | None
    resume: int
    weight_version: int
    cpu_s: float
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    cloned_from: RunRefRow | None
    from_checkpoint: CheckpointRefRow | None
    checkpoint_asked_at: datetime | None
    stages: list[StageRow]
    counts: RunCountsRow
    commands: list[RunCommandRow]


RUN_FIELDS = (
    "id",
    "project_id",
    "recipe",
    "name",
    "is_demo",
    "status",
    "wait_sentence",
    "stop_reason",
    "seed",
    "resume",
    "weight_version",
    "cpu_s",
    "created_at",
    "started_at",
    "finished_at",
)
RUN_ALIASES = {
    "project_slug": F("project__slug"),
    "creator": F("created_by__username"),
}
_DETAIL_FIELDS = (
    "checkpoint_asked_at",
    "cloned_from",
    "cloned_from__name",
    "from_checkpoint",
    "from_checkpoint__run",
    "from_checkpoint__stage__name",
    "from_checkpoint__step",
)


def visible_runs(actor: Actor) -> QuerySet[Run]:
    return Run.objects.filter(project__in=visible_projects(actor))


def visible_run(actor: Actor, run_id: int) -> Run:
    """Raises NotFound, also for a run that is there but not the actor's to see."""
    run = visible_runs(actor).select_related("project").filter(pk=run_id).first()
    if run is None:
        raise NotFound(f"There is no run {run_id} in a project of yours.")
    return run


def run_fields(row: dict[str, Any]) -> dict[str, Any]:
    fields = {name: row[name] for name in RUN_FIELDS if name not in ("project_id", "recipe")}
    fields["project"] = row["project_slug"]
    fields["created_by"] = row["creator"]
    fields["recipe"] = row["recipe"].get("name", "")
    return fields


def run_detail(actor: Actor, run_id: int, *, now: datetime) -> RunDetailRow:
    """Raises NotFound."""
    row = visible_runs(actor).filter(pk=run_id)
    produced = produced_since(now - RATE_WINDOW)
    found = row.values(*RUN_FIELDS, *_DETAIL_FIELDS, **RUN_ALIASES, produced=produced).first()
    if found is None:
        raise NotFound(f"There is no run {run_id} in a project of yours.")
    stages = stage_rows(run_id)
    tallies = trajectory_tallies([stage["id"] for stage in stages])
    no_checkpoint = why_no_checkpoint(
        found["status"], found["checkpoint_asked_at"], stage_in_progress(stages)
    )
    parts = {
        "description": found["recipe"].get("description", ""),
        "cloned_from": _run_ref(found),
        "from_checkpoint": _checkpoint_ref(found),
        "checkpoint_asked_at": found["checkpoint_asked_at"],
        "stages": shaped_stages(stages, found, tallies),
        "counts": _counts(found, tallies, now),
        "commands": commands_of(
            found["status"], role_in(actor, found["project_id"]), no_checkpoint
        ),
    }
    return cast("RunDetailRow", run_fields(found) | parts)


def _run_ref(row: dict[str, Any]) -> RunRefRow | None:
    if row["cloned_from"] is None:
        return None
    return RunRefRow(id=row["cloned_from"], name=row["cloned_from__name"])


def _checkpoint_ref(row: dict[str, Any]) -> CheckpointRefRow | None:
    if row["from_checkpoint"] is None:
        return None
    return CheckpointRefRow(
        id=row["from_checkpoint"],
        run=row["from_checkpoint__run"],
        stage=row["from_checkpoint__stage__name"],
        step=row["from_checkpoint__step"],
    )


def recipe_of(actor: Actor, run_id: int) -> tuple[str, dict[str, Any]]:
    """The text that was launched, and what it means with its defaults. Raises NotFound."""
    run = visible_run(actor, run_id)
    return run.recipe_source, run.recipe


def stages(actor: Actor, run_id: int) -> list[StageRow]:
    """All stages of a run, in order. Raises NotFound."""
    run = visible_run(actor, run_id)
    rows = stage_rows(run.pk)
    found = {"id": run.pk, "project_id": run.project_id, "recipe": run.recipe}
    return shaped_stages(rows, found, trajectory_tallies([row["id"] for row in rows]))


def produced_since(since: datetime) -> Coalesce:
    """Completed trajectories of a query's runs since then."""
    completed = Trajectory.objects.filter(
        run=OuterRef("pk"), status=Trajectory.Status.COMPLETED, finished_at__gte=since
    )
    counted = completed.order_by().values("run").annotate(num=Count("id")).values("num")
    return Coalesce(Subquery(counted), 0)


def produced_per_h(run: dict[str, Any], completed: int, now: datetime) -> float | None:
    """`run["produced"]` is of the rate window, `completed` of the whole run."""
    hours = rate_window(run, now)[1]
    if not hours:
        return None
    return (completed if run["finished_at"] else run["produced"]) / hours


def sum_of(tallies: dict[int, Tally], status: str) -> int:
    return sum(tally.get(status, 0) for tally in tallies.values())


def _counts(run: dict[str, Any], tallies: dict[int, Tally], now: datetime) -> RunCountsRow:
    attempts = Attempt.objects.filter(run=run["id"]).aggregate(
        in_flight=Count("id", filter=Q(status__in=Attempt.IN_FLIGHT)),
        queued=Count("id", filter=Q(status=Attempt.Status.QUEUED)),
        infra_failures=Count("id", filter=Q(status=Attempt.Status.FAILED)),
    )
    since, hours = rate_window(run, now)
    steps = Step.objects.filter(run=run["id"]).aggregate(
        done=Count("id", filter=Q(status=Step.Status.DONE)),
        consumed=Sum("num_trajectories", filter=Q(finished_at__gte=since)),
    )
    completed = sum_of(tallies, Trajectory.Status.COMPLETED)
    return RunCountsRow(
        in_flight=attempts["in_flight"],
        max_in_flight=max_in_flight(run),
        queued=attempts["queued"],
        completed=completed,
        failed=sum_of(tallies, Trajectory.Status.FAILED),
        cancelled=sum_of(tallies, Trajectory.Status.CANCELLED),
        infra_failures=attempts["infra_failures"],
        trained_twice=trained_twice(run["id"]),
        steps_done=steps["done"],
        produced_per_h=produced_per_h(run, completed, now),
        consumed_per_h=(steps["consumed"] or 0) / hours if hours else None,
    )


def max_in_flight(run: dict[str, Any]) -> int:
    limit: int = run["recipe"].get("rollout", {}).get("max_in_flight", 0)
    return limit


def trained_twice(run_id: int) -> int:
    """Trajectories trained by more than one step that still counts: always 0 (invariant 3)."""
    return (
        Consumption.objects.filter(step__run=run_id)
        .exclude(step__status__in=[Step.Status.SUPERSEDED, Step.Status.FAILED])
        .values("trajectory")
        .annotate(num=Count("step"))
        .filter(num__gt=1)
        .count()
    )


def rate_window(run: dict[str, Any], now: datetime) -> tuple[datetime, float]:
    """Since when rates are taken, and how many hours that is: ten minutes, or all of a finished run."""
    started = run["started_at"]
    if started is None:
        return now, 0.0
    end = run["finished_at"] or now
    since = started if run["finished_at"] else max(started, end - RATE_WINDOW)
    return since, (end - since) / timedelta(hours=1)

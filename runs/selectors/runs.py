"""Runs and their stages as the actor may see them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal, cast

from django.db.models import Count, F, Q, QuerySet, Sum
from typing_extensions import TypeAliasType, TypedDict

from controlplane.accounts.access import Actor, visible_projects
from controlplane.errors import NotFound
from controlplane.pages import Rows
from runs.models import Attempt, Run, Stage, Step, TaskSet, Trajectory

RunStatus = TypeAliasType(
    "RunStatus",
    Literal["draft", "queued", "running", "paused", "stopping", "succeeded", "failed", "cancelled"],
)
StageKind = TypeAliasType("StageKind", Literal["eval", "sft", "rl"])
StageStatus = TypeAliasType(
    "StageStatus", Literal["pending", "running", "succeeded", "failed", "cancelled", "skipped"]
)

RATE_WINDOW = timedelta(minutes=10)


class IntervalRow(TypedDict):
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float


class StageResultRow(TypedDict):
    """What an evaluation found: pass@1 with its task-clustered 95 % interval over valid trajectories."""

    pass_at_1: float
    low: float
    high: float
    tasks: int
    attempts: int
    invalid: int


class StageBriefRow(TypedDict):
    """A stage in a list of runs."""

    id: int
    index: int
    name: str
    kind: StageKind
    status: StageStatus
    num_done: int
    num_total: int | None
    pass_at_1: float | None


class StageRow(TypedDict):
    """One part of a run. Its unit of progress is a trajectory (eval) or a step (sft, rl)."""

    id: int
    index: int
    name: str
    kind: StageKind
    status: StageStatus
    num_done: int
    num_total: int | None
    weight_version: int | None
    progress: dict[str, Any]
    result: StageResultRow | None
    baselines: dict[str, IntervalRow]
    failure_message: str
    started_at: datetime | None
    finished_at: datetime | None


class RunRow(TypedDict):
    """One execution of a recipe, as in a list."""

    id: int
    project: str
    name: str
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
    stages: list[StageBriefRow]


class RunCountsRow(TypedDict):
    """Trajectories of a run now. Rates are per hour over the last ten minutes (or the run's own time)."""

    in_flight: int
    max_in_flight: int
    queued: int
    completed: int
    failed: int
    cancelled: int
    infra_failures: int
    steps_done: int
    produced_per_h: float | None
    consumed_per_h: float | None


class RunDetailRow(TypedDict):
    """One execution of a recipe, with its stages, counts and rates."""

    id: int
    project: str
    name: str
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
    stages: list[StageRow]
    counts: RunCountsRow


_FIELDS = (
    "id",
    "name",
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
_ALIASES = {
    "project_slug": F("project__slug"),
    "creator": F("created_by__username"),
    "recipe_name": F("recipe__name"),
    "recipe_description": F("recipe__description"),
}
_STAGE_FIELDS = (
    "id",
    "run_id",
    "index",
    "name",
    "kind",
    "status",
    "num_steps_done",
    "num_steps",
    "weight_version",
    "progress",
    "result",
    "failure_message",
    "started_at",
    "finished_at",
)


def visible_runs(actor: Actor) -> QuerySet[Run]:
    return Run.objects.filter(project__in=visible_projects(actor))


def visible_run(actor: Actor, run_id: int) -> Run:
    """Raises NotFound, also for a run that is there but not the actor's to see."""
    run = visible_runs(actor).select_related("project").filter(pk=run_id).first()
    if run is None:
        raise NotFound(f"There is no run {run_id} in a project of yours.")
    return run


def runs(
    actor: Actor,
    *,
    project: str | None = None,
    status: list[str] | None = None,
    name: str | None = None,
) -> Rows[RunRow]:
    """Newest first; `name` is a part of the name."""
    query = visible_runs(actor)
    if project:
        query = query.filter(project__slug=project)
    if status:
        query = query.filter(status__in=status)
    if name:
        query = query.filter(name__icontains=name)
    return Rows(query.values(*_FIELDS, **_ALIASES), _with_stages)


def _with_stages(found: list[dict[str, Any]]) -> list[RunRow]:
    stages: dict[int, list[StageBriefRow]] = {row["id"]: [] for row in found}
    query = Stage.objects.filter(run__in=list(stages)).order_by("run_id", "index")
    for stage in query.values(*_STAGE_FIELDS):
        num_done, num_total = _progress(stage)
        stages[stage["run_id"]].append(
            StageBriefRow(
                id=stage["id"],
                index=stage["index"],
                name=stage["name"],
                kind=stage["kind"],
                status=stage["status"],
                num_done=num_done,
                num_total=num_total,
                pass_at_1=stage["result"].get("pass_at_1"),
            )
        )
    return [RunRow(**_run_fields(row), stages=stages[row["id"]]) for row in found]  # type: ignore[typeddict-item]


def _run_fields(row: dict[str, Any]) -> dict[str, Any]:
    fields = {name: row[name] for name in _FIELDS}
    fields["project"] = row["project_slug"]
    fields["created_by"] = row["creator"]
    fields["recipe"] = row["recipe_name"] or ""
    fields["description"] = row["recipe_description"] or ""
    return fields


def run_detail(actor: Actor, run_id: int, *, now: datetime) -> RunDetailRow:
    """Raises NotFound."""
    row = visible_runs(actor).filter(pk=run_id).values(*_FIELDS, "recipe", "project_id", **_ALIASES)
    found = row.first()
    if found is None:
        raise NotFound(f"There is no run {run_id} in a project of yours.")
    parts = {
        "stages": _stages(run_id, found["project_id"], found["recipe"]),
        "counts": _counts(found, now),
    }
    return cast("RunDetailRow", _run_fields(found) | parts)


def recipe_of(actor: Actor, run_id: int) -> tuple[str, dict[str, Any]]:
    """The text that was launched, and what it means with its defaults. Raises NotFound."""
    run = visible_run(actor, run_id)
    return run.recipe_source, run.recipe


def stages(actor: Actor, run_id: int) -> list[StageRow]:
    """All stages of a run, in order. Raises NotFound."""
    run = visible_run(actor, run_id)
    return _stages(run.pk, run.project_id, run.recipe)


def _stages(run_id: int, project_id: int, recipe: dict[str, Any]) -> list[StageRow]:
    baselines = _baselines(project_id, recipe)
    found = Stage.objects.filter(run=run_id).order_by("index").values(*_STAGE_FIELDS)
    return [_stage_row(stage, baselines.get(stage["name"], {})) for stage in found]


def _stage_row(stage: dict[str, Any], baselines: dict[str, IntervalRow]) -> StageRow:
    num_done, num_total = _progress(stage)
    result = stage["result"]
    return StageRow(
        id=stage["id"],
        index=stage["index"],
        name=stage["name"],
        kind=stage["kind"],
        status=stage["status"],
        num_done=num_done,
        num_total=num_total,
        weight_version=stage["weight_version"],
        progress=stage["progress"],
        result=(
            StageResultRow(**{key: result[key] for key in StageResultRow.__required_keys__})  # type: ignore[typeddict-item]
            if stage["kind"] == "eval" and "pass_at_1" in result
            else None
        ),
        baselines=baselines,
        failure_message=stage["failure_message"],
        started_at=stage["started_at"],
        finished_at=stage["finished_at"],
    )


def _progress(stage: dict[str, Any]) -> tuple[int, int | None]:
    """Done and to do, in steps; an eval stage and an SFT stage say both in `progress`."""
    progress = stage["progress"]
    done = progress.get("num_done", stage["num_steps_done"])
    total = progress.get("num_total", stage["num_steps"] or None)
    return done, total


def _baselines(project_id: int, recipe: dict[str, Any]) -> dict[str, dict[str, IntervalRow]]:
    """The reference lines of the task set that each eval stage runs on, by the stage's name."""
    references = recipe.get("task_sets", {})
    names = {reference.partition("@")[0] for reference in references.values()}
    found = TaskSet.objects.filter(project=project_id, name__in=names).order_by("version")
    by_reference: dict[str, dict[str, IntervalRow]] = {}
    for name, version, lines in found.values_list("name", "version", "baselines"):
        by_reference[name] = by_reference[f"{name}@{version}"] = lines
    return {
        stage["name"]: by_reference.get(references.get(stage["task_set"], ""), {})
        for stage in recipe.get("stages", [])
        if stage["kind"] == "eval"
    }


def _counts(run: dict[str, Any], now: datetime) -> RunCountsRow:
    attempts = Attempt.objects.filter(run=run["id"]).aggregate(
        in_flight=Count("id", filter=Q(status__in=Attempt.IN_FLIGHT)),
        queued=Count("id", filter=Q(status=Attempt.Status.QUEUED)),
        infra_failures=Count("id", filter=Q(status=Attempt.Status.FAILED)),
    )
    since, hours = _window(run, now)
    trajectories = Trajectory.objects.filter(run=run["id"]).aggregate(
        completed=Count("id", filter=Q(status=Trajectory.Status.COMPLETED)),
        failed=Count("id", filter=Q(status=Trajectory.Status.FAILED)),
        cancelled=Count("id", filter=Q(status=Trajectory.Status.CANCELLED)),
        produced=Count("id", filter=Q(status=Trajectory.Status.COMPLETED, finished_at__gte=since)),
    )
    steps = Step.objects.filter(run=run["id"]).aggregate(
        done=Count("id", filter=Q(status=Step.Status.DONE)),
        consumed=Sum("num_trajectories", filter=Q(finished_at__gte=since)),
    )
    return RunCountsRow(
        in_flight=attempts["in_flight"],
        max_in_flight=run["recipe"].get("rollout", {}).get("max_in_flight", 0),
        queued=attempts["queued"],
        completed=trajectories["completed"],
        failed=trajectories["failed"],
        cancelled=trajectories["cancelled"],
        infra_failures=attempts["infra_failures"],
        steps_done=steps["done"],
        produced_per_h=trajectories["produced"] / hours if hours else None,
        consumed_per_h=(steps["consumed"] or 0) / hours if hours else None,
    )


def _window(run: dict[str, Any], now: datetime) -> tuple[datetime, float]:
    """Since when rates are taken, and how many hours that is: ten minutes, or all of a finished run."""
    started = run["started_at"]
    if started is None:
        return now, 0.0
    end = run["finished_at"] or now
    since = started if run["finished_at"] else max(started, end - RATE_WINDOW)
    return since, (end - since) / timedelta(hours=1)

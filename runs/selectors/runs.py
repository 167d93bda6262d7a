"""Runs and their stages as the actor may see them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, cast

from django.db.models import Count, F, Q, QuerySet, Sum
from typing_extensions import TypeAliasType, TypedDict

from controlplane.accounts.access import Actor, visible_projects
from controlplane.errors import NotFound
from controlplane.pages import Rows
from runs.models import Attempt, Consumption, Run, Stage, Step, TaskSet, Trajectory

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


class PairedRow(TypedDict):
    """The mean difference to an earlier evaluation over the same tasks, with its 95 % interval."""

    against: str
    mean: float
    low: float
    high: float


class StageResultRow(TypedDict):
    """What an evaluation found: pass@1 with its task-clustered 95 % interval.

    An invalid attempt counts as unsolved; beside it the mean over valid attempts only, and what it would be
    had every invalid one solved its task. `attempts` are the valid ones.
    """

    pass_at_1: float
    low: float
    high: float
    tasks: int
    attempts: int
    invalid: int
    valid_only: float | None
    if_invalid_solved: float | None
    paired: PairedRow | None


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
    "project_id",
    "recipe",
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


class _TaskSet(NamedTuple):
    num_usable: int = 0
    baselines: dict[str, IntervalRow] = {}


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
    rows = list(query.values(*_STAGE_FIELDS))
    progress = _progress(rows, {row["id"]: row for row in found}, _task_sets(found))
    for stage in rows:
        num_done, num_total = progress[stage["id"]]
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
    return [cast("RunRow", _run_fields(row) | {"stages": stages[row["id"]]}) for row in found]


def _run_fields(row: dict[str, Any]) -> dict[str, Any]:
    fields = {name: row[name] for name in _FIELDS if name not in ("project_id", "recipe")}
    fields["project"] = row["project_slug"]
    fields["created_by"] = row["creator"]
    fields["recipe"] = row["recipe"].get("name", "")
    fields["description"] = row["recipe"].get("description", "")
    return fields


def run_detail(actor: Actor, run_id: int, *, now: datetime) -> RunDetailRow:
    """Raises NotFound."""
    row = visible_runs(actor).filter(pk=run_id).values(*_FIELDS, **_ALIASES)
    found = row.first()
    if found is None:
        raise NotFound(f"There is no run {run_id} in a project of yours.")
    parts = {
        "stages": _stages(found),
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
    return _stages({"id": run.pk, "project_id": run.project_id, "recipe": run.recipe})


def _stages(run: dict[str, Any]) -> list[StageRow]:
    task_sets = _task_sets([run])
    rows = list(Stage.objects.filter(run=run["id"]).order_by("index").values(*_STAGE_FIELDS))
    progress = _progress(rows, {run["id"]: run}, task_sets)
    return [
        _stage_row(stage, progress[stage["id"]], _task_set_of(stage, run, task_sets).baselines)
        for stage in rows
    ]


def _stage_row(
    stage: dict[str, Any], progress: tuple[int, int | None], baselines: dict[str, IntervalRow]
) -> StageRow:
    return StageRow(
        id=stage["id"],
        index=stage["index"],
        name=stage["name"],
        kind=stage["kind"],
        status=stage["status"],
        num_done=progress[0],
        num_total=progress[1],
        weight_version=stage["weight_version"],
        result=_result(stage["result"]) if stage["kind"] == "eval" else None,
        baselines=baselines,
        failure_message=stage["failure_message"],
        started_at=stage["started_at"],
        finished_at=stage["finished_at"],
    )


def _result(found: dict[str, Any]) -> StageResultRow | None:
    if "pass_at_1" not in found:
        return None
    return StageResultRow(
        pass_at_1=found["pass_at_1"],
        low=found["low"],
        high=found["high"],
        tasks=found["tasks"],
        attempts=found["attempts"],
        invalid=found["invalid"],
        valid_only=found.get("valid_only"),
        if_invalid_solved=found.get("if_invalid_solved"),
        paired=found.get("paired"),
    )


def _progress(
    stages: list[dict[str, Any]],
    runs: dict[int, dict[str, Any]],
    task_sets: dict[tuple[int, str], _TaskSet],
) -> dict[int, tuple[int, int | None]]:
    """By stage, what is done and what there is to do: steps, or trajectories of an evaluation."""
    evals = [s for s in stages if s["kind"] == "eval" and "pass_at_1" not in s["result"]]
    ended = dict(
        Trajectory.objects.filter(stage__in=[s["id"] for s in evals])
        .exclude(status=Trajectory.Status.OPEN)
        .values_list("stage")
        .annotate(Count("id"))
    )
    found: dict[int, tuple[int, int | None]] = {}
    for stage in stages:
        if stage["kind"] == "rl":
            found[stage["id"]] = stage["num_steps_done"], stage["num_steps"] or None
        elif stage["kind"] == "sft":
            steps = stage["progress"]
            found[stage["id"]] = steps.get("step", 0), steps.get("num_steps")
        elif "pass_at_1" in stage["result"]:
            num = stage["result"]["attempts"] + stage["result"]["invalid"]
            found[stage["id"]] = num, num
        else:
            run = runs[stage["run_id"]]
            num_tasks = _task_set_of(stage, run, task_sets).num_usable
            plan = _plan_of(stage, run)
            wanted = min(num_tasks, plan.get("num_tasks") or num_tasks) * plan.get("attempts", 0)
            found[stage["id"]] = ended.get(stage["id"], 0), wanted or None
    return found


def _plan_of(stage: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    """The stage as the recipe has it; empty when a recipe has no such stage."""
    for plan in run["recipe"].get("stages", []):
        if plan["name"] == stage["name"]:
            return cast("dict[str, Any]", plan)
    return {}


def _task_set_of(
    stage: dict[str, Any], run: dict[str, Any], task_sets: dict[tuple[int, str], _TaskSet]
) -> _TaskSet:
    """The task set that an eval stage runs on; an empty one for other stages."""
    plan = _plan_of(stage, run)
    reference = run["recipe"].get("task_sets", {}).get(plan.get("task_set"), "")
    if stage["kind"] != "eval":
        return _TaskSet()
    return task_sets.get((run["project_id"], reference), _TaskSet())


def _task_sets(runs: list[dict[str, Any]]) -> dict[tuple[int, str], _TaskSet]:
    """By project and reference (`name` is its latest version, `name@3` a fixed one)."""
    references = [r for run in runs for r in run["recipe"].get("task_sets", {}).values()]
    rows = (
        TaskSet.objects.filter(
            project__in={run["project_id"] for run in runs},
            name__in={reference.partition("@")[0] for reference in references},
        )
        .annotate(num_bad=Count("tasks", filter=Q(tasks__quarantined_at__isnull=False)))
        .order_by("version")
        .values_list("project", "name", "version", "num_tasks", "num_bad", "baselines")
    )
    found: dict[tuple[int, str], _TaskSet] = {}
    for project, name, version, num_tasks, num_bad, baselines in rows:
        task_set = _TaskSet(num_tasks - num_bad, baselines)
        found[project, name] = found[project, f"{name}@{version}"] = task_set
    return found


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
        trained_twice=trained_twice(run["id"]),
        steps_done=steps["done"],
        produced_per_h=trajectories["produced"] / hours if hours else None,
        consumed_per_h=(steps["consumed"] or 0) / hours if hours else None,
    )


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


def _window(run: dict[str, Any], now: datetime) -> tuple[datetime, float]:
    """Since when rates are taken, and how many hours that is: ten minutes, or all of a finished run."""
    started = run["started_at"]
    if started is None:
        return now, 0.0
    end = run["finished_at"] or now
    since = started if run["finished_at"] else max(started, end - RATE_WINDOW)
    return since, (end - since) / timedelta(hours=1)

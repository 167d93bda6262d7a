"""A run's stages: what each is, what is done of it, what it found. Raw rows in, API rows out; no actor here."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, NamedTuple, cast

from django.db.models import Count, Q
from typing_extensions import TypeAliasType, TypedDict

from runs.models import Stage, TaskSet, Trajectory
from runs.selectors.commands import STAGE_FACTS

StageKind = TypeAliasType("StageKind", Literal["eval", "sft", "rl"])
StageStatus = TypeAliasType(
    "StageStatus", Literal["pending", "running", "succeeded", "failed", "cancelled", "skipped"]
)


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


STAGE_FIELDS = (
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


Tally = dict[str, int]
"""Trajectories by status."""


class _TaskSet(NamedTuple):
    num_usable: int = 0
    baselines: dict[str, IntervalRow] = {}


def stage_rows(run_id: int) -> list[dict[str, Any]]:
    query = Stage.objects.filter(run=run_id).order_by("index")
    return list(query.values(*STAGE_FIELDS, **STAGE_FACTS))


def shaped_stages(
    rows: list[dict[str, Any]], run: dict[str, Any], tallies: dict[int, Tally]
) -> list[StageRow]:
    task_sets = task_sets_of([run])
    progress = stage_progress(rows, {run["id"]: run}, task_sets, tallies)
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


def trajectory_tallies(stages: list[int]) -> dict[int, Tally]:
    """By stage, how many trajectories it has in each status; an index alone answers."""
    tallies: dict[int, Tally] = {stage: {} for stage in stages}
    rows = Trajectory.objects.filter(stage__in=stages).values_list("stage", "status")
    for stage, status, num in rows.annotate(Count("id")):
        tallies[stage][status] = num
    return tallies


def stage_progress(
    stages: list[dict[str, Any]],
    runs: dict[int, dict[str, Any]],
    task_sets: dict[tuple[int, str], _TaskSet],
    tallies: dict[int, Tally],
) -> dict[int, tuple[int, int | None]]:
    """By stage, what is done and what there is to do: steps, or trajectories of an evaluation."""
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
            tally = tallies[stage["id"]]
            ended = sum(tally.values()) - tally.get(Trajectory.Status.OPEN, 0)
            found[stage["id"]] = ended, wanted or None
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


def task_sets_of(runs: list[dict[str, Any]]) -> dict[tuple[int, str], _TaskSet]:
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

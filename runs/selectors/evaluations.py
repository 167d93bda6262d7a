"""Evaluations of a run: pass@1 per eval stage with its interval, and per task."""

from __future__ import annotations

from typing import Any

from django.db.models import Avg, Count, F, Q
from typing_extensions import TypedDict

from controlplane.accounts.access import Actor
from runs.models import Trajectory
from runs.selectors.runs import IntervalRow, StageRow, StageStatus, stages
from runs.statistics import clustered_mean


class TaskResultRow(TypedDict):
    """One task of an evaluation: scheduled attempts, valid ones, and their mean reward."""

    task: str
    repository: str
    num_scheduled: int
    num_valid: int
    num_solved: int
    reward_mean: float | None


class EvaluationRow(TypedDict):
    """pass_at_1 is over valid trajectories; pass_at_1_strict counts every other ended one as unsolved."""

    stage: str
    status: StageStatus
    weight_version: int | None
    pass_at_1: IntervalRow | None
    pass_at_1_strict: float | None
    num_tasks: int
    num_scheduled: int
    num_valid: int
    num_invalid: int
    is_final: bool
    baselines: dict[str, IntervalRow]
    tasks: list[TaskResultRow]


class EvaluationsRow(TypedDict):
    evaluations: list[EvaluationRow]


def evaluations(actor: Actor, *, run: int) -> EvaluationsRow:
    """Every eval stage of the run, in order, also while it runs. Raises NotFound."""
    evals = [stage for stage in stages(actor, run) if stage["kind"] == "eval"]
    by_stage: dict[int, list[TaskResultRow]] = {stage["id"]: [] for stage in evals}
    for row in _per_task(list(by_stage)):
        by_stage[row.pop("stage_id")].append(row)  # type: ignore[arg-type]
    return EvaluationsRow(evaluations=[_evaluation(s, by_stage[s["id"]]) for s in evals])


def _per_task(stage_ids: list[int]) -> list[dict[str, Any]]:
    valid = Q(reward__isnull=False)
    query = Trajectory.objects.filter(stage__in=stage_ids).values(
        "stage_id", repository=F("task__repository"), task_key=F("task__key")
    )
    rows = query.annotate(
        num_scheduled=Count("id"),
        num_valid=Count("id", filter=valid),
        num_solved=Count("id", filter=Q(reward__gte=1)),
        num_ended=Count("id", filter=~Q(status=Trajectory.Status.OPEN)),
        reward_mean=Avg("reward"),
    ).order_by("stage_id", "task__key")
    return [{**row, "task": row["task_key"]} for row in rows]


def _evaluation(stage: StageRow, tasks: list[Any]) -> EvaluationRow:
    num_ended = sum(row.pop("num_ended") for row in tasks)
    for row in tasks:
        del row["task_key"]
    means = [row["reward_mean"] for row in tasks if row["reward_mean"] is not None]
    estimate = clustered_mean(means) if means else None
    num_valid = sum(row["num_valid"] for row in tasks)
    total = sum(row["reward_mean"] * row["num_valid"] for row in tasks if row["num_valid"])
    return EvaluationRow(
        stage=stage["name"],
        status=stage["status"],
        weight_version=stage["weight_version"],
        pass_at_1=_interval(stage, estimate),
        pass_at_1_strict=total / num_ended if num_ended else None,
        num_tasks=len(tasks),
        num_scheduled=sum(row["num_scheduled"] for row in tasks),
        num_valid=num_valid,
        num_invalid=num_ended - num_valid,
        is_final=stage["status"] == "succeeded",
        baselines=stage["baselines"],
        tasks=tasks,
    )


def _interval(stage: StageRow, estimate: Any) -> IntervalRow | None:
    """What the stage recorded at its end; while it runs, the estimate over the tasks seen so far."""
    result = stage["result"]
    if result is not None:
        return IntervalRow(mean=result["pass_at_1"], low=result["low"], high=result["high"])
    if estimate is None:
        return None
    return IntervalRow(mean=estimate.mean, low=estimate.low, high=estimate.high)

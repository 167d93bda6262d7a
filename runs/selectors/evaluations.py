"""Evaluations of a run: pass@1 per eval stage with its interval, and per task."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from django.db.models import Count, F, Q, QuerySet, Sum
from typing_extensions import TypedDict

from controlplane.accounts.access import Actor
from runs.models import Group, Trajectory
from runs.selectors.runs import stages
from runs.selectors.stages import IntervalRow, PairedRow, StageRow, StageStatus
from runs.statistics import clustered_mean


class TaskResultRow(TypedDict):
    """One task of an evaluation. pass_at_1: over the attempts that ended, an invalid one as unsolved."""

    task: str
    repository: str
    num_scheduled: int
    num_ended: int
    num_valid: int
    num_solved: int
    pass_at_1: float | None


class EvaluationRow(TypedDict):
    """An eval stage; its id is what `/evals/compare?arms=` takes.

    While it runs, its pass@1 is over the attempts that have ended (is_final is false).

    An invalid attempt counts as unsolved; valid_only and if_invalid_solved say what that may hide.
    """

    id: int
    stage: str
    status: StageStatus
    weight_version: int | None
    is_final: bool
    pass_at_1: IntervalRow | None
    valid_only: float | None
    if_invalid_solved: float | None
    paired: PairedRow | None
    num_tasks: int
    num_scheduled: int
    num_valid: int
    num_invalid: int
    baselines: dict[str, IntervalRow]
    tasks: list[TaskResultRow]


class EvaluationsRow(TypedDict):
    evaluations: list[EvaluationRow]


def evaluations(actor: Actor, *, run: int) -> EvaluationsRow:
    """Every eval stage of the run, in order, also while it runs. Raises NotFound."""
    evals = [stage for stage in stages(actor, run) if stage["kind"] == "eval"]
    by_stage: dict[int, list[dict[str, Any]]] = {stage["id"]: [] for stage in evals}
    for row in _per_task(list(by_stage)):
        by_stage[row["stage_id"]].append(row)
    return EvaluationsRow(evaluations=[_evaluation(s, by_stage[s["id"]]) for s in evals])


def _per_task(stage_ids: list[int]) -> list[dict[str, Any]]:
    valid = Q(reward__isnull=False)
    query: QuerySet[Any, Any] = (
        Trajectory.objects.filter(stage__in=stage_ids)
        .exclude(group__status=Group.Status.DROPPED)
        .values("stage_id", repository=F("task__repository"), task_key=F("task__key"))
        .annotate(
            num_scheduled=Count("id"),
            num_ended=Count("id", filter=~Q(status=Trajectory.Status.OPEN)),
            num_valid=Count("id", filter=valid),
            num_solved=Count("id", filter=Q(reward__gte=1)),
            total=Sum("reward"),
        )
    )
    return list(query.order_by("stage_id", "task__key"))


def _evaluation(stage: StageRow, tasks: list[dict[str, Any]]) -> EvaluationRow:
    result = stage["result"]
    num_ended = sum(row["num_ended"] for row in tasks)
    num_valid = sum(row["num_valid"] for row in tasks)
    return EvaluationRow(
        id=stage["id"],
        stage=stage["name"],
        status=stage["status"],
        weight_version=stage["weight_version"],
        is_final=result is not None,
        pass_at_1=_recorded(stage) or _so_far(tasks),
        valid_only=result["valid_only"] if result else None,
        if_invalid_solved=result["if_invalid_solved"] if result else None,
        paired=result["paired"] if result else None,
        num_tasks=len(tasks),
        num_scheduled=sum(row["num_scheduled"] for row in tasks),
        num_valid=num_valid,
        num_invalid=num_ended - num_valid,
        baselines=stage["baselines"],
        tasks=[
            TaskResultRow(
                task=row["task_key"],
                repository=row["repository"],
                num_scheduled=row["num_scheduled"],
                num_ended=row["num_ended"],
                num_valid=row["num_valid"],
                num_solved=row["num_solved"],
                pass_at_1=_mean(row),
            )
            for row in tasks
        ],
    )


def _mean(row: dict[str, Any]) -> float | None:
    return (row["total"] or 0.0) / row["num_ended"] if row["num_ended"] else None


def _recorded(stage: StageRow) -> IntervalRow | None:
    result = stage["result"]
    if result is None:
        return None
    return IntervalRow(mean=result["pass_at_1"], low=result["low"], high=result["high"])


def _so_far(tasks: list[dict[str, Any]]) -> IntervalRow | None:
    means = tuple(mean for row in tasks if (mean := _mean(row)) is not None)
    return _estimate(means) if means else None


@lru_cache(maxsize=64)
def _estimate(means: tuple[float, ...]) -> IntervalRow:
    """The bootstrap costs tens of milliseconds; a page that asks again without news gets it free."""
    estimate = clustered_mean(means)
    return IntervalRow(mean=estimate.mean, low=estimate.low, high=estimate.high)

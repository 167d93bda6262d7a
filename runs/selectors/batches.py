"""One optimizer step from near: the groups of its batch, their members and the time each of them took."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

from django.db.models import F, Q, Sum
from typing_extensions import TypedDict

from controlplane.accounts.access import Actor
from controlplane.errors import NotFound
from runs.models import Attempt, Group, MetricPoint, Stage, Step, Trajectory
from runs.selectors.history import StepRow
from runs.selectors.metrics import NonFinite, in_json
from runs.selectors.runs import visible_run
from runs.selectors.trajectories import (
    AttemptStatus,
    GroupStatus,
    StopReason,
    TaskBriefRow,
    TrajectoryStatus,
)


class AttemptSpanRow(TypedDict):
    """One attempt as a span of time; timings are seconds by start, setup, llm, exec, verify, teardown."""

    number: int
    status: AttemptStatus
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    timings: dict[str, float]


class BatchMemberRow(TypedDict):
    """A trajectory of the batch. reward is None where the infrastructure failed it: then it was not trained."""

    id: int
    index: int
    status: TrajectoryStatus
    reward: float | None
    advantage: float | None
    stop_reason: StopReason
    num_turns: int
    output_tokens: int
    version_min: int | None
    version_max: int | None
    attempts: list[AttemptSpanRow]


class BatchGroupRow(TypedDict):
    """A group of the batch; statistics are over its valid members."""

    id: int
    task: TaskBriefRow
    index: int
    status: GroupStatus
    num_valid: int | None
    reward_mean: float | None
    reward_std: float | None
    oldest_version: int | None
    opened_at: datetime
    ready_at: datetime | None
    finished_at: datetime | None
    members: list[BatchMemberRow]


class StepValueRow(TypedDict):
    name: str
    value: float | NonFinite


class StepDetailRow(StepRow):
    """A step with all its metrics and the groups that it trained. A superseded step keeps its members, whose
    groups may have been trained again by a later one."""

    values: list[StepValueRow]
    groups: list[BatchGroupRow]


_MEMBER_FIELDS = (
    "id",
    "index",
    "status",
    "reward",
    "advantage",
    "stop_reason",
    "num_turns",
    "output_tokens",
    "version_min",
    "version_max",
)
_GROUP_FIELDS = (
    "id",
    "task_id",
    "index",
    "status",
    "num_valid",
    "reward_mean",
    "reward_std",
    "oldest_version",
    "opened_at",
    "ready_at",
    "finished_at",
)


def step_detail(actor: Actor, *, run: int, step: int) -> StepDetailRow:
    """Raises NotFound."""
    owner = visible_run(actor, run)
    found = Step.objects.select_related("stage").filter(run=owner, pk=step).first()
    if found is None:
        raise NotFound(f"There is no step {step} in run {owner.pk}.")
    row = {name: getattr(found, name) for name in StepRow.__annotations__ if name != "stage"}
    row |= {"stage": found.stage.name, "values": _values(found), "groups": _groups(step)}
    return cast("StepDetailRow", row)


def _values(step: Step) -> list[StepValueRow]:
    """Points are counted through all RL stages of a run; a step by its place in its own."""
    earlier = Stage.objects.filter(run=step.run_id, kind=Stage.Kind.RL, index__lt=step.stage.index)
    offset = earlier.aggregate(num=Sum("num_steps"))["num"] or 0
    points = MetricPoint.objects.filter(
        run=step.run_id, resume=step.resume, step=offset + step.index
    ).exclude(name__startswith="sft/")
    return [
        StepValueRow(name=name, value=in_json(value))
        for name, value in points.order_by("name").values_list("name", "value")
    ]


def _groups(step: int) -> list[BatchGroupRow]:
    trained = Trajectory.objects.filter(consumptions__step=step).values("group")
    found = list(
        Group.objects.filter(Q(step=step) | Q(pk__in=trained))
        .order_by("index")
        .values(*_GROUP_FIELDS, key=F("task__key"), repository=F("task__repository"))
    )
    members = _members([group["id"] for group in found])
    for group in found:
        group["task"] = TaskBriefRow(
            id=group.pop("task_id"), key=group.pop("key"), repository=group.pop("repository")
        )
        group["members"] = members.get(group["id"], [])
    return cast("list[BatchGroupRow]", found)


def _members(groups: list[int]) -> dict[int, list[dict[str, Any]]]:
    spans: dict[int, list[dict[str, Any]]] = {}
    attempts = Attempt.objects.filter(trajectory__group__in=groups).order_by("number")
    for span in attempts.values("trajectory_id", *AttemptSpanRow.__annotations__):
        spans.setdefault(span.pop("trajectory_id"), []).append(span)
    members: dict[int, list[dict[str, Any]]] = {}
    rows = Trajectory.objects.filter(group__in=groups).order_by("index")
    for row in rows.values("group_id", *_MEMBER_FIELDS):
        members.setdefault(row.pop("group_id"), []).append(
            {**row, "attempts": spans.get(row["id"], [])}
        )
    return members

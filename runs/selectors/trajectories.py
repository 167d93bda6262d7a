"""Groups, trajectories, attempts and turns as the actor may see them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, cast

from django.db.models import F, Q, QuerySet, Subquery
from typing_extensions import TypeAliasType, TypedDict

from controlplane.accounts.access import Actor, visible_projects
from controlplane.errors import NotFound
from controlplane.pages import Rows
from runs.models import Attempt, Group, Trajectory, Turn
from runs.selectors.runs import visible_run

GroupStatus = TypeAliasType(
    "GroupStatus", Literal["open", "ready", "consumed", "scored", "dropped"]
)
DropReason = TypeAliasType(
    "DropReason", Literal["", "stale", "too_few_valid", "superseded", "cancelled", "zero_variance"]
)
TrajectoryStatus = TypeAliasType(
    "TrajectoryStatus", Literal["open", "completed", "failed", "cancelled"]
)
AttemptStatus = TypeAliasType(
    "AttemptStatus",
    Literal["queued", "starting", "running", "grading", "completed", "failed", "cancelled"],
)
StopReason = TypeAliasType(
    "StopReason",
    Literal[
        "",
        "submitted",
        "turn_cap",
        "token_cap",
        "turn_token_cap",
        "time_cap",
        "no_action",
        "loop",
        "broke_sandbox",
    ],
)
CancelReason = TypeAliasType(
    "CancelReason", Literal["", "stale", "group_released", "run_stopped", "superseded"]
)


class TaskBriefRow(TypedDict):
    id: int
    key: str
    repository: str


class FailureBriefRow(TypedDict):
    """What the infrastructure did to an attempt."""

    stage: str
    kind: str
    message: str


class GroupRow(TypedDict):
    """The sibling trajectories of one task; statistics are over valid members only."""

    id: int
    run: int
    stage: str
    task: TaskBriefRow
    index: int
    status: GroupStatus
    drop_reason: DropReason
    resume: int
    opened_version: int
    oldest_version: int | None
    num_members: int
    num_ended: int
    num_valid: int | None
    reward_mean: float | None
    reward_std: float | None
    step: int | None
    opened_at: datetime
    ready_at: datetime | None
    finished_at: datetime | None


class TrajectoryRow(TypedDict):
    """One sample of the policy. `failure` and `attempt_status` are those of its newest attempt."""

    id: int
    run: int
    stage: str
    group: int
    task: TaskBriefRow
    index: int
    status: TrajectoryStatus
    attempt_status: AttemptStatus | None
    num_attempts: int
    reward: float | None
    advantage: float | None
    stop_reason: StopReason
    num_turns: int
    prompt_tokens: int
    output_tokens: int
    version_min: int | None
    version_max: int | None
    failure: FailureBriefRow | None
    duration_s: float | None
    created_at: datetime
    finished_at: datetime | None


class GradeRow(TypedDict, total=False):
    """What the verifier said."""

    details: dict[str, Any]
    output: str
    duration_s: float


class AttemptRow(TypedDict):
    """A try at running a trajectory. timings: seconds by queue, start, setup, llm, exec, verify, teardown."""

    id: int
    number: int
    status: AttemptStatus
    stop_reason: StopReason
    cancel_reason: CancelReason
    reward: float | None
    is_attributed_to_policy: bool
    failure: FailureBriefRow | None
    num_turns: int
    prompt_tokens: int
    output_tokens: int
    version_min: int | None
    version_max: int | None
    timings: dict[str, float]
    grade: GradeRow
    worker: str | None
    engine: int | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class TrajectoryDetailRow(TrajectoryRow):
    """A trajectory with its task's instruction and every attempt, oldest first."""

    instruction: str
    difficulty: str
    attempts: list[AttemptRow]


class TurnRow(TypedDict):
    """One model call, its action and the observation that came back: untrusted text."""

    index: int
    started_at: datetime
    llm_s: float
    exec_s: float
    action: str
    command: str
    observation: str
    exit_code: int | None
    finish_reason: str
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    version_min: int | None
    version_max: int | None
    is_timed_out: bool
    truncated_bytes: int


_TASK = {
    "task_key": F("task__key"),
    "task_repository": F("task__repository"),
    "stage_name": F("stage__name"),
}
_GROUP_FIELDS = (
    "id",
    "run_id",
    "task_id",
    "index",
    "status",
    "drop_reason",
    "resume",
    "opened_version",
    "oldest_version",
    "num_members",
    "num_ended",
    "num_valid",
    "reward_mean",
    "reward_std",
    "step_id",
    "opened_at",
    "ready_at",
    "finished_at",
)
_TRAJECTORY_FIELDS = (
    "id",
    "run_id",
    "group_id",
    "task_id",
    "index",
    "status",
    "num_attempts",
    "reward",
    "advantage",
    "stop_reason",
    "num_turns",
    "prompt_tokens",
    "output_tokens",
    "version_min",
    "version_max",
    "created_at",
    "finished_at",
)
_ATTEMPT_FIELDS = (
    "id",
    "number",
    "status",
    "stop_reason",
    "cancel_reason",
    "reward",
    "is_attributed_to_policy",
    "failure_stage",
    "failure_class",
    "failure_message",
    "num_turns",
    "prompt_tokens",
    "output_tokens",
    "version_min",
    "version_max",
    "timings",
    "grade",
    "created_at",
    "started_at",
    "finished_at",
)


def groups(
    actor: Actor,
    *,
    run: int | None = None,
    stage: str | None = None,
    status: list[str] | None = None,
    step: int | None = None,
) -> Rows[GroupRow]:
    """Newest first. Raises NotFound for a run that the actor may not see."""
    query = _of_run(Group.objects.all(), actor, run)
    query = _narrow(query, stage__name=stage, status__in=status, step=step)
    return Rows(query.values(*_GROUP_FIELDS, **_TASK), _group_rows)


def _group_rows(rows: list[dict[str, Any]]) -> list[GroupRow]:
    for row in rows:
        row["run"], row["step"] = row.pop("run_id"), row.pop("step_id")
        _nest(row)
    return rows  # type: ignore[return-value]


def _of_run(query: QuerySet[Any], actor: Actor, run: int | None) -> QuerySet[Any]:
    if run is None:
        return query.filter(run__project__in=visible_projects(actor))
    return query.filter(run=visible_run(actor, run))


def _narrow(query: QuerySet[Any], **conditions: Any) -> QuerySet[Any]:
    return query.filter(**{name: value for name, value in conditions.items() if value is not None})


def _nest(row: dict[str, Any]) -> None:
    row["stage"] = row.pop("stage_name")
    row["task"] = TaskBriefRow(
        id=row.pop("task_id"), key=row.pop("task_key"), repository=row.pop("task_repository")
    )


def trajectories(
    actor: Actor,
    *,
    run: int | None = None,
    stage: str | None = None,
    group: int | None = None,
    status: list[str] | None = None,
    task: str | None = None,
    stop_reason: list[str] | None = None,
    is_valid: bool | None = None,
    reward: Q | None = None,
) -> Rows[TrajectoryRow]:
    """Newest first. is_valid: it has a reward that may be trusted. Raises NotFound."""
    query = _of_run(Trajectory.objects.all(), actor, run)
    query = _narrow(
        query,
        stage__name=stage,
        group=group,
        status__in=status,
        task__key=task,
        stop_reason__in=stop_reason,
    )
    if is_valid is not None:
        query = query.filter(reward__isnull=not is_valid)
    if reward is not None:
        query = query.filter(reward)
    return Rows(query.values(*_TRAJECTORY_FIELDS, **_TASK), _trajectory_rows)


def _trajectory_rows(rows: list[dict[str, Any]]) -> list[TrajectoryRow]:
    newest = _newest_attempts([row["id"] for row in rows])
    for row in rows:
        row["run"], row["group"] = row.pop("run_id"), row.pop("group_id")
        _nest(row)
        attempt = newest.get(row["id"])
        row["attempt_status"] = attempt["status"] if attempt else None
        row["failure"] = _failure(attempt) if attempt else None
        row["duration_s"] = _seconds(attempt) if attempt else None
    return rows  # type: ignore[return-value]


def _newest_attempts(trajectory_ids: list[int]) -> dict[int, dict[str, Any]]:
    newest = (
        Attempt.objects.filter(trajectory__in=trajectory_ids)
        .order_by("trajectory_id", "-number")
        .distinct("trajectory_id")
    )
    fields = ("status", "failure_stage", "failure_class", "failure_message")
    times = ("trajectory_id", "started_at", "finished_at")
    return {row["trajectory_id"]: row for row in newest.values(*fields, *times)}


def _failure(attempt: dict[str, Any]) -> FailureBriefRow | None:
    if not attempt["failure_class"]:
        return None
    return FailureBriefRow(
        stage=attempt["failure_stage"],
        kind=attempt["failure_class"],
        message=attempt["failure_message"],
    )


def _seconds(attempt: dict[str, Any]) -> float | None:
    if attempt["started_at"] is None or attempt["finished_at"] is None:
        return None
    seconds: float = (attempt["finished_at"] - attempt["started_at"]).total_seconds()
    return seconds


def trajectory_detail(actor: Actor, trajectory_id: int) -> TrajectoryDetailRow:
    """Raises NotFound."""
    query = _of_run(Trajectory.objects.filter(pk=trajectory_id), actor, None)
    extra = {"instruction": F("task__instruction"), "difficulty": F("task__difficulty")}
    found = list(query.values(*_TRAJECTORY_FIELDS, **_TASK, **extra))
    if not found:
        raise NotFound(f"There is no trajectory {trajectory_id} in a project of yours.")
    row: dict[str, Any] = {**_trajectory_rows(found)[0], "attempts": _attempts(trajectory_id)}
    return cast("TrajectoryDetailRow", row)


def _attempts(trajectory_id: int) -> list[AttemptRow]:
    query = Attempt.objects.filter(trajectory=trajectory_id).order_by("number")
    rows = list(
        query.values(
            *_ATTEMPT_FIELDS, worker_name=F("worker__name"), engine_index=F("engine__index")
        )
    )
    for row in rows:
        row["failure"] = _failure(row)
        del row["failure_stage"], row["failure_class"], row["failure_message"]
        row["worker"], row["engine"] = row.pop("worker_name"), row.pop("engine_index")
    return cast("list[AttemptRow]", rows)


def turns(
    actor: Actor, trajectory_id: int, *, attempt: int | None = None, from_index: int = 0
) -> Rows[TurnRow]:
    """Turns of an attempt (by its number; the newest by default) from an index on. Raises NotFound."""
    if not _of_run(Trajectory.objects.filter(pk=trajectory_id), actor, None).exists():
        raise NotFound(f"There is no trajectory {trajectory_id} in a project of yours.")
    attempts = _narrow(Attempt.objects.filter(trajectory=trajectory_id), number=attempt)
    wanted = attempts.order_by("-number").values("pk")[:1]
    query = Turn.objects.filter(attempt=Subquery(wanted), index__gte=from_index)
    return Rows(query.values(*TurnRow.__annotations__), lambda rows: rows, key="index")  # type: ignore[arg-type,return-value]

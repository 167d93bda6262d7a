"""Trajectories, attempts and turns as the actor may see them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, Unpack, cast

from django.db.models import Count, F, QuerySet, Subquery
from django.db.models.functions import Left, Length
from typing_extensions import TypeAliasType, TypedDict

from controlplane.accounts.access import Actor, visible_projects
from controlplane.errors import NotFound
from controlplane.pages import Rows
from runs.models import Attempt, Trajectory, Turn
from runs.selectors.runs import visible_run
from runs.selectors.trajectory_query import TrajectoryFilters, annotated, narrowed
from sandboxes.models import Failure

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
Outcome = TypeAliasType("Outcome", Literal["solved", "unsolved", "invalid", "running", "cancelled"])
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


class TrajectoryRow(TypedDict):
    """One sample of the policy.

    What ran it (attempt_status, failure, timings, driver, engine, queue_s, started_at, duration_s) is of its
    newest attempt; timings are seconds by start, setup, llm, exec, verify, teardown. staleness is in weight
    versions from its oldest token to the trainer, where it was trained. num_turns goes on while it runs.
    """

    id: int
    run: int
    stage: str
    group: int
    task: TaskBriefRow
    index: int
    status: TrajectoryStatus
    outcome: Outcome
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
    step: int | None
    step_index: int | None
    staleness: int | None
    failure: FailureBriefRow | None
    failure_group: int | None
    fingerprint: str | None
    driver: str | None
    engine: int | None
    timings: dict[str, float]
    queue_s: float | None
    duration_s: float | None
    llm_share: float | None
    created_at: datetime
    started_at: datetime | None
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
    num_llm_errors: int
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
    """One model call, its action and the observation that came back: untrusted text.

    Texts are cut at 64 KiB characters: a larger *_length says so, and .../text?part= has the rest.
    log_length: of the raw output; 0 where it equals the observation.
    """

    index: int
    started_at: datetime
    llm_s: float
    queue_s: float | None
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
    action_length: int
    command_length: int
    observation_length: int
    log_length: int


MAX_BODY_CHARS = 65_536
_BODIES = ("action", "command", "observation")

_TRAJECTORY_FIELDS = (
    "id",
    "run_id",
    "stage_name",
    "group_id",
    "task_id",
    "task_key",
    "task_repository",
    "index",
    "status",
    "outcome",
    "attempt_status",
    "num_attempts",
    "reward",
    "advantage",
    "stop_reason",
    "num_turns",
    "prompt_tokens",
    "output_tokens",
    "version_min",
    "version_max",
    "step_id",
    "step_index",
    "staleness",
    "failure_stage",
    "failure_kind",
    "failure_message",
    "driver",
    "engine_index",
    "timings",
    "start_s",
    "queue_s",
    "duration_s",
    "llm_share",
    "newest_id",
    "created_at",
    "started_at",
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
    "num_llm_errors",
    "created_at",
    "started_at",
    "finished_at",
)


def of_run(query: QuerySet[Any], actor: Actor, run: int | None) -> QuerySet[Any]:
    """Of one run, or of all that the actor may see. Raises NotFound."""
    if run is None:
        return query.filter(run__project__in=visible_projects(actor))
    return query.filter(run=visible_run(actor, run))


def narrow(query: QuerySet[Any], **conditions: Any) -> QuerySet[Any]:
    """By the conditions that are given."""
    return query.filter(**{name: value for name, value in conditions.items() if value is not None})


def nest_task(row: dict[str, Any]) -> None:
    """The columns of its task and stage as the API has them."""
    row["stage"] = row.pop("stage_name")
    row["task"] = TaskBriefRow(
        id=row.pop("task_id"), key=row.pop("task_key"), repository=row.pop("task_repository")
    )


def trajectories(
    actor: Actor,
    *,
    run: int | None = None,
    sort: str | None = None,
    **given: Unpack[TrajectoryFilters],
) -> Rows[TrajectoryRow]:
    """Newest first, or by a column of SORTABLE. Raises NotFound."""
    query = narrowed(annotated(of_run(Trajectory.objects.all(), actor, run)), given)
    return Rows(query.values(*_TRAJECTORY_FIELDS), _trajectory_rows, sort=sort)


def _trajectory_rows(rows: list[dict[str, Any]]) -> list[TrajectoryRow]:
    failed = [row["newest_id"] for row in rows if row["failure_kind"]]
    failures: dict[Any, Any] = {
        row["attempt_id"]: row
        for row in Failure.objects.filter(attempt_id__in=failed).values(
            "attempt_id", "group_id", fingerprint=F("group__fingerprint")
        )
    }
    in_flight = [row["newest_id"] for row in rows if row["status"] == "open"]
    turns_so_far = dict(
        Turn.objects.filter(attempt__in=in_flight)
        .values_list("attempt")
        .annotate(num=Count("pk"))
        .order_by()
    )
    for row in rows:
        row["run"], row["group"] = row.pop("run_id"), row.pop("group_id")
        row["step"] = row.pop("step_id")
        nest_task(row)
        del row["start_s"]
        attempt = row.pop("newest_id")
        row["num_turns"] = turns_so_far.get(attempt, row["num_turns"])
        row["engine"] = row.pop("engine_index")
        row["timings"] = row["timings"] or {}
        row["failure"] = _failure({**row, "failure_class": row.pop("failure_kind")})
        del row["failure_stage"], row["failure_message"]
        known: dict[str, Any] = failures.get(attempt, {})
        row["failure_group"], row["fingerprint"] = known.get("group_id"), known.get("fingerprint")
    return cast("list[TrajectoryRow]", rows)


def _failure(attempt: dict[str, Any]) -> FailureBriefRow | None:
    if not attempt["failure_class"]:
        return None
    return FailureBriefRow(
        stage=attempt["failure_stage"],
        kind=attempt["failure_class"],
        message=attempt["failure_message"],
    )


def trajectory_detail(actor: Actor, trajectory_id: int) -> TrajectoryDetailRow:
    """Raises NotFound."""
    query = annotated(of_run(Trajectory.objects.filter(pk=trajectory_id), actor, None))
    extra = {"instruction": F("task__instruction"), "difficulty": F("task__difficulty")}
    found = list(query.values(*_TRAJECTORY_FIELDS, **extra))
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
    if not of_run(Trajectory.objects.filter(pk=trajectory_id), actor, None).exists():
        raise NotFound(f"There is no trajectory {trajectory_id} in a project of yours.")
    attempts = narrow(Attempt.objects.filter(trajectory=trajectory_id), number=attempt)
    wanted = attempts.order_by("-number").values("pk")[:1]
    query = Turn.objects.filter(attempt=Subquery(wanted), index__gte=from_index)
    texts = {f"{name}_shown": Left(name, MAX_BODY_CHARS) for name in _BODIES}
    lengths = {f"{name}_length": Length(name) for name in (*_BODIES, "log")}
    plain = [
        name for name in TurnRow.__annotations__ if name not in _BODIES and name not in lengths
    ]
    return Rows(query.values(*plain, **texts, **lengths), _turn_rows, key="index")


def _turn_rows(rows: list[dict[str, Any]]) -> list[TurnRow]:
    for row in rows:
        row |= {name: row.pop(f"{name}_shown") for name in _BODIES}
    return cast("list[TurnRow]", rows)

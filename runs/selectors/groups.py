"""Groups as the actor may see them: a list, and one with its members side by side."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, cast

from django.db.models import Case, CharField, Exists, F, OuterRef, QuerySet, Value, When
from django.db.models.functions import Left
from typing_extensions import TypeAliasType, TypedDict

from controlplane.accounts.access import Actor
from controlplane.errors import NotFound
from controlplane.pages import Rows
from runs.advantages import default_min_valid
from runs.models import Attempt, Group, Trajectory, Turn
from runs.selectors.trajectories import (
    DropReason,
    GradeRow,
    GroupStatus,
    TaskBriefRow,
    TrajectoryRow,
    narrow,
    nest_task,
    of_run,
    trajectories,
)

ZERO_GRADIENT = ("all_solved", "none_solved", "equal_rewards", "too_few_valid")
ZeroGradient = TypeAliasType(
    "ZeroGradient", Literal["", "all_solved", "none_solved", "equal_rewards", "too_few_valid"]
)
SORTABLE: dict[str, str] = {
    "id": "id",
    "status": "status",
    "stage": "stage_name",
    "task": "task_key",
    "repository": "task_repository",
    "ended": "num_ended",
    "valid": "num_valid",
    "mean": "reward_mean",
    "std": "reward_std",
    "zero_gradient": "zero_gradient",
    "version": "oldest_version",
    "step": "step_index",
    "opened": "opened_at",
    "finished": "finished_at",
}
MAX_TURNS = 200
"""Of a member in a comparison."""
MAX_COMMAND_CHARS = 2_000
MAX_PATCH_CHARS = 100_000


class GroupRow(TypedDict):
    """The sibling trajectories of one task; statistics are over valid members only.

    zero_gradient says why no gradient comes from it, once its members have ended.
    """

    id: int
    run: int
    stage: str
    task: TaskBriefRow
    index: int
    status: GroupStatus
    drop_reason: DropReason
    zero_gradient: ZeroGradient
    resume: int
    opened_version: int
    oldest_version: int | None
    num_members: int
    num_ended: int
    num_valid: int | None
    reward_mean: float | None
    reward_std: float | None
    step: int | None
    step_index: int | None
    opened_at: datetime
    ready_at: datetime | None
    finished_at: datetime | None


class MemberCommandRow(TypedDict):
    """What a member ran in a turn; cut at 2,000 characters."""

    turn: int
    command: str
    exit_code: int | None
    llm_s: float
    exec_s: float


class GroupMemberRow(TypedDict):
    """A member with what its newest attempt ran and left; is_cut: the patch or the turns go on."""

    trajectory: TrajectoryRow
    commands: list[MemberCommandRow]
    patch: str
    grade: GradeRow
    is_cut: bool


class GroupDetailRow(GroupRow):
    """A group with its members in their order.

    Of a group that is trained: how rewards become advantages, and how many valid members that needs.
    """

    estimator: Literal["grpo", "dr_grpo", "rloo"] | None
    min_valid: int | None
    members: list[GroupMemberRow]


_FIELDS = (
    "id",
    "run_id",
    "stage_name",
    "task_id",
    "task_key",
    "task_repository",
    "index",
    "status",
    "drop_reason",
    "zero_gradient",
    "resume",
    "opened_version",
    "oldest_version",
    "num_members",
    "num_ended",
    "num_valid",
    "reward_mean",
    "reward_std",
    "step_id",
    "step_index",
    "opened_at",
    "ready_at",
    "finished_at",
)
_ZERO_GRADIENT = Case(
    When(drop_reason="too_few_valid", then=Value("too_few_valid")),
    When(reward_std=0, reward_mean__gte=1, then=Value("all_solved")),
    When(reward_std=0, reward_mean=0, then=Value("none_solved")),
    When(reward_std=0, then=Value("equal_rewards")),
    default=Value(""),
    output_field=CharField(),
)


def groups(
    actor: Actor,
    *,
    run: int | None = None,
    stage: str | None = None,
    status: list[str] | None = None,
    step: int | None = None,
    task: str | None = None,
    repository: list[str] | None = None,
    zero_gradient: list[str] | None = None,
    has_invalid: bool | None = None,
    sort: str | None = None,
) -> Rows[GroupRow]:
    """Newest first, or by a column of SORTABLE. Raises NotFound for a run that the actor may not see."""
    query = narrow(
        _annotated(of_run(Group.objects.all(), actor, run)),
        stage_name=stage,
        status__in=status,
        step=step,
        task_key=task,
        task_repository__in=repository,
        zero_gradient__in=zero_gradient,
    )
    if has_invalid is not None:
        failed = Trajectory.objects.filter(group=OuterRef("pk"), status="failed")
        query = query.filter(Exists(failed) if has_invalid else ~Exists(failed))
    return Rows(query.values(*_FIELDS), _rows, sort=sort)


def _annotated(query: QuerySet[Any]) -> QuerySet[Any]:
    annotated: QuerySet[Any] = query.annotate(
        zero_gradient=_ZERO_GRADIENT,
        step_index=F("step__index"),
        task_key=F("task__key"),
        task_repository=F("task__repository"),
        stage_name=F("stage__name"),
    )
    return annotated


def _rows(rows: list[dict[str, Any]]) -> list[GroupRow]:
    for row in rows:
        row["run"], row["step"] = row.pop("run_id"), row.pop("step_id")
        nest_task(row)
    return cast("list[GroupRow]", rows)


def group_detail(actor: Actor, group_id: int) -> GroupDetailRow:
    """Raises NotFound."""
    query = _annotated(of_run(Group.objects.filter(pk=group_id), actor, None))
    found = list(query.values(*_FIELDS, recipe=F("run__recipe")))
    if not found:
        raise NotFound(f"There is no group {group_id} in a project of yours.")
    stages = {stage["name"]: stage for stage in found[0].pop("recipe")["stages"]}
    (row,) = _rows(found)
    plan = stages.get(row["stage"], {})
    algorithm = plan.get("algorithm")
    needed = plan.get("min_valid") or default_min_valid(row["num_members"])
    return {
        **row,
        "estimator": algorithm["advantage"] if algorithm else None,
        "min_valid": needed if algorithm else None,
        "members": _members(actor, group_id),
    }


def _members(actor: Actor, group_id: int) -> list[GroupMemberRow]:
    rows = sorted(trajectories(actor, group=group_id).all(), key=lambda row: row["index"])
    newest: dict[int, Any] = {
        attempt["trajectory_id"]: attempt
        for attempt in Attempt.objects.filter(
            trajectory__group=group_id, number=F("trajectory__num_attempts")
        ).values(
            "id", "trajectory_id", "grade", "is_patch_cut", shown=Left("patch", MAX_PATCH_CHARS)
        )
    }
    ran: dict[int, list[MemberCommandRow]] = {attempt["id"]: [] for attempt in newest.values()}
    turns = Turn.objects.filter(attempt__in=ran, index__lt=MAX_TURNS).order_by("attempt", "index")
    for turn in turns.values(
        "attempt_id",
        "index",
        "exit_code",
        "llm_s",
        "exec_s",
        shown=Left("command", MAX_COMMAND_CHARS),
    ):
        ran[turn["attempt_id"]].append(
            MemberCommandRow(
                turn=turn["index"],
                command=turn["shown"],
                exit_code=turn["exit_code"],
                llm_s=turn["llm_s"],
                exec_s=turn["exec_s"],
            )
        )
    return [_member(row, newest.get(row["id"]), ran) for row in rows]


def _member(
    row: TrajectoryRow, attempt: dict[str, Any] | None, ran: dict[int, list[MemberCommandRow]]
) -> GroupMemberRow:
    if attempt is None:
        return GroupMemberRow(trajectory=row, commands=[], patch="", grade={}, is_cut=False)
    patch: str = attempt["shown"]
    is_cut = (
        attempt["is_patch_cut"] or len(patch) == MAX_PATCH_CHARS or row["num_turns"] > MAX_TURNS
    )
    return GroupMemberRow(
        trajectory=row,
        commands=ran[attempt["id"]],
        patch=patch,
        grade=attempt["grade"],
        is_cut=is_cut,
    )

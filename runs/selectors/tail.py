"""The long tail: the groups of a step on one axis of time, what the slowest waited for, and what a cap would do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, cast

from django.db.models import Count, F
from django.db.models.functions import Left
from typing_extensions import TypedDict

from controlplane.accounts.access import Actor
from controlplane.errors import NotFound
from runs.models import Attempt, Group, Run, Stage, Step, Trajectory, Turn
from runs.selectors.runs import visible_run
from runs.selectors.trajectories import (
    AttemptStatus,
    GroupStatus,
    Outcome,
    StopReason,
    TaskBriefRow,
    nest_task,
)
from runs.selectors.trajectory_query import annotated

WINDOW = 8
"""Groups that are shown where no step has consumed any."""
MAX_TURNS = 40_000
NUM_STRAGGLERS = 12
MIN_REPEATS = 3


class TailTurnsRow(TypedDict):
    """Turns of an attempt in columns: seconds since it started, seconds of model and shell, weight version."""

    at: list[float]
    llm: list[float]
    exec: list[float]
    version: list[int | None]


class TailAttemptRow(TypedDict):
    """One attempt as a span of time. queue_s: of its model calls, the wait in the engine's queue."""

    number: int
    status: AttemptStatus
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    timings: dict[str, float]
    queue_s: float | None
    turns: TailTurnsRow


class TailRepeatRow(TypedDict):
    """The command that an attempt ran most often."""

    command: str
    count: int


class TailMemberRow(TypedDict):
    """A trajectory; repeat is known of the slowest only."""

    id: int
    index: int
    outcome: Outcome
    stop_reason: StopReason
    num_turns: int
    output_tokens: int
    attempts: list[TailAttemptRow]
    repeat: TailRepeatRow | None


class TailGroupRow(TypedDict):
    """A group with its members in their order; consumed_at is its release line."""

    id: int
    index: int
    stage: str
    task: TaskBriefRow
    status: GroupStatus
    opened_at: datetime
    consumed_at: datetime | None
    members: list[TailMemberRow]


class TailRow(TypedDict):
    """Groups of a step, or the newest ones of a stage where there is none. has_turns: else they are too many."""

    stage: str | None
    step: int | None
    step_index: int | None
    has_turns: bool
    groups: list[TailGroupRow]


class CapsRow(TypedDict):
    """Every trajectory of a stage that ended with a reward or by a failure, in columns.

    outcome: 0 invalid, 1 unsolved, 2 solved. seconds of its newest attempt.
    """

    stage: str | None
    outcome: list[int]
    turns: list[int]
    tokens: list[int]
    seconds: list[float]


_GROUP_FIELDS = ("id", "index", "status", "opened_at", "task_id")
_GROUP_EXTRAS = {
    "task_key": F("task__key"),
    "task_repository": F("task__repository"),
    "stage_name": F("stage__name"),
    "consumed_at": F("finished_at"),
}


def tail(actor: Actor, run: int, *, stage: str | None = None, step: int | None = None) -> TailRow:
    """Raises NotFound."""
    found = visible_run(actor, run)
    chosen_stage = _stage(found, stage, step)
    chosen = _step(chosen_stage, step)
    groups = Group.objects.filter(stage=chosen_stage)
    shown = groups.filter(step=chosen) if chosen else groups.order_by("-index")[:WINDOW]
    rows = sorted(shown.values(*_GROUP_FIELDS, **_GROUP_EXTRAS), key=lambda row: row["index"])
    members, has_turns = _members([row["id"] for row in rows])
    return TailRow(
        stage=chosen_stage.name if chosen_stage else None,
        step=chosen.pk if chosen else None,
        step_index=chosen.index if chosen else None,
        has_turns=has_turns,
        groups=[_group(row, members[row["id"]]) for row in rows],
    )


def _stage(run: Run, name: str | None, step: int | None) -> Stage | None:
    """The named one, that of the step, or the newest with groups, of training before evaluation."""
    stages = Stage.objects.filter(run=run)
    if step is not None:
        stages = stages.filter(steps=step)
    if name is not None:
        stages = stages.filter(name=name)
    known = list(stages.exclude(kind=Stage.Kind.SFT).order_by("index"))
    if not known and (name is not None or step is not None):
        raise NotFound(f"Run {run.pk} has no such stage or step with groups.")
    begun = [each for each in known if each.next_group_index > 0] or known
    trained = [each for each in begun if each.kind == Stage.Kind.RL]
    found = trained or begun
    return found[-1] if found else None


def _step(stage: Stage | None, step: int | None) -> Step | None:
    steps = Step.objects.filter(stage=stage, groups__isnull=False).order_by("-pk")
    if step is not None:
        return Step.objects.filter(stage=stage, pk=step).first()
    return steps.first()


def _group(row: dict[str, Any], members: list[TailMemberRow]) -> TailGroupRow:
    nest_task(row)
    if row["status"] != Group.Status.CONSUMED:
        row["consumed_at"] = None
    return cast("TailGroupRow", {**row, "members": members})


def _members(groups: Sequence[int]) -> tuple[dict[int, list[TailMemberRow]], bool]:
    """By group; and whether their turns are there."""
    attempts: list[Any] = list(
        Attempt.objects.filter(trajectory__group__in=groups)
        .order_by("number")
        .values(
            "id",
            "trajectory_id",
            "number",
            "status",
            "created_at",
            "started_at",
            "finished_at",
            "timings",
            "num_turns",
        )
    )
    has_turns = sum(attempt["num_turns"] for attempt in attempts) <= MAX_TURNS
    turns = _turns([attempt["id"] for attempt in attempts] if has_turns else [])
    slowest = sorted(attempts, key=_seconds, reverse=True)[:NUM_STRAGGLERS]
    repeats = _repeats([attempt["id"] for attempt in slowest])
    of: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for attempt in attempts:
        of[attempt["trajectory_id"]].append(attempt)
    members: dict[int, list[TailMemberRow]] = defaultdict(list)
    query = annotated(Trajectory.objects.filter(group__in=groups)).order_by("index")
    for row in query.values(
        "id", "group_id", "index", "outcome", "stop_reason", "num_turns", "output_tokens"
    ):
        mine = of[row["id"]]
        found = [repeats[attempt["id"]] for attempt in mine if attempt["id"] in repeats]
        group = row.pop("group_id")
        row["attempts"] = [_attempt(attempt, turns[attempt["id"]]) for attempt in mine]
        row["repeat"] = max(found, key=lambda repeat: repeat["count"], default=None)
        members[group].append(cast("TailMemberRow", row))
    return members, has_turns


def _seconds(attempt: dict[str, Any]) -> float:
    if attempt["started_at"] is None or attempt["finished_at"] is None:
        return 0.0
    return float((attempt["finished_at"] - attempt["started_at"]).total_seconds())


def _turns(attempts: Sequence[int]) -> dict[int, list[tuple[Any, ...]]]:
    """(started_at, llm_s, exec_s, version, queue_s) by attempt, in order."""
    found: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for attempt, *turn in (
        Turn.objects.filter(attempt__in=attempts)
        .order_by("attempt", "index")
        .values_list("attempt", "started_at", "llm_s", "exec_s", "version_max", "queue_s")
        .iterator(chunk_size=5_000)
    ):
        found[attempt].append(tuple(turn))
    return found


def _attempt(attempt: dict[str, Any], turns: Iterable[tuple[Any, ...]]) -> TailAttemptRow:
    start = attempt["started_at"]
    known = [turn for turn in turns if start is not None]
    queued = [turn[4] for turn in known if turn[4] is not None]
    return TailAttemptRow(
        number=attempt["number"],
        status=attempt["status"],
        created_at=attempt["created_at"],
        started_at=start,
        finished_at=attempt["finished_at"],
        timings={name: round(value, 2) for name, value in attempt["timings"].items()},
        queue_s=round(sum(queued), 2) if queued else None,
        turns=TailTurnsRow(
            at=[round((turn[0] - start).total_seconds(), 2) for turn in known],
            llm=[round(turn[1], 2) for turn in known],
            exec=[round(turn[2], 2) for turn in known],
            version=[turn[3] for turn in known],
        ),
    )


def _repeats(attempts: Sequence[int]) -> dict[int, TailRepeatRow]:
    """The command that each of these attempts ran most often, if it did so often."""
    found: dict[int, TailRepeatRow] = {}
    for row in (
        Turn.objects.filter(attempt__in=attempts)
        .exclude(command="")
        .values("attempt_id", text=Left("command", 200))
        .annotate(count=Count("pk"))
        .filter(count__gte=MIN_REPEATS)
        .order_by("attempt_id", "-count", "text")
    ):
        found.setdefault(row["attempt_id"], TailRepeatRow(command=row["text"], count=row["count"]))
    return found


def caps(actor: Actor, run: int, *, stage: str | None = None) -> CapsRow:
    """What a cap on turns, tokens or seconds is judged by. Raises NotFound."""
    chosen = _stage(visible_run(actor, run), stage, None)
    query = annotated(
        Trajectory.objects.filter(stage=chosen, status__in=["completed", "failed"])
    ).filter(duration_s__isnull=False)
    rows = list(
        query.order_by("pk").values_list("outcome", "num_turns", "output_tokens", "duration_s")
    )
    codes = {"invalid": 0, "unsolved": 1, "solved": 2}
    return CapsRow(
        stage=chosen.name if chosen else None,
        outcome=[codes[row[0]] for row in rows],
        turns=[row[1] for row in rows],
        tokens=[row[2] for row in rows],
        seconds=[round(row[3], 1) for row in rows],
    )

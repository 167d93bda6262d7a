"""One attempt of a trajectory by parts: its texts, patch, tests, sandboxes and siblings.

Bodies are untrusted and may be large: what is cut says its whole length, and `turn_text` has the rest.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Literal, cast, get_args

from django.db.models.functions import Length, Substr
from typing_extensions import TypeAliasType, TypedDict

from controlplane.accounts.access import Actor, visible_projects
from controlplane.errors import NotFound
from runs.models import Attempt, Group, Trajectory, Turn
from runs.selectors.trajectories import (
    AttemptStatus,
    FailureBriefRow,
    StopReason,
    TrajectoryStatus,
)
from sandboxes.models import Sandbox
from sandboxes.selectors import SandboxStatus

MAX_TEXT_CHARS = 262_144
"""Characters of a body in one answer."""
TextPart = TypeAliasType("TextPart", Literal["action", "command", "observation", "log"])
VerdictKind = TypeAliasType("VerdictKind", Literal["fail_to_pass", "pass_to_pass", "other"])


class TextRow(TypedDict):
    """Characters `from` to `to` of a body of `length`."""

    part: TextPart
    start: int
    length: int
    text: str


class PatchRow(TypedDict):
    """A unified diff against the task's files, as graded. Lines that begin with `#` are notes."""

    attempt: int
    status: AttemptStatus
    patch: str
    is_cut: bool


class VerdictCheckRow(TypedDict):
    """One named thing the verifier said: `passed` of `total`, or a value."""

    kind: VerdictKind
    name: str
    passed: int | None
    total: int | None
    value: str | None


class TestsRow(TypedDict):
    """What the verifier said of an attempt."""

    attempt: int
    status: AttemptStatus
    is_graded: bool
    reward: float | None
    is_attributed_to_policy: bool
    duration_s: float | None
    checks: list[VerdictCheckRow]
    output: str


class BoxRow(TypedDict):
    """A sandbox of one of its attempts. timings: seconds by stage."""

    id: int
    attempt: int
    key: str
    driver: str
    level: str
    status: SandboxStatus
    worker: str
    created_at: datetime
    ready_at: datetime | None
    finished_at: datetime | None
    timings: dict[str, float]


class SiblingRow(TypedDict):
    """A member of the group by its newest attempt. timings: seconds by stage."""

    id: int
    index: int
    status: TrajectoryStatus
    attempt_status: AttemptStatus | None
    num_attempts: int
    reward: float | None
    advantage: float | None
    stop_reason: StopReason
    failure: FailureBriefRow | None
    num_turns: int
    output_tokens: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    timings: dict[str, float]
    has_patch: bool


class SiblingsRow(TypedDict):
    run: int
    group: int
    num_members: int
    reward_mean: float | None
    reward_std: float | None
    members: list[SiblingRow]


def attempt_of(
    actor: Actor, trajectory_id: int, number: int | None, *fields: str, **extra: Any
) -> dict[str, Any]:
    """Fields of the attempt with that number, or of the newest. Raises NotFound."""
    query = Attempt.objects.filter(
        trajectory=trajectory_id, run__project__in=visible_projects(actor)
    )
    if number is not None:
        query = query.filter(number=number)
    wanted = query.order_by("-number").values("id", "number", *fields, **extra)
    found: dict[str, Any] | None = wanted.first()
    if found is None:
        which = "no attempt yet" if number is None else f"no attempt {number}"
        raise NotFound(f"There is {which} of a trajectory {trajectory_id} in a project of yours.")
    return found


def turn_text(
    actor: Actor,
    trajectory_id: int,
    index: int,
    *,
    part: TextPart,
    attempt: int | None = None,
    start: int = 0,
    end: int | None = None,
) -> TextRow:
    """At most MAX_TEXT_CHARS of one body, as it is stored. Raises NotFound."""
    found = attempt_of(actor, trajectory_id, attempt)
    size = min(MAX_TEXT_CHARS, MAX_TEXT_CHARS if end is None else max(0, end - start))
    row = (
        Turn.objects.filter(attempt=found["id"], index=index)
        .values(whole=Length(part), text=Substr(part, start + 1, size))
        .first()
    )
    if row is None:
        raise NotFound(f"Attempt {found['number']} has no turn {index}.")
    return TextRow(part=part, start=start, length=row["whole"], text=row["text"])


def patch(actor: Actor, trajectory_id: int, *, attempt: int | None = None) -> PatchRow:
    """Raises NotFound."""
    found = attempt_of(actor, trajectory_id, attempt, "status", "patch", "is_patch_cut")
    return PatchRow(
        attempt=found["number"],
        status=found["status"],
        patch=found["patch"],
        is_cut=found["is_patch_cut"],
    )


def verdict(actor: Actor, trajectory_id: int, *, attempt: int | None = None) -> TestsRow:
    """Raises NotFound."""
    fields = ("status", "grade", "reward", "is_attributed_to_policy")
    found = attempt_of(actor, trajectory_id, attempt, *fields)
    grade = found["grade"]
    return TestsRow(
        attempt=found["number"],
        status=found["status"],
        is_graded=bool(grade),
        reward=found["reward"],
        is_attributed_to_policy=found["is_attributed_to_policy"],
        duration_s=grade.get("duration_s"),
        checks=checks(grade.get("details") or {}),
        output=grade.get("output", ""),
    )


_KINDS: dict[str, VerdictKind] = {
    "fail_to_pass": "fail_to_pass",
    "f2p": "fail_to_pass",
    "pass_to_pass": "pass_to_pass",
    "p2p": "pass_to_pass",
}
_KINDED = re.compile(r"(fail_to_pass|pass_to_pass|f2p|p2p)(?:[:/. ]+|_|$)", re.IGNORECASE)
_COUNT = re.compile(r"(.*?)_?(passed|failed|tests|total)")


def checks(details: dict[str, Any]) -> list[VerdictCheckRow]:
    """The scalars of a grade as checks.

    `fail_to_pass:NAME` and `pass_to_pass:NAME` (also F2P, P2P) hold whether a test passed; `X_passed`
    and `X_tests` (or `X_total`) are one check of counts; anything else is a value with its name.
    """
    rows: dict[tuple[str, str], VerdictCheckRow] = {}
    for key, value in details.items():
        kinded = _KINDED.match(key)
        kind = _KINDS[kinded[1].lower()] if kinded else "other"
        name = key[kinded.end() :] if kinded else key
        count = _COUNT.fullmatch(name)
        if isinstance(value, bool):
            row = _check(rows, kind, name or key)
            row["passed"], row["total"] = int(value), 1
        elif isinstance(value, int) and count is not None:
            row = _check(rows, kind, count[1])
            if count[2] == "passed":
                row["passed"] = value
            elif count[2] == "failed":
                row["value"] = f"{value} failed"
            else:
                row["total"] = value
        else:
            _check(rows, kind, name or key)["value"] = "" if value is None else str(value)
    order = list(get_args(VerdictKind.__value__))
    return sorted(rows.values(), key=lambda row: (order.index(row["kind"]), row["name"]))


def _check(
    rows: dict[tuple[str, str], VerdictCheckRow], kind: VerdictKind, name: str
) -> VerdictCheckRow:
    fresh = VerdictCheckRow(kind=kind, name=name or "tests", passed=None, total=None, value=None)
    return rows.setdefault((kind, name), fresh)


_SIBLING_FIELDS = (
    "id",
    "index",
    "status",
    "num_attempts",
    "reward",
    "advantage",
    "stop_reason",
    "num_turns",
    "output_tokens",
    "created_at",
)
_NEWEST_FIELDS = (
    "status",
    "failure_stage",
    "failure_class",
    "failure_message",
    "started_at",
    "finished_at",
    "timings",
)


def siblings(actor: Actor, trajectory_id: int) -> SiblingsRow:
    """Every member of the trajectory's group, itself too, by index. Raises NotFound."""
    group = (
        Group.objects.filter(trajectories=trajectory_id, run__project__in=visible_projects(actor))
        .values("id", "run_id", "num_members", "reward_mean", "reward_std")
        .first()
    )
    if group is None:
        raise NotFound(f"There is no trajectory {trajectory_id} in a project of yours.")
    members = Trajectory.objects.filter(group=group["id"]).order_by("index")
    newest = {
        row["trajectory_id"]: row
        for row in Attempt.objects.filter(trajectory__group=group["id"])
        .order_by("trajectory_id", "-number")
        .distinct("trajectory_id")
        .values("trajectory_id", *_NEWEST_FIELDS, patch_length=Length("patch"))
    }
    return SiblingsRow(
        run=group["run_id"],
        group=group["id"],
        num_members=group["num_members"],
        reward_mean=group["reward_mean"],
        reward_std=group["reward_std"],
        members=[_sibling(row, newest.get(row["id"])) for row in members.values(*_SIBLING_FIELDS)],
    )


def _sibling(row: dict[str, Any], attempt: dict[str, Any] | None) -> SiblingRow:
    failure = None
    if attempt is not None and attempt["failure_class"]:
        failure = FailureBriefRow(
            stage=attempt["failure_stage"],
            kind=attempt["failure_class"],
            message=attempt["failure_message"],
        )
    of_attempt = {
        "attempt_status": attempt["status"] if attempt else None,
        "failure": failure,
        "started_at": attempt["started_at"] if attempt else None,
        "finished_at": attempt["finished_at"] if attempt else None,
        "timings": attempt["timings"] if attempt else {},
        "has_patch": bool(attempt and attempt["patch_length"]),
    }
    return cast("SiblingRow", {**row, **of_attempt})


def boxes(actor: Actor, trajectory_id: int) -> list[BoxRow]:
    """The sandboxes of all its attempts, newest first. Raises NotFound."""
    numbers = dict(
        Attempt.objects.filter(
            trajectory=trajectory_id, run__project__in=visible_projects(actor)
        ).values_list("id", "number")
    )
    if not numbers:
        raise NotFound(f"There is no trajectory {trajectory_id} with attempts of yours.")
    fields = [name for name in BoxRow.__annotations__ if name != "attempt"]
    found = Sandbox.objects.filter(attempt_id__in=numbers).order_by("-id")
    return [
        cast("BoxRow", {"attempt": numbers[row.pop("attempt_id")], **row})
        for row in found.values(*fields, "attempt_id")
    ]

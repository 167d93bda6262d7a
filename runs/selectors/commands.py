"""Which commands a run takes now from whom, and why not: the same words for the buttons and the refusals."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, NamedTuple

from django.db.models import Exists, OuterRef
from typing_extensions import TypeAliasType, TypedDict

from controlplane.accounts.models import Role
from runs.models import Checkpoint, Run, Stage, Step

CommandName = TypeAliasType(
    "CommandName", Literal["pause", "unpause", "checkpoint", "resume", "stop"]
)
COMMANDS: tuple[CommandName, ...] = ("pause", "unpause", "checkpoint", "resume", "stop")

_FROM: dict[str, tuple[str, ...]] = {
    "pause": ("running",),
    "unpause": ("paused",),
    "resume": ("failed", "cancelled"),
    "stop": ("queued", "running", "paused"),
}
_WHY_NOT = {
    "pause": "Only a running run can be paused; this one is {status}.",
    "unpause": "Only a paused run can go on; this one is {status}.",
    "resume": "Only a failed or cancelled run can be resumed; this one is {status}.",
    "stop": "There is nothing to stop; this run is {status}.",
}

STAGE_FACTS = {
    "is_training": Exists(
        Step.objects.filter(
            stage=OuterRef("pk"), status__in=[Step.Status.TRAINING, Step.Status.PUBLISHING]
        )
    ),
    "is_saved": Exists(
        Checkpoint.objects.filter(
            stage=OuterRef("pk"),
            step=OuterRef("num_steps_done"),
            status=Checkpoint.Status.COMPLETE,
        )
    ),
}
"""What `StageFacts` needs, as annotations of a query of stages."""


class RunCommandRow(TypedDict):
    """A command of a run: possible now for who asks, or why not."""

    command: CommandName
    is_allowed: bool
    why_not: str


class StageFacts(NamedTuple):
    """The stage in progress."""

    kind: str
    name: str
    num_steps_done: int
    is_training: bool
    """A step has its batch and is not published yet."""
    is_saved: bool
    """The last step that is done has a complete checkpoint."""


def stage_in_progress(rows: list[dict[str, Any]]) -> StageFacts | None:
    """Of rows of stages with STAGE_FACTS."""
    running = next((row for row in rows if row["status"] == Stage.Status.RUNNING), None)
    return StageFacts(*(running[name] for name in StageFacts._fields)) if running else None


def why_no_checkpoint(status: str, asked_at: datetime | None, stage: StageFacts | None) -> str:
    """Empty when a checkpoint may be asked for now.

    It is written at the end of the step in training; between steps, paused or not, right away.
    """
    if status not in (Run.Status.RUNNING, Run.Status.PAUSED):
        return f"The run is {status}: no trainer is at work."
    if stage is None:
        return "No stage is in progress."
    if stage.kind == Stage.Kind.EVAL:
        return f"Stage {stage.name} is an evaluation: nothing is being trained."
    if stage.kind == Stage.Kind.SFT:
        return f"Stage {stage.name} has no steps: its weights are published at its end."
    if asked_at is not None:
        return "A checkpoint has been asked for already; it is written at the end of the step."
    if status == Run.Status.PAUSED and not stage.is_training:
        if stage.num_steps_done == 0:
            return "The run is paused before its first step: there is nothing to save."
        if stage.is_saved:
            return f"The run is paused after step {stage.num_steps_done}, which has its checkpoint."
    return ""


def commands_of(status: str, role: str | None, no_checkpoint: str) -> list[RunCommandRow]:
    """All commands in one order. `no_checkpoint` is the answer of why_no_checkpoint."""
    rows = []
    for command in COMMANDS:
        if role not in (Role.OPERATOR, Role.ADMIN):
            why_not = "Viewers may look, operators may act."
        elif command == "checkpoint":
            why_not = no_checkpoint
        elif status in _FROM[command]:
            why_not = ""
        else:
            why_not = _WHY_NOT[command].format(status=status)
        rows.append(RunCommandRow(command=command, is_allowed=why_not == "", why_not=why_not))
    return rows


def stage_facts_of(run: Run) -> StageFacts | None:
    fields = ("kind", "name", "status", "num_steps_done")
    return stage_in_progress(list(run.stages.values(*fields, **STAGE_FACTS)))

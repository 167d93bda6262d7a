"""Checkpoints of a run with what they are good for, and the lives of its trainer."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from django.db.models import F, Max, Min, Q, QuerySet
from typing_extensions import TypeAliasType, TypedDict

from controlplane.accounts.access import Actor
from controlplane.pages import Rows
from runs.models import Checkpoint, Run, Stage, Step, WeightVersion
from runs.selectors.runs import RunRefRow, visible_run

CheckpointStatus = TypeAliasType(
    "CheckpointStatus", Literal["writing", "complete", "pruned", "corrupt"]
)

_LIFE_KINDS = ("trainer_resumed", "rolled_back")
_END_KINDS = ("trainer_lost", "trainer_released", "run_resumed", "checkpoint_corrupt")
_WHY_NO_START = {
    "writing": "It is still being written.",
    "pruned": "It was pruned: its files are gone.",
    "corrupt": "It does not match its manifest and was set aside.",
}


class SolveRateRow(TypedDict):
    """What an evaluation of these weights found."""

    stage: str
    pass_at_1: float


class CheckpointRow(TypedDict):
    """A trainer state that a run can go on from.

    reward_mean_10: the mean reward of the ten steps up to it. why_no_start: empty when a run may start from its
    weights. is_newest: what a resume goes on from. kept_by: why it is still there, or that it is not.
    """

    id: int
    stage: str
    step: int
    resume: int
    weight_version: int
    status: CheckpointStatus
    num_bytes: int
    created_at: datetime
    reward_mean_10: float | None
    solve_rate: SolveRateRow | None
    is_newest: bool
    resumes: list[int]
    runs: list[RunRefRow]
    kept_by: str
    why_no_start: str


class TrainerLifeRow(TypedDict):
    """A life of the trainer after the first. downtime_s: from the last step of the life before to its first one."""

    resume: int
    at: datetime
    stage: str | None
    after_step: int | None
    num_superseded: int
    downtime_s: float | None
    reason: str


def weights_of(checkpoint: Checkpoint) -> QuerySet[WeightVersion]:
    """The published weights of a checkpoint's step, while they are kept: one row or none."""
    return WeightVersion.objects.filter(
        run=checkpoint.run_id, version=checkpoint.weight_version, pruned_at__isnull=True
    )


def why_no_start(status: str, *, has_weights: bool) -> str:
    """Why no run may start from the weights of a checkpoint; empty when one may."""
    if status in _WHY_NO_START:
        return _WHY_NO_START[status]
    return "" if has_weights else "Its published weights were pruned."


def checkpoints(actor: Actor, *, run: int) -> Rows[CheckpointRow]:
    """Newest first. Raises NotFound."""
    found = visible_run(actor, run)
    fields = ("id", "step", "resume", "weight_version", "status", "num_bytes", "created_at")
    query = Checkpoint.objects.filter(run=found).values(
        *fields, "stage_id", stage_name=F("stage__name")
    )
    return Rows(query, lambda rows: _checkpoint_rows(found, rows))


def _checkpoint_rows(run: Run, rows: list[dict[str, Any]]) -> list[CheckpointRow]:
    kept = set(
        WeightVersion.objects.filter(run=run, pruned_at__isnull=True).values_list(
            "version", flat=True
        )
    )
    rates = {
        stage.weight_version: SolveRateRow(stage=stage.name, pass_at_1=stage.result["pass_at_1"])
        for stage in run.stages.filter(kind=Stage.Kind.EVAL)
        if "pass_at_1" in stage.result
    }
    newest = _newest_of_each_stage(run)
    rewards = _rewards(run)
    clones: dict[int, list[RunRefRow]] = {}
    for parent, pk, name in Run.objects.filter(
        from_checkpoint__in=[row["id"] for row in rows]
    ).values_list("from_checkpoint", "id", "name"):
        assert parent is not None
        clones.setdefault(parent, []).append(RunRefRow(id=pk, name=name))
    began = _began_from(lives(run))
    keep = run.recipe.get("trainer", {}).get("keep_checkpoints")
    shaped = []
    for row in rows:
        is_newest = row["id"] == newest.get(row["stage_id"])
        shaped.append(
            CheckpointRow(
                id=row["id"],
                stage=row["stage_name"],
                step=row["step"],
                resume=row["resume"],
                weight_version=row["weight_version"],
                status=row["status"],
                num_bytes=row["num_bytes"],
                created_at=row["created_at"],
                reward_mean_10=mean_up_to(rewards.get(row["stage_id"], {}), row["step"]),
                solve_rate=rates.get(row["weight_version"]),
                is_newest=is_newest,
                resumes=began.get((row["stage_name"], row["step"]), []),
                runs=clones.get(row["id"], []),
                kept_by=_kept_by(row["status"], is_newest=is_newest, keep=keep),
                why_no_start=why_no_start(row["status"], has_weights=row["weight_version"] in kept),
            )
        )
    return shaped


def _newest_of_each_stage(run: Run) -> dict[int, int]:
    complete = run.checkpoints.filter(status=Checkpoint.Status.COMPLETE)
    return dict(complete.order_by().values_list("stage").annotate(Max("id")))


def _kept_by(status: str, *, is_newest: bool, keep: int | None) -> str:
    if status != Checkpoint.Status.COMPLETE:
        return ""
    if is_newest:
        return "newest of its stage"
    return f"newest {keep} of its stage" if keep else ""


def _rewards(run: Run) -> dict[int, dict[int, float]]:
    """By stage and step that counts."""
    found: dict[int, dict[int, float]] = {}
    steps = run.steps.filter(status=Step.Status.DONE, reward_mean__isnull=False)
    for stage, index, reward in steps.values_list("stage", "index", "reward_mean"):
        assert reward is not None
        found.setdefault(stage, {})[index] = reward
    return found


def mean_up_to(rewards: dict[int, float], step: int, window: int = 10) -> float | None:
    """The mean over the `window` steps that end with `step`, of those that are known."""
    values = [rewards[index] for index in range(step - window + 1, step + 1) if index in rewards]
    return sum(values) / len(values) if values else None


def _began_from(found: list[TrainerLifeRow]) -> dict[tuple[str, int], list[int]]:
    """By stage and step of a checkpoint, the resumes that went on from it."""
    began: dict[tuple[str, int], list[int]] = {}
    for life in found:
        if life["stage"] is not None and life["after_step"] is not None:
            began.setdefault((life["stage"], life["after_step"]), []).append(life["resume"])
    return began


def resumes(actor: Actor, *, run: int) -> list[TrainerLifeRow]:
    """The lives of a run's trainer after the first, newest first. Raises NotFound."""
    return lives(visible_run(actor, run))[::-1]


def lives(run: Run) -> list[TrainerLifeRow]:
    """In order. A life is known by its line in the feed and by its steps; either may be missing."""
    if not run.resume:
        return []
    feed = list(
        run.events.filter(kind__in=_LIFE_KINDS + _END_KINDS)
        .order_by("id")
        .values("at", "kind", "sentence", "data")
    )
    begun = [line for line in feed if line["kind"] in _LIFE_KINDS]
    # a step that failed is closed by the life after it: its end is no sign of its own life
    reported = Max("finished_at", filter=~Q(status=Step.Status.FAILED))
    steps = {
        row["resume"]: row
        for row in run.steps.order_by()
        .values("resume")
        .annotate(first=Min("started_at"), last=Max("started_at"), ended=reported, low=Min("index"))
    }
    undone = list(
        run.steps.filter(status=Step.Status.SUPERSEDED).values_list(
            "resume", "stage__name", "index"
        )
    )
    named = dict(run.steps.order_by("-id").values_list("resume", "stage__name"))
    found = []
    for resume in range(1, run.resume + 1):
        own = steps.get(resume)
        line = next((b for b in begun if b["data"].get("resume") == resume), None)
        if line is None and len(begun) >= resume:
            line = begun[resume - 1]
        at = line["at"] if line else own["first"] if own else None
        if at is None:
            continue
        reports = [
            moment
            for earlier, row in steps.items()
            if earlier < resume
            for moment in (row["last"], row["ended"])
            if moment is not None and moment <= at
        ]
        back = own["first"] if own else at
        ends = [e for e in feed if e["kind"] in _END_KINDS and e["at"] <= at]
        data = line["data"] if line else {}
        stage = named.get(resume)
        after = data.get("step", own["low"] - 1 if own else None)
        superseded = [
            step
            for step in undone
            if step[0] < resume and step[1] == stage and after is not None and step[2] > after
        ]
        undone = [step for step in undone if step not in superseded]
        found.append(
            TrainerLifeRow(
                resume=resume,
                at=at,
                stage=stage,
                after_step=after,
                num_superseded=len(superseded),
                downtime_s=(back - max(reports)).total_seconds() if reports else None,
                reason=ends[-1]["sentence"] if ends else "",
            )
        )
    return found

"""Optimizer steps: a batch is claimed, trained, published; a roll-back supersedes and loses nothing.

    begin_step ─ collecting ─ claim_batch ─ training ─ report_update ─ publishing ─ publish_step ─ done
                                  │                                                      │
                       groups: ready -> consumed                     weight version + 1, engines follow

Invariants
- A group is consumed by one step, in the transaction that fills the step; only a roll-back frees it.
- A roll-back supersedes the steps after the checkpoint, frees their groups if their tokens are of the kept
  lineage and fresh enough, drops the others with a reason, and publishes the kept weights as a new version.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from controlplane.live import publish
from controlplane.queue import poke
from runs.events import StepChanged, run_topic
from runs.models import (
    Attempt,
    Consumption,
    Event,
    Group,
    Run,
    Stage,
    Step,
    Trajectory,
    WeightVersion,
)
from runs.recipe import RlStage, parse
from runs.selectors.steps import rollout_metrics, staleness_of
from runs.services.events import say
from runs.services.groups import drop
from runs.services.leases import owned_stage
from runs.services.metrics import record_metrics
from runs.services.weights import last_checkpoint, lineage, publish_weights


@dataclass(frozen=True)
class BatchMember:
    """A trajectory of a batch: where its arrays are, and its stored advantage."""

    trajectory_id: int
    group_id: int
    blob: str
    advantage: float


@dataclass(frozen=True)
class Batch:
    step_id: int
    version: int
    """The trainer's weights: distances are counted from here."""
    members: list[BatchMember]


def announce(step: Step) -> None:
    event = StepChanged(run=step.run_id, step=step.pk, status=step.status)
    publish(run_topic(step.run.project_id, step.run_id), event)


@transaction.atomic
def begin_step(stage_id: int, token: uuid.UUID, *, now: datetime) -> int:
    """The next step of the stage, collecting; returns its id. Raises LeaseLost."""
    stage = owned_stage(stage_id, token)
    step = Step.objects.create(
        run=stage.run,
        stage=stage,
        index=stage.num_steps_done + 1,
        resume=stage.run.resume,
        trained_version=stage.run.weight_version,
        started_at=now,
    )
    announce(step)
    poke()
    return step.pk


@transaction.atomic
def claim_batch(stage_id: int, token: uuid.UUID, step_id: int, *, now: datetime) -> Batch | None:
    """Consume the oldest ready groups, or None while there are too few. Raises LeaseLost.

    Groups whose oldest token is past the hard bound are dropped here, too: the check that counts.
    """
    stage = owned_stage(stage_id, token)
    run = stage.run
    plan = parse(run.recipe).stages[stage.index]
    assert isinstance(plan, RlStage)
    is_filled = stage.groups.filter(status=Group.Status.READY).count() >= plan.groups_per_step
    if run.status != Run.Status.RUNNING or not is_filled:
        return None
    drop_stale_groups(stage, plan, now=now)
    ready = list(
        stage.groups.select_for_update(no_key=True)
        .filter(status=Group.Status.READY)
        .order_by("index")[: plan.groups_per_step]
    )
    if len(ready) < plan.groups_per_step:
        return None
    step = Step.objects.get(pk=step_id)
    members = [
        BatchMember(trajectory_id, group_id, blob, advantage or 0.0)
        for trajectory_id, group_id, blob, advantage in Attempt.objects.filter(
            trajectory__group__in=ready,
            status=Attempt.Status.COMPLETED,
            trajectory__status=Trajectory.Status.COMPLETED,
        )
        .order_by("trajectory__group__index", "trajectory__index")
        .values_list("trajectory_id", "trajectory__group_id", "blob", "trajectory__advantage")
    ]
    for group in ready:
        group.move(Group.Status.CONSUMED, step=step, finished_at=now)
    Consumption.objects.bulk_create(
        Consumption(step=step, trajectory_id=member.trajectory_id) for member in members
    )
    step.move(
        Step.Status.TRAINING,
        num_groups=len(ready),
        num_trajectories=len(members),
        trained_version=run.weight_version,
        reward_mean=_mean_reward(ready),
    )
    announce(step)
    poke()
    return Batch(step.pk, run.weight_version, members)


def _mean_reward(groups: list[Group]) -> float | None:
    """Mean over the valid trajectories of the groups."""
    total = sum((g.reward_mean or 0.0) * (g.num_valid or 0) for g in groups)
    num = sum(g.num_valid or 0 for g in groups)
    return total / num if num else None


@transaction.atomic
def report_update(
    stage_id: int,
    token: uuid.UUID,
    step_id: int,
    *,
    metrics: Mapping[str, float],
    wait_s: float,
    logprob_s: float,
    update_s: float,
    logprobs: Mapping[int, str] | None = None,
) -> None:
    """training -> publishing: the optimizer has stepped. Raises LeaseLost.

    logprobs: trajectory to the blob key of the trainer's own log-probs of it, where they were kept.
    """
    owned_stage(stage_id, token)
    step = Step.objects.select_related("run").get(pk=step_id)
    step.move(
        Step.Status.PUBLISHING,
        metrics=storable_metrics(metrics),
        wait_s=wait_s,
        logprob_s=logprob_s,
        update_s=update_s,
    )
    if logprobs:
        consumed = list(Consumption.objects.filter(step=step))
        for each in consumed:
            each.logprobs = logprobs.get(each.trajectory_id, "")
        Consumption.objects.bulk_update(consumed, ["logprobs"])
    announce(step)


def storable_metrics(metrics: Mapping[str, float]) -> dict[str, float | str]:
    """JSON knows no NaN and no infinity: their names, which float() reads back."""
    return {name: v if math.isfinite(v) else str(v) for name, v in metrics.items()}


@transaction.atomic
def publish_step(
    stage_id: int,
    token: uuid.UUID,
    step_id: int,
    *,
    blob: str,
    publish_s: float,
    metric_step: int,
    now: datetime,
) -> int:
    """publishing -> done: the weights become the run's next version. Raises LeaseLost."""
    stage = owned_stage(stage_id, token)
    run = stage.run
    step = Step.objects.select_related("run").get(pk=step_id)
    version = publish_weights(run, blob=blob, step=metric_step, now=now)
    step.move(Step.Status.DONE, finished_at=now, published_version=version, publish_s=publish_s)
    Stage.objects.filter(pk=stage.pk).update(num_steps_done=step.index)
    values = {name: float(value) for name, value in step.metrics.items()}
    values |= rollout_metrics(step) | staleness_of(step)
    values |= {
        "time/wait_s": step.wait_s,
        "time/logprob_s": step.logprob_s,
        "time/update_s": step.update_s,
        "time/publish_s": publish_s,
    }
    record_metrics(run, values, step=metric_step, now=now)
    announce(step)
    poke()
    return version


def drop_stale_groups(stage: Stage, plan: RlStage, *, now: datetime) -> int:
    """Drop ready groups, and cancel open ones, that may not be trained any more (invariants 3 and 6).

    Stale: the oldest token is more than the hard bound away along the lineage. Superseded: weights off
    the lineage wrote a token of it.
    """
    run = stage.run
    distances = lineage(run, run.weight_version)
    dropped: dict[str, int] = {}
    live = stage.groups.filter(status__in=[Group.Status.OPEN, Group.Status.READY])
    ranges = versions_written(stage)
    for group in live.select_related("run", "stage"):
        versions = ranges.get(group.pk, set())
        if group.status == Group.Status.OPEN:
            versions = versions | {group.opened_version}
        reason: str
        if any(version not in distances for version in versions):
            reason = Group.DropReason.SUPERSEDED
        elif any(distances[version] > plan.hard_staleness for version in versions):
            reason = Group.DropReason.STALE
        else:
            continue
        drop(group, reason, now=now)
        dropped[reason] = dropped.get(reason, 0) + 1
    for reason, num in dropped.items():
        say(
            run,
            f"groups_{reason}",
            f"{_groups_were(num)} dropped: {_WHY[reason]}.",
            now=now,
            level="warning",
        )
    return sum(dropped.values())


_WHY: dict[str, str] = {
    Group.DropReason.STALE: "their oldest tokens are past the hard staleness bound",
    Group.DropReason.SUPERSEDED: "weights of superseded steps wrote some of their tokens",
}


def _groups_were(num: int) -> str:
    return "1 group was" if num == 1 else f"{num} groups were"


def num_dropped_for(step: Step) -> int:
    """Groups that were lost to the step since it began to collect: stale, invalid, without variance."""
    return step.stage.groups.filter(
        status=Group.Status.DROPPED,
        finished_at__gte=step.started_at,
        drop_reason__in=[
            Group.DropReason.STALE,
            Group.DropReason.TOO_FEW_VALID,
            Group.DropReason.ZERO_VARIANCE,
        ],
    ).count()


def warn_of_dropped_groups(stage: Stage, plan: RlStage, *, now: datetime) -> None:
    """Dropping never starves a step, but it may go on for ever: said once a step (invariant 6)."""
    step = stage.steps.filter(status=Step.Status.COLLECTING).order_by("-id").first()
    if step is None or (num := num_dropped_for(step)) <= plan.max_dropped_groups_per_step:
        return
    if Event.objects.filter(run=stage.run, kind="many_groups_dropped", data__step=step.pk).exists():
        return
    say(
        stage.run,
        "many_groups_dropped",
        f"{_groups_were(num)} dropped while step {step.index} collects, more than "
        f"{plan.max_dropped_groups_per_step}: its tasks may be too easy, too hard or broken.",
        now=now,
        level="warning",
        data={"step": step.pk},
    )


def versions_written(stage: Stage) -> dict[int, set[int]]:
    """By live group, every version between the oldest and the newest of a finished member's tokens."""
    ranges: dict[int, set[int]] = {}
    rows = Trajectory.objects.filter(
        group__stage=stage,
        group__status__in=[Group.Status.OPEN, Group.Status.READY],
        version_min__isnull=False,
    ).values_list("group_id", "version_min", "version_max")
    for group_id, low, high in rows:
        assert low is not None
        assert high is not None
        ranges.setdefault(group_id, set()).update(range(low, high + 1))
    return ranges


@transaction.atomic
def roll_back(stage: Stage, *, now: datetime) -> None:
    """A new life of the trainer: back to the stage's last complete checkpoint (or its start)."""
    run = stage.run
    checkpoint = last_checkpoint(stage)
    kept_step = checkpoint.step if checkpoint else 0
    kept_version = checkpoint.weight_version if checkpoint else stage.weight_version or 0
    unfinished = stage.steps.filter(
        status__in=[Step.Status.COLLECTING, Step.Status.TRAINING, Step.Status.PUBLISHING]
    )
    for step in unfinished:
        _free_groups(step)
        step.move(Step.Status.FAILED, finished_at=now)
    superseded = list(stage.steps.filter(status=Step.Status.DONE, index__gt=kept_step))
    Stage.objects.filter(pk=stage.pk).update(num_steps_done=kept_step)
    stage.num_steps_done = kept_step
    if not superseded:
        say(
            run,
            "trainer_resumed",
            f"Trainer life {run.resume} goes on after step {kept_step}; nothing was lost.",
            now=now,
            data={"resume": run.resume, "step": kept_step},
        )
        return
    for step in superseded:
        _free_groups(step)
        step.move(Step.Status.SUPERSEDED)
    blob = WeightVersion.objects.filter(run=run, version=kept_version).values_list(
        "blob", flat=True
    )
    Run.objects.filter(pk=run.pk).update(weight_version=kept_version)
    version = publish_weights(run, blob=blob.first() or "", step=kept_step, now=now)
    run.refresh_from_db()
    plan = parse(run.recipe).stages[stage.index]
    assert isinstance(plan, RlStage)
    num_dropped = drop_stale_groups(stage, plan, now=now)
    say(
        run,
        "rolled_back",
        f"Trainer life {run.resume} goes on from the checkpoint of step {kept_step} as weight version "
        f"{version}: {len(superseded)} steps are superseded, {num_dropped} groups dropped.",
        now=now,
        level="warning",
        data={"resume": run.resume, "step": kept_step},
    )


def _free_groups(step: Step) -> None:
    """consumed -> ready; freshness is judged when they are claimed again."""
    for group in step.groups.filter(status=Group.Status.CONSUMED):
        group.move(Group.Status.READY, step=None, finished_at=None)

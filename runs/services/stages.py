"""Stages begin, are trained under a lease, and end.

A training stage is one Celery job that owns the stage's lease. A second claim of the same stage is a new
life of the trainer (`resume` + 1): it goes back to the last complete checkpoint (steps.roll_back).
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, Max, Q
from django.db.models.functions import Now

from controlplane.errors import LeaseLost
from controlplane.live import publish
from controlplane.queue import poke
from runs.events import StageChanged, run_topic
from runs.models import MetricPoint, Run, Stage, WeightVersion
from runs.recipe import EvalStage, RlStage, parse
from runs.services import steps, weights
from runs.services.events import say
from runs.services.groups import open_groups, tasks_of_stage
from runs.services.leases import lease_end, owned_stage


def announce(stage: Stage) -> None:
    run = stage.run
    event = StageChanged(run=run.pk, stage=stage.pk, status=stage.status)
    publish(run_topic(run.project_id, run.pk), event)


@transaction.atomic
def begin_stage(stage: Stage, *, now: datetime) -> None:
    """pending -> running. An evaluation opens all its groups at once, at the present weight version."""
    run = stage.run
    version = run.weight_version
    if stage.kind != Stage.Kind.EVAL and stage.weight_version is not None:
        version = stage.weight_version  # begun again: training still starts from where it started
    stage.move(Stage.Status.RUNNING, started_at=stage.started_at or now, weight_version=version)
    say(
        run,
        "stage_started",
        f"Stage {stage.name} started at weight version {run.weight_version}.",
        now=now,
    )
    plan = parse(run.recipe).stages[stage.index]
    tasks = [] if stage.kind == Stage.Kind.SFT else tasks_of_stage(stage)
    if not tasks and stage.kind != Stage.Kind.SFT:
        fail_stage(stage, "All its tasks are in quarantine.", now=now)
    elif isinstance(plan, EvalStage) and not stage.groups.exists():
        open_groups(stage, tasks, plan.attempts, now=now)
    announce(stage)
    poke()


def reopen_groups(stage: Stage, plan: EvalStage, *, now: datetime) -> int:
    """Tasks of an evaluation whose every group was dropped (a stop in the middle, then a resume) come again:
    the result must not be of those that were quick."""
    lost = set(stage.groups.filter(status="dropped").values_list("task", flat=True))
    kept = set(stage.groups.exclude(status="dropped").values_list("task", flat=True))
    again = sorted(lost - kept)
    if again:
        open_groups(stage, again, plan.attempts, now=now)
    return len(again)


@transaction.atomic
def fail_stage(stage: Stage, sentence: str, *, now: datetime) -> None:
    """running -> failed; the scheduler then fails the run."""
    stage.move(Stage.Status.FAILED, finished_at=now, failure_message=sentence[:2000])
    say(stage.run, "stage_failed", f"Stage {stage.name} failed: {sentence}", now=now, level="error")
    announce(stage)
    poke()


@transaction.atomic
def finish_stage(stage: Stage, result: dict[str, Any], *, now: datetime, sentence: str) -> None:
    """running -> succeeded."""
    stage.move(Stage.Status.SUCCEEDED, finished_at=now, result=result, lease_expires_at=None)
    say(stage.run, "stage_succeeded", sentence, now=now)
    announce(stage)
    poke()


@dataclass(frozen=True)
class TrainingPlan:
    """All that a train job needs; no row."""

    stage_id: int
    run_id: int
    project_id: int
    token: uuid.UUID
    stage_index: int
    resume: int
    seed: int
    recipe: dict[str, Any]
    weights: str
    """Blob prefix of the weights to start from; empty: the recipe's model."""
    checkpoint: str
    """Blob prefix of the trainer state to go on from; empty: fresh optimizer on `weights`."""
    num_steps_done: int
    first_metric_step: int
    """Steps of earlier stages: curves go on, they do not start again."""


@transaction.atomic
def claim_stage(stage_id: int, worker_id: int, *, now: datetime) -> TrainingPlan | None:
    """Own a running training stage whose lease is free; None for everyone who comes second."""
    stage = (
        Stage.objects.select_for_update(of=("self",), no_key=True)
        .select_related("run")
        .filter(
            Q(lease_token__isnull=True)
            | Q(lease_expires_at__isnull=True)
            | Q(lease_expires_at__lte=Now()),
            pk=stage_id,
            status=Stage.Status.RUNNING,
            run__status__in=[Run.Status.RUNNING, Run.Status.PAUSED],
        )
        .first()
    )
    if stage is None:
        return None
    run = stage.run
    is_second_life = stage.lease_token is not None
    token = uuid.uuid4()
    Stage.objects.filter(pk=stage_id).update(
        lease_token=token, lease_expires_at=lease_end(), lease_worker_id=worker_id
    )
    stage.lease_token = token
    if is_second_life:
        Run.objects.filter(pk=run.pk).update(resume=F("resume") + 1)
        run.refresh_from_db()
        steps.roll_back(stage, now=now)
    checkpoint = weights.last_checkpoint(stage)
    earlier = run.stages.filter(index__lt=stage.index)
    offset = sum(s.num_steps for s in earlier if s.kind == Stage.Kind.RL)
    if stage.kind == Stage.Kind.SFT:
        known = MetricPoint.objects.filter(run=run, name="sft/loss", at__lt=stage.started_at)
        offset = known.aggregate(last=Max("step"))["last"] or 0
    start = WeightVersion.objects.filter(run=run, version=stage.weight_version or 0).first()
    return TrainingPlan(
        stage_id=stage.pk,
        run_id=run.pk,
        project_id=run.project_id,
        token=token,
        stage_index=stage.index,
        resume=run.resume,
        seed=run.seed,
        recipe=run.recipe,
        weights=start.blob if start else "",
        checkpoint=checkpoint.blob if checkpoint else "",
        num_steps_done=stage.num_steps_done,
        first_metric_step=offset,
    )


def renew_stage(stage_id: int, token: uuid.UUID) -> str:
    """Keep the lease; the run's status comes back. Raises LeaseLost."""
    renewed = Stage.objects.filter(
        pk=stage_id, lease_token=token, status=Stage.Status.RUNNING
    ).update(lease_expires_at=lease_end())
    if not renewed:
        raise LeaseLost(f"Stage {stage_id} is no longer ours.")
    return Run.objects.values_list("status", flat=True).get(stages=stage_id)


@transaction.atomic
def report_progress(stage_id: int, token: uuid.UUID, progress: dict[str, Any]) -> None:
    """Figures of a stage that has no steps of its own (SFT). Raises LeaseLost."""
    stage = owned_stage(stage_id, token)
    Stage.objects.filter(pk=stage_id).update(progress=progress)
    announce(stage)


@transaction.atomic
def finish_training(
    stage_id: int, token: uuid.UUID, *, now: datetime, result: dict[str, Any]
) -> None:
    """The train job's last report. Raises LeaseLost."""
    stage = owned_stage(stage_id, token)
    finish_stage(stage, result, now=now, sentence=f"Stage {stage.name} succeeded.")


@transaction.atomic
def release_stage(
    stage_id: int, token: uuid.UUID, *, now: datetime, sentence: str, is_failure: bool
) -> None:
    """The train job gives the stage up; the scheduler starts a new life while the budget lasts."""
    stage = owned_stage(stage_id, token)
    run = stage.run
    Stage.objects.filter(pk=stage_id).update(lease_expires_at=now, dispatched_at=None)
    if is_failure:
        recover_training(stage, now=now, sentence=sentence)
    else:
        say(run, "trainer_released", sentence, now=now)
    poke()


def recover_training(stage: Stage, *, now: datetime, sentence: str) -> None:
    """A trainer died: one of the run's automatic resumes is spent, or the stage fails."""
    run = stage.run
    budget = parse(run.recipe).trainer.max_auto_resumes
    spent = Run.objects.filter(pk=run.pk, num_auto_resumes__lt=budget).update(
        num_auto_resumes=F("num_auto_resumes") + 1
    )
    Stage.objects.filter(pk=stage.pk).update(lease_expires_at=now, dispatched_at=None)
    if spent:
        say(
            run,
            "trainer_lost",
            f"{sentence} Resuming stage {stage.name} from its last checkpoint "
            f"({run.num_auto_resumes + 1} of {budget} automatic resumes).",
            now=now,
            level="warning",
        )
    else:
        fail_stage(stage, sentence, now=now)
    poke()


def num_open(stage: Stage, plan: RlStage) -> int:
    """How many groups admission may open now (invariant 6), never more than the stage still needs.

    Groups of a step in training hold their place until its weights are published: with them, at most max_staleness
    whole steps lie between a group's opening and its own step (docs/decisions/0004).
    """
    live = stage.groups.filter(status__in=["open", "ready"]).count()
    filling = stage.steps.filter(status__in=["training", "publishing"]).count()
    needed = (plan.num_steps - stage.num_steps_done - filling) * plan.groups_per_step - live
    capacity = (plan.max_staleness + 1 - filling) * plan.groups_per_step - live
    return max(0, min(needed, capacity))

"""Weight versions and checkpoints: published once, named by rows, pruned when nothing goes back to them.

Versions are +1 for each published update and never reused; each names its parent, so distance is counted along
the lineage and never negative after a roll-back.
"""

from __future__ import annotations

import uuid
from datetime import datetime

from django.db import transaction

from controlplane.live import publish
from controlplane.queue import poke
from runs.events import RunChanged, run_topic
from runs.models import Checkpoint, Run, Stage, WeightVersion
from runs.services.events import say
from runs.services.leases import owned_stage

KEEP_WEIGHTS = 5
"""The newest weight versions of a run, for engines that are still loading one."""


def publish_weights(run: Run, *, blob: str, step: int, now: datetime) -> int:
    """The run's next version, from the one it has now; engines converge to it."""
    run = Run.objects.select_for_update(no_key=True).get(pk=run.pk)
    version = run.next_version
    WeightVersion.objects.create(
        run=run,
        version=version,
        parent_version=run.weight_version,
        resume=run.resume,
        step=step,
        blob=blob,
        published_at=now,
    )
    Run.objects.filter(pk=run.pk).update(weight_version=version, next_version=version + 1)
    return version


def start_from(run: Run, weights: WeightVersion, *, now: datetime) -> None:
    """The run's version 0 is another run's published weights: the same blob, kept while either names it.

    Called in the launch's transaction, with `weights` locked.
    """
    WeightVersion.objects.create(
        run=run,
        version=0,
        parent_version=None,
        resume=0,
        step=0,
        blob=weights.blob,
        published_at=now,
    )


@transaction.atomic
def publish_stage_weights(
    stage_id: int, token: uuid.UUID, *, blob: str, step: int, now: datetime
) -> int:
    """The one publication of an SFT stage, at its end. Raises LeaseLost."""
    stage = owned_stage(stage_id, token)
    version = publish_weights(stage.run, blob=blob, step=step, now=now)
    poke()
    return version


@transaction.atomic
def record_checkpoint(
    stage_id: int,
    token: uuid.UUID,
    *,
    blob: str,
    num_bytes: int,
    step: int,
    keep: int,
    now: datetime,
) -> list[str]:
    """A complete trainer state; older ones beyond `keep` are pruned: their blobs come back for deletion."""
    stage = owned_stage(stage_id, token)
    Checkpoint.objects.create(
        run=stage.run,
        stage=stage,
        step=step,
        resume=stage.run.resume,
        weight_version=Run.objects.values_list("weight_version", flat=True).get(pk=stage.run_id),
        status=Checkpoint.Status.COMPLETE,
        blob=blob,
        num_bytes=num_bytes,
        created_at=now,
    )
    old = list(stage.checkpoints.filter(status=Checkpoint.Status.COMPLETE).order_by("-id")[keep:])
    for checkpoint in old:
        checkpoint.move(Checkpoint.Status.PRUNED)
    run = stage.run
    asked = Run.objects.filter(pk=run.pk, checkpoint_asked_at__isnull=False)
    if asked.update(checkpoint_asked_at=None):
        sentence = f"The checkpoint that was asked for holds step {step} of stage {stage.name}."
        say(run, "checkpoint_written", sentence, now=now)
    publish(run_topic(run.project_id, run.pk), RunChanged(run=run.pk, status=run.status))
    return [checkpoint.blob for checkpoint in old]


def is_checkpoint_asked(run_id: int) -> bool:
    return Run.objects.filter(pk=run_id, checkpoint_asked_at__isnull=False).exists()


@transaction.atomic
def prune_weights(stage_id: int, token: uuid.UUID, *, now: datetime) -> list[str]:
    """Blobs that nothing goes back to: not one of the newest versions, no checkpoint's, no stage's start.
    Raises LeaseLost."""
    run = owned_stage(stage_id, token).run
    known = WeightVersion.objects.filter(run=run, pruned_at__isnull=True).order_by("-version")
    wanted = set(run.stages.values_list("weight_version", flat=True))
    complete = run.checkpoints.filter(status=Checkpoint.Status.COMPLETE)
    wanted |= set(complete.values_list("weight_version", flat=True))
    old = [
        version
        for place, version in enumerate(known)
        if place >= KEEP_WEIGHTS and version.version not in wanted
    ]
    WeightVersion.objects.filter(pk__in=[version.pk for version in old]).update(pruned_at=now)
    # a roll-back publishes a blob once more, a run from a checkpoint begins with one of another run
    blobs = {v.blob for v in old} - {""}
    named = WeightVersion.objects.filter(blob__in=blobs, pruned_at__isnull=True)
    return sorted(blobs - set(named.values_list("blob", flat=True)))


@transaction.atomic
def condemn_checkpoint(stage_id: int, token: uuid.UUID, blob: str, *, now: datetime) -> None:
    """A checkpoint that did not verify: the next claim goes back to the one before it."""
    stage = owned_stage(stage_id, token)
    for checkpoint in stage.checkpoints.filter(blob=blob, status=Checkpoint.Status.COMPLETE):
        checkpoint.move(Checkpoint.Status.CORRUPT)
        say(
            stage.run,
            "checkpoint_corrupt",
            f"The checkpoint of step {checkpoint.step} does not match its manifest and was set aside.",
            now=now,
            level="error",
        )


def last_checkpoint(stage: Stage) -> Checkpoint | None:
    return stage.checkpoints.filter(status=Checkpoint.Status.COMPLETE).order_by("-id").first()


def lineage(run: Run, version: int) -> dict[int, int]:
    """Distance of each ancestor from `version`, itself 0, along parent versions."""
    parents = dict(WeightVersion.objects.filter(run=run).values_list("version", "parent_version"))
    distances: dict[int, int] = {}
    current: int | None = version
    while current is not None and current not in distances:
        distances[current] = len(distances)
        current = parents.get(current)
    return distances

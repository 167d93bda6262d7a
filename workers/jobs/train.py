"""One Celery job per training stage: it owns the stage's lease and commands one trainer process.

    claim ─> trainer process ─> sft ───────────────> export ─> publish ─> checkpoint ─> succeeded
                             └> per step: wait for ready groups ─> step ─> export ─> publish (─> checkpoint)

Consumes ready groups, produces weight versions. Waits for groups only: rollouts never wait for it.
Invariants: nothing is reported under a lost lease; weights exist for others only once a service accepted
them; a trainer that dies gives the stage back and the scheduler starts a new life.
"""

from __future__ import annotations

import logging
import shutil
import time
from pathlib import Path
from typing import Any

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from controlplane.blobs import BlobCorrupt, BlobStore, fresh_key
from controlplane.errors import LeaseLost
from runs import recipe as recipes
from runs.models import Run
from runs.services import stages, steps, weights
from runs.services.metrics import record_metrics
from runs.services.preflight import resolve_path
from sandboxes.failures import Failure, FailureClass, FailureStage
from sandboxes.services import record_failure
from workers.jobs.runtime import StageLease, database, runtime
from workers.jobs.weights import weights_directory
from workers.trainer.driver import TrainerProcess

log = logging.getLogger(__name__)

POLL_S = 0.2
ASKED_EVERY_S = 1.0
PROGRESS_EVERY_S = 1.0


class Stopped(Exception):
    """The run is being stopped, or this worker shut down: leave without a failure."""


@shared_task(ignore_result=True)
def run_stage(stage_id: int) -> None:
    """Claim the stage and train it to its end; a copy of the message does nothing."""
    process = runtime()
    plan = database(lambda: stages.claim_stage(stage_id, process.row.pk, now=timezone.now()))
    if plan is None:
        return
    job = _Training(process.store, process.cache_dir, plan)
    process.hold_stage(job.lease)
    try:
        job.run()
    except LeaseLost:
        log.warning("stage %s: the lease was lost; nothing is reported", stage_id)
    except Stopped:
        job.release("The trainer was told to stop.", is_failure=False)
    except Failure as failure:
        job.fail(failure)
    except Exception as error:
        log.exception("stage %s failed in our own code", stage_id)
        job.fail(
            Failure(FailureStage.TRAIN, FailureClass.UNKNOWN, f"{type(error).__name__}: {error}")
        )
    finally:
        process.hold_stage(None)


class _Training:
    def __init__(self, store: BlobStore, cache_dir: Path, plan: stages.TrainingPlan) -> None:
        self.store, self.cache_dir, self.plan = store, cache_dir, plan
        self.recipe = recipes.parse(plan.recipe)
        self.directory = Path(settings.VAR_DIR) / "trainer" / f"run-{plan.run_id}"
        self.trainer = TrainerProcess(
            self.directory,
            token=str(plan.token),
            backend=self.recipe.trainer.backend,
            threads=self.recipe.trainer.threads,
        )
        self.lease = StageLease(plan.stage_id, plan.token, kill=self.trainer.kill)
        self.saved_step = plan.num_steps_done  # a life begins at its checkpoint

    def run(self) -> None:
        stage = self.recipe.stages[self.plan.stage_index]
        try:
            with self.trainer:
                self.init()
                if isinstance(stage, recipes.SftStage):
                    self.imitate(stage)
                elif isinstance(stage, recipes.RlStage):
                    self.reinforce(stage)
        except Failure:
            self.check()  # a trainer that was told to end did not fail
            raise
        finally:
            for name in ("checkpoint", "export", "saved"):  # copies: the blob store has them
                shutil.rmtree(self.directory / name, ignore_errors=True)
        database(
            lambda: stages.finish_training(
                self.plan.stage_id, self.plan.token, now=timezone.now(), result={}
            )
        )

    def init(self) -> None:
        """Start from the checkpoint if there is one; a corrupt one is set aside and the stage given back."""
        plan = self.plan
        model_dir = weights_directory(
            self.store, self.cache_dir, plan.weights, self.recipe.model.path
        )
        checkpoint_dir = None
        try:
            if plan.checkpoint:
                checkpoint_dir = self.directory / "checkpoint"
                shutil.rmtree(checkpoint_dir, ignore_errors=True)
                self.store.get_directory(plan.checkpoint, checkpoint_dir)
        except (BlobCorrupt, FileNotFoundError) as error:
            self.condemn(str(error))
        try:
            self.ask(
                "init",
                model_dir=str(model_dir),
                seed=plan.seed,
                context_length=self.recipe.model.context_length,
                checkpoint_dir=str(checkpoint_dir) if checkpoint_dir else None,
            )
        except Failure as failure:
            if failure.evidence.get("is_corrupt"):
                self.condemn(failure.message)
            raise

    def condemn(self, message: str) -> None:
        plan = self.plan
        database(
            lambda: weights.condemn_checkpoint(
                plan.stage_id, plan.token, plan.checkpoint, now=timezone.now()
            )
        )
        raise Failure(FailureStage.CHECKPOINT, FailureClass.IMAGE_ERROR, message)

    def imitate(self, stage: recipes.SftStage) -> None:
        """SFT: curves while it runs, one publication at its end."""
        plan = self.plan
        reported_at = 0.0
        last_step = plan.first_metric_step

        def on_progress(progress: dict[str, Any]) -> None:
            nonlocal reported_at, last_step
            self.check()
            last_step = plan.first_metric_step + int(progress["step"])
            if time.monotonic() - reported_at < PROGRESS_EVERY_S:
                return
            reported_at = time.monotonic()
            database(lambda: self.report_progress(progress, last_step))

        hyper = stage.model_dump(mode="json", exclude={"kind", "name", "traces"})
        self.ask("sft", on_progress, traces=str(resolve_path(stage.traces)), hyper=hyper)
        blob = self.export()
        database(
            lambda: weights.publish_stage_weights(
                plan.stage_id, plan.token, blob=blob, step=last_step, now=timezone.now()
            )
        )

    def report_progress(self, progress: dict[str, Any], step: int) -> None:
        plan, now = self.plan, timezone.now()
        stages.report_progress(plan.stage_id, plan.token, progress)
        values = {
            "sft/loss": float(progress["loss"]),
            "sft/learning_rate": float(progress["learning_rate"]),
        }
        record_metrics(Run.objects.get(pk=plan.run_id), values, step=step, now=now)

    def reinforce(self, stage: recipes.RlStage) -> None:
        """RL: one step after the other, on whatever groups are ready."""
        for index in range(self.plan.num_steps_done + 1, stage.num_steps + 1):
            self.take_step(stage, index)
            self.save_if_due(stage, index)

    def save_if_due(self, stage: recipes.RlStage, num_done: int) -> None:
        is_due = is_checkpoint_due(
            num_done,
            saved=self.saved_step,
            every=self.recipe.trainer.checkpoint_every,
            num_steps=stage.num_steps,
            is_asked=database(lambda: weights.is_checkpoint_asked(self.plan.run_id)),
        )
        if is_due:
            self.checkpoint(num_done)

    def take_step(self, stage: recipes.RlStage, index: int) -> None:
        plan = self.plan
        step_id = database(lambda: steps.begin_step(plan.stage_id, plan.token, now=timezone.now()))
        began = time.monotonic()
        batch = self.wait_for_batch(stage, index, step_id)
        wait_s = time.monotonic() - began
        algorithm = stage.algorithm
        logprobs = {
            member.trajectory_id: f"{member.blob}.logprobs-{step_id}" for member in batch.members
        }
        reply = self.ask(
            "step",
            step=index,
            learning_rate=learning_rate(algorithm, index, stage.num_steps),
            algorithm=algorithm.model_dump(mode="json"),
            temperature=stage.temperature,
            version=batch.version,
            trajectories=[
                {
                    "url": self.store.url(member.blob),
                    "logprobs": self.store.url(logprobs[member.trajectory_id]),
                    "advantage": member.advantage,
                    "group": member.group_id,
                }
                for member in batch.members
            ],
        )
        database(
            lambda: steps.report_update(
                plan.stage_id,
                plan.token,
                step_id,
                metrics=reply["metrics"],
                wait_s=wait_s,
                logprob_s=reply["logprob_s"],
                update_s=reply["update_s"],
                logprobs=logprobs if reply["has_logprobs"] else {},
            )
        )
        began = time.monotonic()
        blob = self.export()
        database(
            lambda: steps.publish_step(
                plan.stage_id,
                plan.token,
                step_id,
                blob=blob,
                publish_s=time.monotonic() - began,
                metric_step=plan.first_metric_step + index,
                now=timezone.now(),
            )
        )

    def wait_for_batch(self, stage: recipes.RlStage, index: int, step_id: int) -> steps.Batch:
        """Polls for ready groups. A checkpoint asked for meanwhile, or in a pause, is written right away."""
        looked_at = time.monotonic()
        while True:
            self.check()
            if time.monotonic() - looked_at > ASKED_EVERY_S:
                looked_at = time.monotonic()
                self.save_if_due(stage, index - 1)
            batch = database(
                lambda: steps.claim_batch(
                    self.plan.stage_id, self.plan.token, step_id, now=timezone.now()
                )
            )
            if batch is not None:
                return batch
            time.sleep(POLL_S)

    def export(self) -> str:
        """The trainer's weights as a published directory; returns its blob prefix."""
        local = self.directory / "export"
        shutil.rmtree(local, ignore_errors=True)
        self.ask("export", weights_dir=str(local))
        blob = fresh_key(f"p{self.plan.project_id}/runs/{self.plan.run_id}/weights")
        self.store.put_directory(blob, local)
        return blob

    def checkpoint(self, index: int) -> None:
        """A trainer state in the blob store; what nothing goes back to any more is deleted."""
        local = self.directory / "saved"
        shutil.rmtree(local, ignore_errors=True)
        self.ask("save", checkpoint_dir=str(local))
        blob = fresh_key(f"p{self.plan.project_id}/runs/{self.plan.run_id}/checkpoints")
        num_bytes = self.store.put_directory(blob, local)
        pruned = database(
            lambda: weights.record_checkpoint(
                self.plan.stage_id,
                self.plan.token,
                blob=blob,
                num_bytes=num_bytes,
                step=index,
                keep=self.recipe.trainer.keep_checkpoints,
                now=timezone.now(),
            )
        )
        pruned += database(
            lambda: weights.prune_weights(self.plan.stage_id, self.plan.token, now=timezone.now())
        )
        self.saved_step = index
        for old in pruned:
            try:
                self.store.delete(old)
            except OSError as error:  # no row names it any more: it costs space, not the training
                log.warning("%s was not deleted: %s", old, error)

    def ask(self, type_: str, on_progress: Any = None, **fields: Any) -> dict[str, Any]:
        self.check()
        reply = self.trainer.request(type_, on_progress, **fields)
        if self.lease.is_lost:
            raise LeaseLost(f"Stage {self.plan.stage_id} is no longer ours.")
        return reply

    def check(self) -> None:
        if self.lease.is_lost:
            raise LeaseLost(f"Stage {self.plan.stage_id} is no longer ours.")
        if self.lease.run_status not in (Run.Status.RUNNING, Run.Status.PAUSED):
            raise Stopped

    def fail(self, failure: Failure) -> None:
        if self.lease.is_lost:
            return
        database(
            lambda: record_failure(
                self.plan.project_id,
                failure,
                attempt_id=None,
                run_id=self.plan.run_id,
                now=timezone.now(),
            )
        )
        self.release(f"The trainer failed: {failure.message}", is_failure=True)

    def release(self, sentence: str, *, is_failure: bool) -> None:
        try:
            database(
                lambda: stages.release_stage(
                    self.plan.stage_id,
                    self.plan.token,
                    now=timezone.now(),
                    sentence=sentence,
                    is_failure=is_failure,
                )
            )
        except LeaseLost:
            log.warning("stage %s: the lease was lost; nothing is reported", self.plan.stage_id)


def is_checkpoint_due(
    num_done: int, *, saved: int, every: int, num_steps: int, is_asked: bool
) -> bool:
    """After `num_done` steps, of which the newest checkpoint holds `saved`: by interval, at the end, or asked for."""
    if num_done <= saved:
        return False
    return is_asked or num_done % every == 0 or num_done == num_steps


def learning_rate(algorithm: recipes.Algorithm, index: int, num_steps: int) -> float:
    """Linear decay: the share `lr_decay` is lost by the end. index counts from 1."""
    return algorithm.learning_rate * (1 - algorithm.lr_decay * (index - 1) / num_steps)

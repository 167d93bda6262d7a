"""A training stage by its job, with a real trainer process: what it publishes, and how it dies and resumes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.conf import settings

from controlplane.blobs import fresh_key
from runs.models import (
    Attempt,
    Checkpoint,
    Event,
    Group,
    MetricPoint,
    Run,
    Stage,
    Step,
    WeightVersion,
)
from runs.selectors.runs import trained_twice
from runs.services import attempts, weights
from runs.services.runs import pause_run, request_checkpoint, stop_run
from sandboxes.models import Failure
from tests.factories import NOW, UserFactory
from tests.runs.lab import result
from tests.workers.jobs.conftest import Job, current, wait_until
from tests.workers.jobs.lab import JobLab, rollout_recipe
from tests.workers.trainer.builders import CONTEXT, make_model_dir, make_trajectory, write_traces
from workers.jobs.runtime import Runtime
from workers.jobs.train import is_checkpoint_due, run_stage
from workers.rl.arrays import decode, encode

pytestmark = pytest.mark.django_db(transaction=True)

Start = Callable[[Callable[[], object]], Job]


@pytest.fixture(scope="module")
def process() -> Iterator[Runtime]:
    yield from current("train", 1)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model_dir(tmp_path_factory.mktemp("train") / "model")


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_traces(tmp_path_factory.mktemp("traces") / "traces.jsonl", 8)


def recipe(model: Path, stages: list[dict[str, Any]]) -> dict[str, Any]:
    return rollout_recipe(
        model,
        context_length=CONTEXT,
        agent={"turn_token_cap": 8, "token_cap": CONTEXT},
        trainer={"checkpoint_every": 1, "keep_checkpoints": 2},
    ) | {"stages": stages}


@pytest.fixture
def sft(process: Runtime, model: Path, traces: Path) -> JobLab:
    plan = {"kind": "sft", "name": "sft-training", "traces": str(traces), "tokens_per_batch": 128}
    lab = JobLab(recipe(model, [plan | {"epochs": 1, "warmup_steps": 0}]), process=process)
    lab.begin("sft")
    return lab


@pytest.fixture
def rl(process: Runtime, model: Path) -> JobLab:
    plan = {
        "kind": "rl",
        "name": "rl-training",
        "task_set": "train",
        "num_steps": 1,
        "groups_per_step": 1,
        "group_size": 4,
        "algorithm": {"learning_rate": 1e-3},
    }
    lab = JobLab(recipe(model, [plan]), process=process)
    lab.begin("rl")
    return lab


def complete_group(lab: JobLab) -> Group:
    """Four trajectories as a worker reports them, two of them solved; the arrays are real."""
    group = lab.open_rl_groups(1)[0]
    rng = np.random.default_rng(group.pk)
    queued = Attempt.objects.filter(trajectory__group=group).order_by("pk")
    for number, attempt in enumerate(queued):
        blob = fresh_key(f"p1/runs/{lab.run.pk}/attempts")
        lab.store.put(blob, encode(make_trajectory(rng, 0, 40)))
        token = lab.claim_to_grading(attempt).token
        figures = result(blob=blob, version_min=0, version_max=0)
        attempts.complete_attempt(attempt.pk, token, figures, reward=float(number % 2), now=NOW)
    group.refresh_from_db()
    return group


def trainer_pid(lab: JobLab) -> int:
    text = (Path(settings.VAR_DIR) / "trainer" / f"run-{lab.run.pk}" / "trainer.pid").read_text()
    return int(text.strip("[]").split(",")[0])


def stage_of(lab: JobLab) -> Stage:
    return Stage.objects.get(run=lab.run)


def assert_nothing_runs(process: Runtime, lab: JobLab) -> None:
    folder = Path(settings.VAR_DIR) / "trainer" / f"run-{lab.run.pk}"
    assert process._stage is None
    assert not (folder / "trainer.pid").exists()
    assert [p.name for p in folder.iterdir() if p.is_dir()] == [], "copies of blobs are left"


def test_fine_tuning_publishes_once_with_its_curve(sft: JobLab, process: Runtime) -> None:
    run_stage(stage_of(sft).pk)

    assert stage_of(sft).status == "succeeded"
    version = WeightVersion.objects.get(run=sft.run)
    assert (version.version, version.parent_version) == (1, 0)
    assert process.store.fs.exists(process.store.url(version.blob) + "/model.safetensors")
    assert MetricPoint.objects.filter(run=sft.run, name="sft/loss").exists()
    assert_nothing_runs(process, sft)


def test_an_rl_step_consumes_a_group_publishes_and_leaves_a_checkpoint(
    rl: JobLab, process: Runtime
) -> None:
    group = complete_group(rl)
    run_stage(stage_of(rl).pk)

    assert stage_of(rl).status == "succeeded"
    step = Step.objects.get(run=rl.run)
    group.refresh_from_db()
    assert (step.status, step.published_version, group.step_id) == ("done", 1, step.pk)
    assert step.metrics["train/grad_norm"] > 0
    for consumption in step.consumptions.all():
        attempt = Attempt.objects.get(trajectory=consumption.trajectory_id)
        kept = np.frombuffer(process.store.get(consumption.logprobs), "<f4")
        arrays = decode(process.store.get(attempt.blob))
        assert len(kept) == arrays.mask.sum(), "one for every trained token"
        gap = np.abs(kept - arrays.logprobs[arrays.mask == 1])
        assert 0 < gap.mean() < 1.5, "near what sampled them"
    checkpoint = Checkpoint.objects.get(run=rl.run)
    assert (checkpoint.status, checkpoint.step, checkpoint.weight_version) == ("complete", 1, 1)
    assert_nothing_runs(process, rl)


def test_a_corrupt_checkpoint_is_set_aside_and_the_next_life_goes_on_without_it(
    rl: JobLab, process: Runtime
) -> None:
    complete_group(rl)
    plan = rl.claim_training()
    blob = "p1/checkpoints/corrupt"
    weights.record_checkpoint(
        plan.stage_id, plan.token, blob=blob, num_bytes=1, step=0, keep=2, now=NOW
    )
    process.store.put(f"{blob}/manifest.json", b'{"files": {"gone": {"bytes": 1, "sha256": ""}}}')
    Stage.objects.filter(run=rl.run).update(lease_expires_at=NOW)
    run_stage(plan.stage_id)

    assert Checkpoint.objects.get(run=rl.run).status == "corrupt"
    assert stage_of(rl).status == "running"
    assert Event.objects.filter(run=rl.run, kind="checkpoint_corrupt").exists()
    run_stage(plan.stage_id)
    assert stage_of(rl).status == "succeeded"


def test_a_trainer_killed_in_a_request_gives_its_stage_back_and_a_new_life_trains_the_same_groups(
    rl: JobLab, process: Runtime, start: Start
) -> None:
    job = start(lambda: run_stage(stage_of(rl).pk))
    wait_until(lambda: Step.objects.filter(run=rl.run, status="collecting").exists())
    os.kill(trainer_pid(rl), signal.SIGKILL)
    group = complete_group(rl)
    job.join()

    stage = stage_of(rl)
    assert (stage.status, stage.dispatched_at) == ("running", None)
    assert Failure.objects.get(run_id=rl.run.pk).stage == "train"
    assert Event.objects.filter(run=rl.run, kind="trainer_lost").exists()
    assert_nothing_runs(process, rl)

    run_stage(stage.pk)
    group.refresh_from_db()
    assert group.step is not None
    assert (stage_of(rl).status, group.step.resume, group.step.status) == ("succeeded", 1, "done")
    assert trained_twice(rl.run.pk) == 0


def test_a_stop_ends_a_trainer_that_is_busy_and_is_no_failure(
    sft: JobLab, process: Runtime, start: Start
) -> None:
    stage = stage_of(sft)
    job = start(lambda: run_stage(stage.pk))
    wait_until(lambda: process._stage is not None)
    sft.run.refresh_from_db()
    stop_run(sft.run, actor=UserFactory(admin=True), reason="enough", now=NOW)

    def beat() -> bool:
        process._renew()
        return not job.is_alive

    wait_until(beat)
    job.join()

    assert not Failure.objects.filter(run_id=sft.run.pk).exists()
    assert Run.objects.get(pk=sft.run.pk).num_auto_resumes == 0
    assert stage_of(sft).status == "running", "the scheduler ends it"
    assert_nothing_runs(process, sft)


def test_a_trainer_without_its_lease_ends_and_reports_nothing(
    rl: JobLab, process: Runtime, start: Start
) -> None:
    stage = stage_of(rl)
    job = start(lambda: run_stage(stage.pk))
    wait_until(lambda: Step.objects.filter(run=rl.run).exists())
    Stage.objects.filter(pk=stage.pk).update(lease_token="00000000-0000-0000-0000-000000000001")
    process._renew()
    job.join()

    assert Run.objects.get(pk=rl.run.pk).weight_version == 0
    assert not Failure.objects.filter(run_id=rl.run.pk).exists()
    assert_nothing_runs(process, rl)


@pytest.mark.parametrize(
    ("num_done", "saved", "is_asked", "is_due"),
    [
        (5, 0, False, True),  # by interval
        (4, 0, False, False),
        (12, 10, False, True),  # the last step
        (4, 0, True, True),  # asked for
        (4, 4, True, False),  # there is nothing new to save
        (0, 0, True, False),  # there is nothing to save yet
        (5, 5, False, False),  # a life that begins at a checkpoint does not write it again
    ],
)
def test_a_checkpoint_is_due_by_interval_at_the_end_and_when_asked_for(
    num_done: int, saved: int, is_asked: bool, is_due: bool
) -> None:
    found = is_checkpoint_due(num_done, saved=saved, every=5, num_steps=12, is_asked=is_asked)

    assert found is is_due


def test_a_checkpoint_asked_for_in_a_pause_is_written_between_the_steps(
    process: Runtime, model: Path, start: Start
) -> None:
    plan = {"kind": "rl", "name": "rl-training", "task_set": "train", "num_steps": 2}
    plan |= {"groups_per_step": 1, "group_size": 4}
    rarely = {"trainer": {"checkpoint_every": 100}}
    lab = JobLab(recipe(model, [plan]) | rarely, process=process)
    lab.begin("rl")
    complete_group(lab)
    job = start(lambda: run_stage(stage_of(lab).pk))
    wait_until(lambda: Step.objects.filter(run=lab.run, index=1, status="done").exists())
    somebody: dict[str, Any] = {
        "actor": UserFactory(admin=True),
        "reason": "before lunch",
        "now": NOW,
    }
    lab.run.refresh_from_db()
    pause_run(lab.run, **somebody)
    assert not Checkpoint.objects.filter(run=lab.run).exists()
    request_checkpoint(lab.run, **somebody)
    wait_until(lambda: Checkpoint.objects.filter(run=lab.run).exists())

    checkpoint = Checkpoint.objects.get(run=lab.run)
    assert (checkpoint.step, checkpoint.weight_version) == (1, 1)
    lab.run.refresh_from_db()
    assert lab.run.checkpoint_asked_at is None
    stop_run(lab.run, **somebody)
    process._renew()
    job.join()

"""An engine by its job, with the real reference server."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.db import transaction

from controlplane.blobs import fresh_key
from runs.models import Engine, Run, Worker
from runs.services import weights
from tests.factories import NOW
from tests.workers.jobs.conftest import Job, current, wait_until
from tests.workers.jobs.lab import JobLab, rollout_recipe
from tests.workers.trainer.builders import CONTEXT, make_model_dir
from workers.engines.client import EngineClient
from workers.jobs.engine import load_of, run_engine
from workers.jobs.runtime import Runtime
from workers.trainer import directories

pytestmark = pytest.mark.django_db(transaction=True)

Start = Callable[[Callable[[], object]], Job]


@pytest.fixture(scope="module")
def process() -> Iterator[Runtime]:
    yield from current("engine", 4)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The weights of version 0 and of version 1."""
    folder = tmp_path_factory.mktemp("engine")
    return [make_model_dir(folder / f"model-{seed}", seed) for seed in (1, 2)]


@pytest.fixture
def lab(process: Runtime, models: list[Path]) -> JobLab:
    recipe = rollout_recipe(
        models[0],
        context_length=CONTEXT,
        agent={"turn_token_cap": 8, "token_cap": CONTEXT},
    )
    lab = JobLab(recipe, process=process)
    Engine.objects.filter(pk=lab.engine.pk).update(
        status="starting", lease_token=None, weight_version=None, url="", synced_at=None
    )
    return lab


def publish(lab: JobLab, source: Path) -> str:
    """A blob directory with a manifest, as version 1."""
    local = source.with_name(f"published-{lab.run.pk}")

    def copy(target: Path) -> None:
        shutil.copytree(source, target, dirs_exist_ok=True)

    directories.publish(local, copy)
    blob = fresh_key("weights")
    lab.store.put_directory(blob, local)
    with transaction.atomic():
        weights.publish_weights(lab.run, blob=blob, step=1, now=NOW)
    return blob


def state(lab: JobLab) -> Engine:
    lab.engine.refresh_from_db()
    return lab.engine


def serving(lab: JobLab, start: Start) -> Job:
    job = start(lambda: run_engine(lab.engine.pk))
    wait_until(lambda: state(lab).status == "serving" or not job.is_alive)
    assert state(lab).status == "serving", state(lab).failure_message
    return job


def end(lab: JobLab, job: Job) -> None:
    Run.objects.filter(pk=lab.run.pk).update(status="succeeded", finished_at=NOW)
    job.join()


def is_alive(pid: int | None) -> bool:
    return pid is not None and Path(f"/proc/{pid}").exists()


def test_an_engine_serves_follows_a_published_version_and_ends_with_its_run(
    lab: JobLab, start: Start, models: list[Path]
) -> None:
    job = serving(lab, start)
    client = EngineClient(state(lab).url)
    first = client.generate([1, 2, 3], rid="a", max_new_tokens=4)
    assert (set(first.versions), state(lab).weight_version) == ({0}, 0)

    publish(lab, models[1])
    wait_until(lambda: state(lab).weight_version == 1)
    second = client.generate([1, 2, 3], rid="b", max_new_tokens=4)
    assert set(second.versions) == {1}

    pid = state(lab).pid
    end(lab, job)
    assert state(lab).status == "gone"
    assert not is_alive(pid)


def test_weights_that_cannot_be_read_lose_the_engine_with_a_sentence(
    lab: JobLab, start: Start, models: list[Path]
) -> None:
    job = serving(lab, start)
    blob = publish(lab, models[1])
    (Path(lab.store._root) / blob / "model.safetensors").write_bytes(b"not weights")
    job.join()

    assert state(lab).status == "lost"
    assert "model.safetensors" in state(lab).failure_message
    assert not is_alive(state(lab).pid)


def test_a_server_that_is_killed_is_a_lost_engine(lab: JobLab, start: Start) -> None:
    job = serving(lab, start)
    os.kill(state(lab).pid or 0, signal.SIGKILL)
    job.join()

    assert state(lab).status == "lost"
    assert "ended with -9" in state(lab).failure_message


def test_a_model_that_cannot_be_loaded_says_so(
    lab: JobLab, start: Start, models: list[Path], tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(models[0], broken)
    (broken / "model.safetensors").write_bytes(b"not weights")
    lab.run.recipe["model"]["path"] = str(broken)
    Run.objects.filter(pk=lab.run.pk).update(recipe=lab.run.recipe)
    start(lambda: run_engine(lab.engine.pk)).join()

    assert state(lab).status == "lost"
    assert state(lab).failure_message != ""


def test_no_server_is_started_for_a_run_that_is_over(
    lab: JobLab, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    Run.objects.filter(pk=lab.run.pk).update(status="succeeded", finished_at=NOW)
    run_engine(lab.engine.pk)

    assert (state(lab).status, state(lab).pid) == ("starting", None)


def test_what_is_kept_of_an_engines_load_has_our_names_and_nothing_that_it_did_not_say() -> None:
    answer = {"aggregate": {"num_running_reqs": 3, "token_usage": 0.5, "utilization": 1, "x": "y"}}

    assert load_of(answer) == {"running": 3.0, "token_usage": 0.5}
    assert load_of({}) == {}


def test_ranks_without_an_aggregate_are_added_up_and_the_worst_share_counts() -> None:
    ranks = [
        {"num_running_reqs": 3, "token_usage": 0.9, "longest_req_tokens": 70},
        {"num_running_reqs": 1, "token_usage": 0.1},
    ]

    assert load_of({"loads": ranks}) == {"running": 4, "token_usage": 0.9, "longest_tokens": 70}


class FakeConsumer:
    """What a worker asks of Celery's consumer."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def call_soon(self, turn: Callable[[str], None], queue: str) -> None:
        turn(queue)

    def cancel_task_queue(self, queue: str) -> None:
        self.asked.append(("cancel", queue))

    def add_task_queue(self, queue: str) -> None:
        self.asked.append(("add", queue))


def test_a_draining_worker_takes_no_job_from_its_queue_until_it_may_again(
    process: Runtime, monkeypatch: pytest.MonkeyPatch, lab: JobLab
) -> None:
    consumer = FakeConsumer()
    monkeypatch.setattr(process, "consumer", consumer)
    process._renew()
    Worker.objects.filter(pk=process.row.pk).update(status="draining")
    process._renew()
    process._renew()
    Worker.objects.filter(pk=process.row.pk).update(status="live")
    process._renew()

    assert consumer.asked == [("cancel", "engine"), ("add", "engine")]

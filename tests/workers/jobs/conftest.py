"""The job code in this process: real PostgreSQL, real boxes, real HTTP; only Celery is missing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from benchmarks.overhead import write_model
from runs.models import Run
from tests.factories import NOW
from tests.scripted_engine import Reply, ScriptedEngine, by_turn
from workers.engines.chat import Chat
from workers.jobs import runtime as runtimes
from workers.jobs.runtime import Runtime


def current(kind: str, num_slots: int) -> Iterator[Runtime]:
    """This process as a worker of the kind. Its heart beats when a test calls `_renew`."""
    process = Runtime(kind, f"test-{kind}", num_slots)
    runtimes._runtime.append(process)
    yield process
    runtimes._runtime.remove(process)
    if process.driver is not None:
        process.recorder.close()
        process.driver.close()


@pytest.fixture(scope="module")
def chat_and_model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Chat, Path]:
    folder = tmp_path_factory.mktemp("jobs") / "model"
    return write_model(folder), folder


@pytest.fixture(scope="module")
def engine_of_module() -> Iterator[ScriptedEngine]:
    with ScriptedEngine(by_turn([Reply()])) as engine:
        yield engine


@pytest.fixture
def engine(engine_of_module: ScriptedEngine) -> ScriptedEngine:
    engine_of_module.calls.clear()
    engine_of_module.aborted.clear()
    return engine_of_module


@pytest.fixture
def say(engine: ScriptedEngine, chat_and_model: tuple[Chat, Path]) -> Callable[..., None]:
    """Script the policy: what it answers turn by turn; the last answer stays. A Reply is a fault."""

    def script(*answers: str | Reply) -> None:
        chat = chat_and_model[0]
        engine.engine.script = by_turn(
            [a if isinstance(a, Reply) else Reply(chat.action(a)) for a in answers]
        )

    return script


class Job:
    """A job in a thread of its own, as in a worker."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.error: Exception | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._call()
        except Exception as error:  # noqa: BLE001 - join() raises it
            self.error = error
        finally:
            connections.close_all()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, timeout_s: float = 120.0) -> None:
        self._thread.join(timeout_s)
        assert not self._thread.is_alive(), "the job does not end"
        if self.error is not None:
            raise self.error


@pytest.fixture
def start() -> Iterator[Callable[[Callable[[], object]], Job]]:
    """Start jobs; the test's end ends them."""
    jobs: list[Job] = []

    def start_job(call: Callable[[], object]) -> Job:
        jobs.append(Job(call))
        return jobs[-1]

    yield start_job
    if any(job.is_alive for job in jobs):  # a test that failed half-way
        Run.objects.update(status="cancelled", finished_at=NOW)
    for job in jobs:
        job._thread.join(120)


def wait_until(is_true: Callable[[], Any], timeout_s: float = 120.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_true():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)

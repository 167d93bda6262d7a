"""One short run; while it trains, each part of the stack is killed with kill -9.

The run must go on or resume by itself, no committed row may be lost, no trajectory may train twice, no
infrastructure failure may have a reward, and every gap must have a sentence in the event feed.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import Stack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]

NUM_STEPS = 80


def recipe(folder: Path, **changes: Any) -> str:
    return yaml.safe_dump(
        {
            "version": 1,
            "name": "survival",
            "model": {"path": str(folder / "model"), "context_length": 448},
            "task_sets": {"train": "miniature-train", "held_out": "miniature-held-out"},
            "agent": {
                "format": "raw",
                "turn_cap": 6,
                "turn_token_cap": 14,
                "token_cap": 448,
                "observation_bytes": 400,
            },
            "timeouts": {
                "start_s": 20,
                "setup_s": 10,
                "llm_call_s": 20,
                "command_s": 5,
                "turn_s": 30,
                "agent_s": 60,
                "verify_s": 20,
                "trajectory_s": 120,
            },
            "sandbox": {"memory_mb": 256, "disk_mb": 16, "max_processes": 32, "lifetime_s": 600},
            "trainer": {"checkpoint_every": 2, "max_auto_resumes": 5},
            "rollout": {"max_in_flight": 32, "max_infra_attempts": 8},
            "stages": [
                {
                    "kind": "sft",
                    "name": "sft-training",
                    "traces": str(folder / "traces.jsonl"),
                    "epochs": 1,
                    "learning_rate": 2e-3,
                    "tokens_per_batch": 640,
                    "observation_weight": 0.1,
                },
                {
                    "kind": "rl",
                    "name": "rl-training",
                    "task_set": "train",
                    "num_steps": NUM_STEPS,
                    "groups_per_step": 4,
                    "group_size": 4,
                    "max_staleness": 2,
                    "algorithm": {"learning_rate": 1e-4},
                },
                {
                    "kind": "eval",
                    "name": "rl",
                    "task_set": "held_out",
                    "attempts": 1,
                    "num_tasks": 8,
                },
            ],
            **changes,
        }
    )


@pytest.fixture(scope="module")
def run_id(stack: Stack, miniature: Path) -> int:
    answer = stack.api.post("/runs", json={"source": recipe(miniature)})
    assert answer.status_code in (201, 202), answer.text
    run = int(answer.json()["id"])
    stack.wait_for(lambda: steps_done(stack, run) >= 1, 120, "the first step")
    return run


def steps_done(stack: Stack, run: int) -> int:
    return int(
        stack.value("SELECT count(*) FROM runs_step WHERE run_id = %s AND status = 'done'", run)
    )


def events(stack: Stack, run: int, kind: str) -> list[str]:
    rows = stack.query(
        "SELECT sentence FROM runs_event WHERE run_id = %s AND kind = %s ORDER BY id", run, kind
    )
    return [row["sentence"] for row in rows]


@contextmanager
def surviving(stack: Stack, run: int, *, seconds: float = 90) -> Iterator[None]:
    """What happens inside does not keep the run from finishing two more steps than it had begun."""
    before = steps_done(stack, run)
    assert not ended(stack, run), "the run ended before this test could harm it: raise NUM_STEPS"
    yield
    stack.wait_for(lambda: steps_done(stack, run) >= before + 2, seconds, "two more steps")


def ended(stack: Stack, run: int) -> bool:
    status = stack.value("SELECT status FROM runs_run WHERE id = %s", run)
    return status in ("succeeded", "failed", "cancelled")


def in_flight(stack: Stack, run: int) -> int:
    return int(
        stack.value(
            "SELECT count(*) FROM runs_attempt WHERE run_id = %s"
            " AND status IN ('starting', 'running', 'grading')",
            run,
        )
    )


def committed(stack: Stack, run: int) -> dict[str, int]:
    tables = {
        "turns": "runs_turn t JOIN runs_attempt a ON a.id = t.attempt_id WHERE a.run_id = %s",
        "completed": "runs_attempt WHERE status = 'completed' AND run_id = %s",
        "steps": "runs_step WHERE status IN ('done', 'superseded') AND run_id = %s",
        "events": "runs_event WHERE run_id = %s",
    }
    return {name: stack.value(f"SELECT count(*) FROM {sql}", run) for name, sql in tables.items()}


def test_a_rollout_worker_killed_mid_turn(stack: Stack, run_id: int) -> None:
    mine = (
        "SELECT count(*) FROM runs_attempt a JOIN runs_worker w ON w.id = a.worker_id"
        " WHERE a.run_id = %s AND a.status = 'running' AND w.pid = %s"
    )

    def busy() -> int:
        """A worker stopped in the middle of trajectories, or 0; looked at while it cannot move."""
        for pid in stack.pids("celery", "-n rollout1@"):
            os.kill(pid, signal.SIGSTOP)
            if stack.value(mine, run_id, pid):
                return pid
            os.kill(pid, signal.SIGCONT)
        return 0

    lost = "SELECT count(*) FROM runs_attempt WHERE run_id = %s AND failure_class = 'lost'"
    with surviving(stack, run_id):
        pid = stack.wait_for(busy, 60, "a worker with trajectories in flight")
        os.kill(pid, signal.SIGKILL)
        stack.wait_for(lambda: stack.value(lost, run_id), 60, "its attempts to be given up")
    assert events(stack, run_id, "worker_lost")


def test_the_trainer_killed_mid_step(stack: Stack, run_id: int) -> None:
    before = len(events(stack, run_id, "trainer_lost"))
    with surviving(stack, run_id, seconds=120):
        stack.kill("workers.trainer")
        stack.wait_for(
            lambda: len(events(stack, run_id, "trainer_lost")) > before, 60, "a sentence on it"
        )
    assert stack.value("SELECT resume FROM runs_run WHERE id = %s", run_id) >= 1


def test_an_engine_killed_mid_generation(stack: Stack, run_id: int) -> None:
    with surviving(stack, run_id):
        stack.kill("workers.engines.reference")
        stack.wait_for(lambda: events(stack, run_id, "engine_lost"), 60, "a sentence on it")


def test_the_control_worker_killed(stack: Stack, run_id: int) -> None:
    with surviving(stack, run_id):
        stack.kill("celery", "-n control@")


@pytest.mark.parametrize("service", ["valkey-server", "postgres -D"])
def test_a_service_killed_loses_no_committed_row(stack: Stack, run_id: int, service: str) -> None:
    before = committed(stack, run_id)
    with surviving(stack, run_id, seconds=120):
        stack.kill(*service.split())
    after = committed(stack, run_id)
    assert all(after[name] >= before[name] for name in before), (before, after)


def test_the_run_succeeds_and_its_rows_keep_the_invariants(stack: Stack, run_id: int) -> None:
    stack.wait_for(lambda: ended(stack, run_id), 240, "the end of the run")

    run = stack.query("SELECT * FROM runs_run WHERE id = %s", run_id)[0]
    assert run["status"] == "succeeded", run["stop_reason"]
    assert steps_done(stack, run_id) == NUM_STEPS
    assert not stack.query(
        "SELECT id FROM runs_attempt WHERE run_id = %s AND status <> 'completed'"
        " AND reward IS NOT NULL",
        run_id,
    )
    assert not stack.query(
        "SELECT c.trajectory_id FROM runs_consumption c JOIN runs_step s ON s.id = c.step_id"
        " WHERE s.run_id = %s AND s.status NOT IN ('superseded', 'failed')"
        " GROUP BY c.trajectory_id HAVING count(*) > 1",
        run_id,
    )
    assert not stack.query(
        "SELECT a.id FROM runs_attempt a WHERE a.run_id = %s AND a.status = 'completed'"
        " AND a.num_turns <> (SELECT count(*) FROM runs_turn t WHERE t.attempt_id = a.id)",
        run_id,
    ), "every turn of a completed attempt is durable"
    assert not stack.query(
        "SELECT id FROM sandboxes_sandbox WHERE run_id = %s AND status NOT IN ('gone', 'failed')",
        run_id,
    )


def test_nothing_is_left_of_a_stopped_run(stack: Stack, miniature: Path) -> None:
    source = recipe(miniature, name="stopped")
    answer = stack.api.post("/runs", json={"source": source})
    assert answer.status_code in (201, 202), answer.text
    run = int(answer.json()["id"])
    stack.wait_for(lambda: in_flight(stack, run) > 0, 120, "trajectories in flight")
    began = time.monotonic()
    assert stack.api.post(f"/runs/{run}/stop", json={"reason": "test"}).status_code < 300

    stack.wait_for(lambda: ended(stack, run), 60, "the run to be cancelled")
    assert time.monotonic() - began < 60
    assert stack.value("SELECT status FROM runs_run WHERE id = %s", run) == "cancelled"
    stack.wait_for(lambda: not stack.pids("bwrap"), 30, "all boxes to be gone")

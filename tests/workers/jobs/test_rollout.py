"""Faults of box, engine, store and lease around one attempt: each ends classified, none becomes a reward."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from controlplane.blobs import BlobStore
from runs.models import Attempt, Task, Trajectory, Turn
from runs.services import attempts
from sandboxes.failures import Failure, FailureClass, FailureStage
from sandboxes.models import Sandbox
from tests.factories import NOW
from tests.scripted_engine import Reply, ScriptedEngine
from tests.workers.jobs.conftest import Job, current, wait_until
from tests.workers.jobs.lab import JobLab, rollout_recipe
from workers.engines.chat import Chat
from workers.jobs import rollout
from workers.jobs.rollout import run_attempt
from workers.jobs.runtime import Lease, Runtime
from workers.rl.arrays import decode

pytestmark = pytest.mark.django_db(transaction=True)

Say = Callable[..., None]
Start = Callable[[Callable[[], object]], Job]
MakeLab = Callable[..., JobLab]


@pytest.fixture(scope="module")
def process() -> Iterator[Runtime]:
    yield from current("rollout", 8)


@pytest.fixture
def make_lab(
    process: Runtime, engine: ScriptedEngine, chat_and_model: tuple[Chat, Path]
) -> MakeLab:
    def make(changes: dict[str, Any] | None = None, **options: Any) -> JobLab:
        recipe = rollout_recipe(chat_and_model[1], **(changes or {}))
        return JobLab(recipe, process=process, url=engine.url, **options)

    return make


def run_all(lab: JobLab) -> None:
    """Every attempt of the first trajectory, one after the other, until it has ended."""
    trajectory = Trajectory.objects.filter(run=lab.run).order_by("pk")[0]
    while attempt := Attempt.objects.filter(trajectory=trajectory, status="queued").first():
        run_attempt(attempt.pk)
        attempt.refresh_from_db()
        assert attempt.status != "queued", "the attempt could not be claimed"


def ended(lab: JobLab) -> Trajectory:
    return Trajectory.objects.filter(run=lab.run).order_by("pk")[0]


def assert_no_box_is_left(process: Runtime) -> None:
    assert process.driver._sandboxes == {}
    assert not Sandbox.objects.exclude(status__in=["gone", "failed"]).exists()


def assert_failed(attempt: Attempt, stage: str, kind: str) -> None:
    attempt.refresh_from_db()
    assert (attempt.status, attempt.reward) == ("failed", None)
    assert (attempt.failure_stage, attempt.failure_class) == (stage, kind), attempt.failure_message


# The way it should go


def test_a_completed_attempt_has_its_reward_its_turns_and_its_arrays(
    make_lab: MakeLab, say: Say, process: Runtime
) -> None:
    say("cat calc.py", "echo fixed > calc.py", "submit")
    lab = make_lab()
    attempt = lab.open_attempts()[0]
    run_attempt(attempt.pk)

    attempt.refresh_from_db()
    assert (attempt.status, attempt.stop_reason, attempt.reward) == ("completed", "submitted", 1.0)
    turns = list(Turn.objects.filter(attempt=attempt).order_by("index"))
    assert [t.command for t in turns] == ["cat calc.py", "echo fixed > calc.py", "submit"]
    assert "broken" in turns[0].observation
    assert turns[0].queue_s == 0.0
    assert "-broken\n+fixed\n" in attempt.patch
    assert (attempt.is_patch_cut, attempt.num_llm_errors) == (False, 0)
    arrays = decode(process.store.get(attempt.blob))
    assert int(arrays.mask.sum()) == attempt.output_tokens > 0
    assert set(arrays.versions[arrays.mask == 1].tolist()) == {0}
    assert_no_box_is_left(process)


def test_a_patch_that_cannot_be_made_leaves_a_note_and_the_reward(
    make_lab: MakeLab, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(rollout, "patch_of", fail)
    say("echo fixed > calc.py", "submit")
    attempt = make_lab().open_attempts()[0]
    run_attempt(attempt.pk)

    attempt.refresh_from_db()
    assert (attempt.reward, attempt.patch) == (
        1.0,
        "# The patch could not be made: RecursionError.\n",
    )


def test_a_second_copy_of_the_message_does_nothing(
    make_lab: MakeLab, say: Say, engine: ScriptedEngine
) -> None:
    say("submit")
    attempt = make_lab().open_attempts()[0]
    run_attempt(attempt.pk)
    num_calls = len(engine.calls)
    run_attempt(attempt.pk)

    assert len(engine.calls) == num_calls
    assert Attempt.objects.filter(trajectory=attempt.trajectory_id).count() == 1


# The box


def test_an_archive_that_is_gone_is_an_image_error(
    make_lab: MakeLab, say: Say, process: Runtime
) -> None:
    say("submit")
    lab = make_lab(test="# another archive\n")
    attempt = lab.open_attempts()[0]
    process.store.delete(lab.task.archive)
    run_attempt(attempt.pk)

    assert_failed(attempt, "image", "image_error")
    assert Attempt.objects.filter(trajectory=attempt.trajectory_id, status="queued").exists()


def test_a_template_that_somebody_removed_is_made_again(
    make_lab: MakeLab, say: Say, process: Runtime
) -> None:
    say("submit")
    lab = make_lab()
    first, second = lab.open_attempts()
    run_attempt(first.pk)
    shutil.rmtree(process.cache_dir / "tasks" / lab.task.digest)
    run_attempt(second.pk)

    second.refresh_from_db()
    assert second.status == "completed"


def test_a_box_that_cannot_start_is_told_and_tried_again(
    make_lab: MakeLab, say: Say, process: Runtime
) -> None:
    say("submit")
    lab = make_lab()
    Task.objects.update(setup="exit 3")
    attempt = lab.open_attempts()[0]
    run_attempt(attempt.pk)

    assert_failed(attempt, "setup", "task_defect")
    assert_no_box_is_left(process)


def test_a_command_that_hangs_is_an_observation_not_a_failure(make_lab: MakeLab, say: Say) -> None:
    say("sleep 1000", "submit")
    lab = make_lab({"timeouts": {"command_s": 0.5}})
    attempt = lab.open_attempts()[0]
    run_attempt(attempt.pk)

    attempt.refresh_from_db()
    assert (attempt.status, attempt.reward) == ("completed", 0.0)
    assert Turn.objects.get(attempt=attempt, index=0).is_timed_out


def box_pid(process: Runtime) -> int | None:
    """bwrap of the one box: the parent of the process that sleeps in it."""
    spawner = process.driver._process.pid
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            is_sleep = (entry / "comm").read_text().strip() == "sleep"
            pid = int(entry.name)
            chain = []
            while is_sleep and pid > 1:
                chain.append(pid)
                pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
                if pid == spawner:
                    return chain[-1]
        except (OSError, ValueError):
            continue
    return None


def test_a_box_killed_from_outside_in_a_command_is_lost_and_tried_again(
    make_lab: MakeLab, say: Say, start: Start, process: Runtime
) -> None:
    say("sleep 1000")
    lab = make_lab()
    attempt = lab.open_attempts()[0]
    job = start(lambda: run_attempt(attempt.pk))
    wait_until(lambda: box_pid(process))
    os.kill(box_pid(process) or 0, signal.SIGKILL)
    job.join()

    assert_failed(attempt, "exec", "lost")
    assert not attempt.is_suspect
    assert Attempt.objects.filter(trajectory=attempt.trajectory_id, status="queued").exists()
    assert_no_box_is_left(process)


def test_an_agent_that_kills_all_it_can_reach_is_graded(make_lab: MakeLab, say: Say) -> None:
    say("kill -9 -1; kill -9 1; kill -9 $$", "submit")
    lab = make_lab()
    lab.open_attempts()
    run_all(lab)

    assert (ended(lab).status, ended(lab).reward) == ("completed", 0.0)


def test_an_agent_that_fills_its_disk_does_not_escape_its_zero(
    make_lab: MakeLab, say: Say, process: Runtime
) -> None:
    say("cat /dev/zero > big; echo; ls > list", "submit")
    lab = make_lab({"sandbox": {"driver": "local", "disk_mb": 16, "lifetime_s": 600}})
    lab.open_attempts()
    run_all(lab)

    assert (ended(lab).status, ended(lab).reward) == ("completed", 0.0)
    assert ended(lab).num_attempts <= 2
    assert_no_box_is_left(process)


# The verifier


def test_a_task_whose_own_solution_has_no_verdict_is_a_defect_and_goes_into_quarantine(
    make_lab: MakeLab, say: Say, process: Runtime
) -> None:
    say("submit")
    lab = make_lab(test="true\n")
    lab.begin("rl")
    lab.open_rl_groups(2)
    for number, attempt in enumerate(lab.queued()[:3]):
        assert Task.objects.filter(quarantined_at__isnull=False).count() == 0, number
        run_attempt(attempt.pk)
        assert_failed(attempt, "verify", "task_defect")

    assert Task.objects.get(quarantined_at__isnull=False).task_set.name == "tiny-train"
    assert_no_box_is_left(process)


def test_a_patch_that_loops_for_ever_scores_zero_with_the_evidence(
    make_lab: MakeLab, say: Say, process: Runtime
) -> None:
    say("touch loop", "submit")
    looping = "while [ -e loop ]; do sleep 0.1; done\necho 1 > /logs/verifier/reward.txt\n"
    lab = make_lab(test=looping, solution="true\n", verify_timeout_s=1.0)
    attempt = lab.open_attempts()[0]
    run_attempt(attempt.pk)

    attempt.refresh_from_db()
    assert (attempt.status, attempt.reward) == ("completed", 0.0)
    assert attempt.is_attributed_to_policy
    assert "no verdict within 1 s" in attempt.grade["details"]["second"]
    assert_no_box_is_left(process)


# The engine


def test_a_full_queue_is_waited_for_and_is_no_failure(
    make_lab: MakeLab, engine: ScriptedEngine, chat_and_model: tuple[Chat, Path]
) -> None:
    full = Reply(fault="queue_full")
    submit = Reply(chat_and_model[0].action("submit"))
    engine.engine.script = lambda _: full if len(engine.calls) < 2 else submit
    lab = make_lab()
    attempt = lab.open_attempts()[0]
    run_attempt(attempt.pk)

    attempt.refresh_from_db()
    assert (attempt.status, attempt.reward) == ("completed", 0.0)
    assert len(engine.calls) == 3
    assert attempt.num_llm_errors == 2


@pytest.mark.parametrize("fault", ["server_error", "hang", "drop", "abort"])
def test_an_engine_that_fails_costs_an_attempt_and_never_a_reward(
    make_lab: MakeLab, say: Say, process: Runtime, fault: Any
) -> None:
    say("cat calc.py", Reply(range(10), fault=fault))
    lab = make_lab({"timeouts": {"llm_call_s": 1}})
    attempt = lab.open_attempts()[0]
    run_attempt(attempt.pk)

    assert_failed(attempt, "infer", "infer_infra")
    again = Attempt.objects.get(trajectory=attempt.trajectory_id, number=2)
    assert (again.status, ended(lab).status, ended(lab).reward) == ("queued", "open", None)
    assert Turn.objects.filter(attempt=attempt).count() == 1, "what happened before is kept"
    assert attempt.blob
    assert attempt.num_llm_errors == 1
    assert_no_box_is_left(process)


# Leases and cancels


def beat_until_ended(process: Runtime, job: Job) -> None:
    def beat() -> bool:
        process._renew()
        return not job.is_alive

    wait_until(beat)
    job.join()


def in_flight(engine: ScriptedEngine) -> bool:
    return len(engine.engine.pending) > 0


def test_an_attempt_whose_lease_is_lost_reports_nothing_and_its_box_ends(
    make_lab: MakeLab, say: Say, start: Start, process: Runtime, engine: ScriptedEngine
) -> None:
    say("cat calc.py", Reply([1], delay_s=60))
    lab = make_lab()
    attempt = lab.open_attempts()[0]
    job = start(lambda: run_attempt(attempt.pk))
    wait_until(lambda: len(engine.calls) == 2)
    attempts.expire_attempts([attempt], now=NOW, sentence="the test said so")
    beat_until_ended(process, job)

    assert_failed(attempt, "exec", "lost")
    assert attempt.failure_message == "the test said so"
    assert attempt.blob == ""
    assert_no_box_is_left(process)


@pytest.mark.parametrize("where", ["model", "command", "verifier"])
def test_a_cancel_ends_an_attempt_wherever_it_is(
    make_lab: MakeLab,
    say: Say,
    start: Start,
    process: Runtime,
    engine: ScriptedEngine,
    where: str,
) -> None:
    say({"model": Reply([1], delay_s=300), "command": "sleep 1000", "verifier": "submit"}[where])
    patient = {"timeouts": {"command_s": 400, "verify_s": 400}}  # nothing else would end it in time
    lab = make_lab(patient, test="sleep 1000\n", verify_timeout_s=400.0)
    attempt = lab.open_attempts()[0]
    job = start(lambda: run_attempt(attempt.pk))
    wait_until(lambda: in_flight(engine) if where == "model" else box_pid(process))
    attempts.cancel_all(lab.mine, "run_stopped", now=NOW)
    beat_until_ended(process, job)

    attempt.refresh_from_db()
    assert (attempt.status, attempt.reward) == ("cancelled", None)
    assert attempt.cancel_reason == "run_stopped"
    assert_no_box_is_left(process)


# Our own code


def test_an_exception_of_our_own_is_unknown_and_is_tried_once_more(
    make_lab: MakeLab, say: Say, monkeypatch: pytest.MonkeyPatch, process: Runtime
) -> None:
    say("submit")
    lab = make_lab()
    lab.open_attempts()
    monkeypatch.setattr(rollout, "limits_of", lambda *_: 1 / 0)
    run_all(lab)

    rows = Attempt.objects.filter(trajectory=ended(lab)).order_by("number")
    assert [(a.failure_class, a.reward) for a in rows] == [("unknown", None)] * 2
    assert (ended(lab).status, ended(lab).reward) == ("failed", None)
    assert_no_box_is_left(process)


def test_no_reward_is_reported_before_its_arrays_are_stored(
    make_lab: MakeLab, say: Say, monkeypatch: pytest.MonkeyPatch, process: Runtime, tmp_path: Path
) -> None:
    """A store that takes nothing, as on a full disk."""
    say("echo fixed > calc.py", "submit")
    lab = make_lab()
    attempt = lab.open_attempts()[0]
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setattr(process, "store", BlobStore(f"file://{tmp_path}/file/below"))
    run_attempt(attempt.pk)

    assert_failed(attempt, "ingest", "transport")
    assert Attempt.objects.filter(trajectory=attempt.trajectory_id, status="queued").exists()


def test_a_report_that_never_arrived_lets_the_lease_expire(
    make_lab: MakeLab, say: Say, process: Runtime
) -> None:
    """The worker lives and beats, but runs the attempt no more: it must not be kept alive."""
    say("submit")
    lab = make_lab()
    first, second = lab.open_attempts()
    assignment = lab.claim(first)  # and then its job ended without a word
    lab.claim(second)
    process.hold(Lease(second.pk, assignment.token))
    lapsed = NOW - timedelta(hours=1)
    Attempt.objects.filter(pk=first.pk).update(lease_expires_at=lapsed)
    process._renew()
    process._leases.clear()

    first.refresh_from_db()
    assert first.lease_expires_at == lapsed


def test_a_box_that_never_started_leaves_a_row_that_failed(
    make_lab: MakeLab, process: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = make_lab().open_attempts()[0]
    seen: list[str] = []

    def refuse(spec: Any) -> Any:
        seen.append(Sandbox.objects.get().status)
        raise Failure(FailureStage.START, FailureClass.BOOT_FAIL, "no shell")

    monkeypatch.setattr(process.driver, "start", refuse)
    run_attempt(attempt.pk)

    row = Sandbox.objects.get()
    assert (seen, row.status, row.ready_at) == (["starting"], "failed", None)
    assert row.finished_at is not None
    assert "image" in row.timings
    assert_failed(attempt, "start", "boot_fail")

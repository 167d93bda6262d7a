from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import pytest
from django.db import DataError, OperationalError

from controlplane.errors import LeaseLost
from runs.models import Attempt, Turn
from runs.services.turns import AttemptTurns, TurnValues, copy_turns
from sandboxes.failures import Failure
from tests.runs.lab import Lab, first_attempt
from workers import recorder as recorder_module
from workers.recorder import Recorder


def turn(index: int, *, observation: str = "ok") -> TurnValues:
    return TurnValues(
        turn_index=index,
        started_at=datetime(2026, 11, 29, tzinfo=UTC),
        llm_s=0.1,
        queue_s=0.05,
        exec_s=0.2,
        action="try 1",
        command="try 1",
        observation=observation,
        log="",
        exit_code=0,
        finish_reason="stop",
        prompt_tokens=10,
        output_tokens=3,
        cached_tokens=0,
        version_min=0,
        version_max=0,
        is_timed_out=False,
        truncated_bytes=0,
    )


@pytest.fixture
def written() -> list[Sequence[AttemptTurns]]:
    return []


@pytest.fixture
def recorder(written: list[Sequence[AttemptTurns]]) -> Iterator[Recorder]:
    def write(batch: Sequence[AttemptTurns]) -> set[int]:
        written.append(batch)
        return {entry.attempt_id for entry in batch if entry.attempt_id == 666}

    recorder = Recorder(write)
    yield recorder
    recorder.close()


def test_turns_of_many_attempts_share_a_write(
    recorder: Recorder, written: list[Sequence[AttemptTurns]]
) -> None:
    token = uuid.uuid4()
    for attempt in range(8):
        recorder.add(1, attempt, attempt, token, turn(0))
        recorder.add(1, attempt, attempt, token, turn(1))
    recorder.wait_durable(3)

    assert sum(len(entry.turns) for batch in written for entry in batch) == 16
    assert len(written) < 8


def test_waiting_returns_only_after_the_commit() -> None:
    may_commit = threading.Event()
    recorder = Recorder(lambda _: (may_commit.wait(5), set())[1])
    recorder.add(1, 1, 1, uuid.uuid4(), turn(0))
    waiter = threading.Thread(target=recorder.wait_durable, args=(1,))
    waiter.start()
    waiter.join(0.3)
    assert waiter.is_alive()
    may_commit.set()
    waiter.join(5)
    assert not waiter.is_alive()
    recorder.close()


def test_a_failed_write_is_tried_again_and_nothing_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recorder_module, "RETRY_S", 0.05)
    tries: list[int] = []

    def write(batch: Sequence[AttemptTurns]) -> set[int]:
        tries.append(sum(len(entry.turns) for entry in batch))
        if len(tries) < 3:
            raise OperationalError("the server closed the connection")
        return set()

    recorder = Recorder(write)
    recorder.add(1, 1, 1, uuid.uuid4(), turn(0))
    recorder.wait_durable(1)
    recorder.close()

    assert tries == [1, 1, 1]


def test_a_loop_without_its_lease_is_told_so(recorder: Recorder) -> None:
    recorder.add(1, 1, 666, uuid.uuid4(), turn(0))

    with pytest.raises(LeaseLost):
        recorder.wait_durable(666)


@pytest.mark.django_db
def test_copied_turns_read_back_as_they_were_written() -> None:
    lab = Lab()
    lab.begin("rl")
    attempt = first_attempt(lab.open_rl_groups(1)[0])
    token = lab.claim(attempt).token
    text = "tab\tback\\slash\nnew line, ünïcode 🎣 \\N"
    entry = AttemptTurns(
        lab.run.project_id, attempt.trajectory_id, attempt.pk, token, [turn(0, observation=text)]
    )
    assert copy_turns([entry]) == set()

    stored = Turn.objects.get(attempt=attempt)
    assert (stored.observation, stored.exit_code, stored.output_tokens) == (text, 0, 3)


@pytest.mark.django_db
def test_turns_under_a_dead_lease_are_discarded_and_others_kept() -> None:
    lab = Lab()
    lab.begin("rl")
    mine, lost = Attempt.objects.filter(trajectory__group=lab.open_rl_groups(1)[0])[:2]
    token = lab.claim(mine).token
    lab.claim(lost)
    batch = [
        AttemptTurns(1, mine.trajectory_id, mine.pk, token, [turn(0)]),
        AttemptTurns(1, lost.trajectory_id, lost.pk, uuid.uuid4(), [turn(0)]),
    ]

    assert copy_turns(batch) == {lost.pk}
    assert list(Turn.objects.values_list("attempt", flat=True)) == [mine.pk]


def test_turns_are_written_without_anybody_waiting(
    recorder: Recorder, written: list[Sequence[AttemptTurns]]
) -> None:
    """A page that shows a trajectory must not wait for the trajectory's end."""
    recorder.add(1, 1, 1, uuid.uuid4(), turn(0))
    deadline = time.monotonic() + 10
    while not written and time.monotonic() < deadline:
        time.sleep(0.02)

    assert written


def test_a_refused_turn_costs_its_own_attempt_only() -> None:
    written: list[int] = []

    def write(batch: Sequence[AttemptTurns]) -> set[int]:
        if any("\0" in turn.observation for entry in batch for turn in entry.turns):
            raise DataError("text cannot contain NUL")
        written.extend(entry.attempt_id for entry in batch)
        return set()

    recorder = Recorder(write)
    recorder.add(1, 1, 1, uuid.uuid4(), turn(0))
    recorder.add(1, 2, 2, uuid.uuid4(), turn(0, observation="\0"))
    recorder.add(1, 3, 3, uuid.uuid4(), turn(0))
    recorder.wait_durable(1)
    recorder.wait_durable(3)
    with pytest.raises(Failure) as caught:
        recorder.wait_durable(2)
    recorder.wait_durable(2)  # said once: what is left of the attempt can be reported
    recorder.close()

    assert caught.value.stage == "ingest"
    assert sorted(written) == [1, 3]


@pytest.mark.django_db
def test_the_errors_of_copy_are_database_errors_and_a_second_copy_of_a_batch_is_harmless() -> None:
    lab = Lab()
    lab.begin("rl")
    attempt = first_attempt(lab.open_rl_groups(1)[0])
    token = lab.claim(attempt).token

    def entry(*turns: TurnValues) -> list[AttemptTurns]:
        return [AttemptTurns(1, attempt.trajectory_id, attempt.pk, token, turns)]

    with pytest.raises(DataError):
        copy_turns(entry(turn(0, observation="\0")))
    copy_turns(entry(turn(0), turn(1)))
    copy_turns(entry(turn(0), turn(1), turn(2)))  # the commit's answer was lost: the same again

    assert list(Turn.objects.values_list("index", flat=True)) == [0, 1, 2]

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from controlplane.errors import LeaseLost
from runs.models import Attempt, Trajectory
from runs.services import attempts
from runs.services.attempts import claim_attempt, complete_attempt, fail_attempt
from runs.services.workers import retire_worker
from sandboxes import failures
from sandboxes.failures import FailureClass, FailureStage
from sandboxes.models import Failure, FailureGroup
from tests.factories import NOW, WorkerFactory
from tests.runs.lab import Lab, first_attempt, result

pytestmark = pytest.mark.django_db


@pytest.fixture
def lab() -> Lab:
    lab = Lab()
    lab.begin("rl")
    return lab


def failure(kind: FailureClass, *, by_policy: bool = False) -> failures.Failure:
    return failures.Failure(FailureStage.EXEC, kind, "it broke", by_policy=by_policy)


def test_only_the_first_worker_claims_an_attempt(lab: Lab) -> None:
    attempt = first_attempt(lab.open_rl_groups(1)[0])

    assert claim_attempt(attempt.pk, lab.worker.pk, now=NOW) is not None
    assert claim_attempt(attempt.pk, lab.worker.pk, now=NOW) is None


def test_nothing_is_claimed_while_no_engine_serves(lab: Lab) -> None:
    attempt = first_attempt(lab.open_rl_groups(1)[0])
    lab.engine.move("lost", finished_at=NOW)

    assert claim_attempt(attempt.pk, lab.worker.pk, now=NOW) is None
    attempt.refresh_from_db()
    assert attempt.status == "queued"


def test_a_completed_attempt_gives_its_trajectory_the_reward(lab: Lab) -> None:
    attempt = first_attempt(lab.open_rl_groups(1)[0])
    lab.complete(attempt, 1.0)

    trajectory = Trajectory.objects.get(pk=attempt.trajectory_id)
    assert (trajectory.status, trajectory.reward, trajectory.num_turns) == ("completed", 1.0, 2)


def test_an_infra_failure_never_becomes_a_zero_reward(lab: Lab) -> None:
    attempt = first_attempt(lab.open_rl_groups(1)[0])
    token = lab.claim_to_grading(attempt).token
    fail_attempt(attempt.pk, token, failure(FailureClass.LOST), result(), now=NOW)

    attempt.refresh_from_db()
    assert (attempt.status, attempt.reward) == ("failed", None)
    assert Trajectory.objects.get(pk=attempt.trajectory_id).status == "open"
    assert Attempt.objects.get(trajectory=attempt.trajectory_id, number=2).status == "queued"


@pytest.mark.parametrize("status", ["failed", "cancelled", "queued"])
def test_the_database_refuses_a_reward_of_an_attempt_that_did_not_complete(
    lab: Lab, status: str
) -> None:
    attempt = first_attempt(lab.open_rl_groups(1)[0])

    with pytest.raises(IntegrityError), transaction.atomic():
        Attempt.objects.filter(pk=attempt.pk).update(
            status=status, reward=0.0, failure_class="lost"
        )


REPORTS = {
    "complete": lambda pk, token: complete_attempt(pk, token, result(), reward=1.0, now=NOW),
    "fail": lambda pk, token: fail_attempt(
        pk, token, failure(FailureClass.LOST), result(), now=NOW
    ),
    "cancel": lambda pk, token: attempts.cancel_attempt(pk, token, result(), now=NOW),
    "advance": lambda pk, token: attempts.advance_attempt(pk, token, "running"),
}


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_a_report_under_another_lease_changes_nothing(
    lab: Lab, report: Callable[[int, uuid.UUID], None]
) -> None:
    attempt = first_attempt(lab.open_rl_groups(1)[0])
    lab.claim_to_grading(attempt)

    with pytest.raises(LeaseLost):
        report(attempt.pk, uuid.uuid4())
    attempt.refresh_from_db()
    assert (attempt.status, attempt.reward) == ("grading", None)


def test_a_late_report_of_a_superseded_attempt_changes_nothing(lab: Lab) -> None:
    attempt = first_attempt(lab.open_rl_groups(1)[0])
    token = lab.claim_to_grading(attempt).token
    attempts.expire_attempts([attempt], now=NOW, sentence="silent")

    with pytest.raises(LeaseLost):
        complete_attempt(attempt.pk, token, result(), reward=1.0, now=NOW)
    second = Attempt.objects.get(trajectory=attempt.trajectory_id, number=2)
    lab.complete(second, 0.0)
    assert Trajectory.objects.get(pk=attempt.trajectory_id).reward == 0.0


def test_a_trajectory_fails_when_its_budget_is_spent_and_every_attempt_is_kept(lab: Lab) -> None:
    trajectory_id = first_attempt(lab.open_rl_groups(1)[0]).trajectory_id
    while attempt := Attempt.objects.filter(trajectory=trajectory_id, status="queued").first():
        token = lab.claim_to_grading(attempt).token
        fail_attempt(attempt.pk, token, failure(FailureClass.LOST), result(), now=NOW)

    trajectory = Trajectory.objects.get(pk=trajectory_id)
    assert (trajectory.status, trajectory.reward) == ("failed", None)
    assert trajectory.attempts.count() == trajectory.num_attempts == 4


def test_an_unknown_error_is_tried_once_more_and_then_fails_closed(lab: Lab) -> None:
    trajectory_id = first_attempt(lab.open_rl_groups(1)[0]).trajectory_id
    while attempt := Attempt.objects.filter(trajectory=trajectory_id, status="queued").first():
        token = lab.claim_to_grading(attempt).token
        fail_attempt(attempt.pk, token, failure(FailureClass.UNKNOWN), result(), now=NOW)

    assert Trajectory.objects.get(pk=trajectory_id).reward is None
    assert Attempt.objects.filter(trajectory=trajectory_id).count() == 2


def test_a_refusal_of_capacity_waits_and_spends_no_retry(lab: Lab) -> None:
    trajectory_id = first_attempt(lab.open_rl_groups(1)[0]).trajectory_id
    for _ in range(10):
        attempt = Attempt.objects.get(trajectory=trajectory_id, status="queued")
        token = lab.claim_to_grading(attempt).token
        fail_attempt(attempt.pk, token, failure(FailureClass.CAPACITY), result(), now=NOW)

    waiting = Attempt.objects.get(trajectory=trajectory_id, status="queued")
    assert waiting.not_before is not None
    assert waiting.not_before > NOW


def test_an_agent_that_breaks_its_box_twice_scores_zero_and_is_counted(lab: Lab) -> None:
    trajectory_id = first_attempt(lab.open_rl_groups(1)[0]).trajectory_id
    for _ in range(2):
        attempt = Attempt.objects.get(trajectory=trajectory_id, status="queued")
        token = lab.claim(attempt).token
        broken = failure(FailureClass.LOST, by_policy=True)
        fail_attempt(attempt.pk, token, broken, result(stop_reason=""), now=NOW)

    last = Attempt.objects.get(trajectory=trajectory_id, number=2)
    assert (last.status, last.reward) == ("completed", 0.0)
    assert last.is_attributed_to_policy
    assert last.stop_reason == "broke_sandbox"
    assert Trajectory.objects.get(pk=trajectory_id).reward == 0.0


def test_failures_with_one_fingerprint_are_one_group(lab: Lab) -> None:
    for attempt in Attempt.objects.filter(trajectory__group=lab.open_rl_groups(1)[0]):
        token = lab.claim_to_grading(attempt).token
        broken = failures.Failure(
            FailureStage.EXEC,
            FailureClass.LOST,
            f"box 12{attempt.pk} is gone from 10.0.0.{attempt.pk}",
        )
        fail_attempt(attempt.pk, token, broken, result(), now=NOW)

    assert Failure.objects.count() == 4
    assert FailureGroup.objects.get().num_failures == 4


def test_stopping_ends_queued_attempts_and_asks_those_in_flight(lab: Lab) -> None:
    group = lab.open_rl_groups(1)[0]
    attempt = first_attempt(group)
    lab.claim(attempt)

    attempts.cancel_all(Q(run=lab.run), "run_stopped", now=NOW)

    renewed = attempts.renew_attempts(lab.worker, [attempt.pk])
    assert renewed[attempt.pk].cancel_reason == "run_stopped"
    others = Attempt.objects.filter(trajectory__group=group).exclude(pk=attempt.pk)
    assert set(others.values_list("status", "reward")) == {("cancelled", None)}


def test_renewing_does_not_bring_back_a_lease_that_was_reaped(lab: Lab) -> None:
    attempt = first_attempt(lab.open_rl_groups(1)[0])
    lab.claim(attempt)
    attempts.expire_attempts([attempt], now=NOW, sentence="silent")

    assert attempt.pk not in attempts.renew_attempts(lab.worker, [attempt.pk])


def test_what_its_worker_does_not_run_any_more_is_not_renewed(lab: Lab) -> None:
    """A report that never arrived: the attempt must expire although its worker lives."""
    first, second = Attempt.objects.filter(trajectory__group=lab.open_rl_groups(1)[0])[:2]
    for attempt in (first, second):
        lab.claim(attempt)
    lapsed = timezone.now() - timedelta(minutes=1)
    Attempt.objects.update(lease_expires_at=lapsed)

    assert set(attempts.renew_attempts(lab.worker, [first.pk])) == {first.pk}
    second.refresh_from_db()
    assert second.lease_expires_at == lapsed


def test_a_failure_that_quotes_bytes_of_a_box_can_be_told(lab: Lab) -> None:
    attempt = first_attempt(lab.open_rl_groups(1)[0])
    token = lab.claim(attempt).token
    quoted = failures.Failure(
        FailureStage.EXEC, FailureClass.LOST, "it said \0 \ud800", evidence={"output": "\0"}
    )
    fail_attempt(attempt.pk, token, quoted, result(), now=NOW)

    attempt.refresh_from_db()
    assert attempt.failure_message == "it said \ufffd ?"


def test_a_worker_that_says_goodbye_spends_no_retry(lab: Lab) -> None:
    trajectory_id = first_attempt(lab.open_rl_groups(1)[0]).trajectory_id
    for _ in range(10):
        worker = WorkerFactory(kind="rollout")
        attempt = Attempt.objects.get(trajectory=trajectory_id, status="queued")
        assert claim_attempt(attempt.pk, worker.pk, now=NOW)
        retire_worker(worker, now=NOW)

    assert Trajectory.objects.get(pk=trajectory_id).status == "open"

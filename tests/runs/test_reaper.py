from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.utils import timezone

from runs import reaper
from runs.models import Attempt, Engine, Event, Stage, Worker
from tests.factories import NOW
from tests.runs.lab import Lab, first_attempt

pytestmark = pytest.mark.django_db

PAST = timedelta(minutes=5)


@pytest.fixture(autouse=True)
def armed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A reaper that has watched for a lease."""
    monkeypatch.setattr(reaper, "_armed_at", 0.0)
    yield
    reaper._armed_at = None


@pytest.fixture
def lab() -> Lab:
    lab = Lab()
    Worker.objects.filter(pk=lab.worker.pk).update(last_seen_at=timezone.now())
    lab.begin("rl")
    return lab


def lapse(attempt: Attempt) -> None:
    Attempt.objects.filter(pk=attempt.pk).update(lease_expires_at=timezone.now() - PAST)


def test_an_attempt_whose_lease_lapsed_is_lost_and_tried_again(lab: Lab) -> None:
    attempt = first_attempt(lab.open_rl_groups(1)[0])
    lab.claim(attempt)
    lapse(attempt)

    assert reaper.reap(now=NOW) == 1
    attempt.refresh_from_db()
    assert (attempt.status, attempt.failure_class, attempt.reward) == ("failed", "lost", None)
    assert Attempt.objects.filter(trajectory=attempt.trajectory_id, status="queued").count() == 1


def test_a_live_lease_is_left_alone(lab: Lab) -> None:
    attempt = first_attempt(lab.open_rl_groups(1)[0])
    lab.claim(attempt)

    assert reaper.reap(now=NOW) == 0


def test_nothing_is_reaped_until_one_lease_after_the_reaper_began(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = first_attempt(lab.open_rl_groups(1)[0])
    lab.claim(attempt)
    lapse(attempt)
    monkeypatch.setattr(reaper, "_armed_at", None)

    assert reaper.reap(now=NOW) == 0
    attempt.refresh_from_db()
    assert attempt.status == "starting"


def test_a_silent_worker_loses_what_it_held_at_once(lab: Lab) -> None:
    attempt = first_attempt(lab.open_rl_groups(1)[0])
    lab.claim(attempt)
    Worker.objects.filter(pk=lab.worker.pk).update(last_seen_at=timezone.now() - PAST)

    reaper.reap(now=NOW)
    lab.worker.refresh_from_db()
    attempt.refresh_from_db()
    assert lab.worker.status == "lost"
    assert (attempt.status, attempt.reward) == ("failed", None)


def test_a_dead_trainer_is_resumed_and_the_feed_says_so(lab: Lab) -> None:
    Stage.objects.filter(pk=lab.rl.pk).update(dispatched_at=timezone.now() - 2 * PAST)
    lab.claim_training()
    Stage.objects.filter(pk=lab.rl.pk).update(lease_expires_at=timezone.now() - PAST)

    assert reaper.reap(now=NOW) == 1
    assert lab.rl.status == "running"
    assert lab.rl.dispatched_at is None
    event = Event.objects.get(run=lab.run, kind="trainer_lost")
    assert "1 of 3 automatic resumes" in event.sentence
    assert reaper.reap(now=NOW) == 0, "one death spends one resume"


def test_a_stage_fails_when_its_resumes_are_spent(lab: Lab) -> None:
    for _ in range(4):
        Stage.objects.filter(pk=lab.rl.pk).update(dispatched_at=timezone.now() - 2 * PAST)
        lab.claim_training()
        Stage.objects.filter(pk=lab.rl.pk).update(lease_expires_at=timezone.now() - PAST)
        reaper.reap(now=NOW)

    assert lab.rl.status == "failed"


def test_a_silent_engine_is_lost_and_may_be_replaced(lab: Lab) -> None:
    Engine.objects.filter(pk=lab.engine.pk).update(lease_expires_at=timezone.now() - PAST)
    reaper.reap(now=NOW)

    lab.engine.refresh_from_db()
    assert lab.engine.status == "lost"

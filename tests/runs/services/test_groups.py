from __future__ import annotations

import math

import pytest
from django.db import IntegrityError, transaction

from runs.models import Attempt, Group, Trajectory
from runs.services import attempts, groups
from sandboxes.failures import Failure, FailureClass, FailureStage
from tests.factories import NOW
from tests.runs.lab import Lab, result

pytestmark = pytest.mark.django_db


@pytest.fixture
def lab() -> Lab:
    lab = Lab()
    lab.begin("rl")
    return lab


def fail_for_good(lab: Lab, attempt: Attempt) -> None:
    token = lab.claim_to_grading(attempt).token
    failure = Failure(FailureStage.VERIFY, FailureClass.TASK_DEFECT, "no reward")
    attempts.fail_attempt(attempt.pk, token, failure, result(), now=NOW)


def test_a_group_is_ready_when_its_last_member_ended_and_advantages_are_stored(lab: Lab) -> None:
    group = lab.open_rl_groups(1)[0]
    lab.complete_group(group, [1.0, 0.0, 0.0, 0.0])

    assert (group.status, group.num_valid, group.reward_mean) == ("ready", 4, 0.25)
    advantages = list(group.trajectories.order_by("index").values_list("advantage", flat=True))
    assert advantages[0] == pytest.approx(0.75 / 0.5, abs=1e-4)
    assert math.fsum(a or 0.0 for a in advantages) == pytest.approx(0, abs=1e-9)


def test_an_infra_failure_has_no_vote_in_the_baseline(lab: Lab) -> None:
    group = lab.open_rl_groups(1)[0]
    first, second, *rest = Attempt.objects.filter(trajectory__group=group).order_by("pk")
    fail_for_good(lab, first)
    lab.complete(second, 0.0)
    for attempt in rest:
        lab.complete(attempt, 1.0)

    group.refresh_from_db()
    assert group.num_valid == 3
    assert group.reward_mean == pytest.approx(2 / 3)
    assert Trajectory.objects.get(pk=first.trajectory_id).advantage is None


def test_a_group_with_too_few_valid_members_is_dropped_with_a_reason(lab: Lab) -> None:
    group = lab.open_rl_groups(1)[0]
    *broken, last = Attempt.objects.filter(trajectory__group=group).order_by("pk")
    for attempt in broken:
        fail_for_good(lab, attempt)
    lab.complete(last, 1.0)

    group.refresh_from_db()
    assert (group.status, group.drop_reason) == ("dropped", "too_few_valid")


def test_a_group_without_variance_is_kept_at_advantage_zero(lab: Lab) -> None:
    group = lab.open_rl_groups(1)[0]
    lab.complete_group(group, [0.0] * 4)

    assert group.status == "ready"
    assert set(group.trajectories.values_list("advantage", flat=True)) == {0.0}


def test_the_database_refuses_a_group_dropped_without_a_reason(lab: Lab) -> None:
    group = lab.open_rl_groups(1)[0]
    with pytest.raises(IntegrityError), transaction.atomic():
        Group.objects.filter(pk=group.pk).update(status="dropped")


def test_dropping_a_group_ends_its_members(lab: Lab) -> None:
    group = lab.open_rl_groups(1)[0]
    running = Attempt.objects.filter(trajectory__group=group).first()
    assert running is not None
    lab.claim(running)
    groups.drop(group, "stale", now=NOW)

    running.refresh_from_db()
    assert running.cancel_reason == "stale"
    assert group.trajectories.filter(status="cancelled").count() == 3


def test_every_task_comes_once_an_epoch_in_an_order_of_the_seed() -> None:
    tasks = [10, 20, 30, 40, 50]
    first = [groups.task_at(tasks, 1, index) for index in range(5)]
    second = [groups.task_at(tasks, 1, index) for index in range(5, 10)]

    assert sorted(first) == sorted(second) == tasks
    assert first != second
    assert first == [groups.task_at(tasks, 1, index) for index in range(5)]
    assert first != [groups.task_at(tasks, 2, index) for index in range(5)]

from __future__ import annotations

import math
from datetime import timedelta

import pytest

from controlplane.errors import LeaseLost
from runs.models import (
    Checkpoint,
    Consumption,
    Group,
    MetricPoint,
    Run,
    Stage,
    Step,
    WeightVersion,
)
from runs.selectors.runs import trained_twice
from runs.services import stages, steps, weights
from tests.factories import NOW
from tests.runs.lab import Lab

pytestmark = pytest.mark.django_db

MIXED = [1.0, 0.0, 0.0, 1.0]


@pytest.fixture
def lab() -> Lab:
    lab = Lab()
    lab.begin("rl")
    return lab


def ready_groups(lab: Lab, num: int, *, version: int | None = None) -> list[Group]:
    opened = lab.open_rl_groups(num)
    for group in opened:
        lab.complete_group(group, MIXED, version=version)
    return opened


def kill_trainer(lab: Lab) -> None:
    Stage.objects.filter(pk=lab.rl.pk).update(lease_expires_at=NOW - timedelta(seconds=1))


def test_a_step_consumes_the_oldest_ready_groups_and_names_itself(lab: Lab) -> None:
    first, second, third = ready_groups(lab, 3)
    step_id = lab.take_step(lab.claim_training())

    for group in (first, second, third):
        group.refresh_from_db()
    assert (first.status, second.status, third.status) == ("consumed", "consumed", "ready")
    assert first.step_id == second.step_id == step_id
    assert Consumption.objects.filter(step=step_id).count() == 8


def test_a_step_waits_while_too_few_groups_are_ready(lab: Lab) -> None:
    ready_groups(lab, 1)
    plan = lab.claim_training()
    step_id = steps.begin_step(plan.stage_id, plan.token, now=NOW)

    assert steps.claim_batch(plan.stage_id, plan.token, step_id, now=NOW) is None


def test_no_step_begins_on_a_paused_run(lab: Lab) -> None:
    ready_groups(lab, 2)
    plan = lab.claim_training()
    step_id = steps.begin_step(plan.stage_id, plan.token, now=NOW)
    Run.objects.filter(pk=lab.run.pk).update(status="paused")

    assert steps.claim_batch(plan.stage_id, plan.token, step_id, now=NOW) is None


def test_publishing_gives_the_next_weight_version_and_its_curves(lab: Lab) -> None:
    ready_groups(lab, 2)
    step = Step.objects.get(pk=lab.take_step(lab.claim_training()))

    assert (step.status, step.trained_version, step.published_version) == ("done", 0, 1)
    assert lab.run.weight_version == 1
    assert MetricPoint.objects.get(run=lab.run, name="reward/mean").value == 0.5


def test_a_curve_keeps_its_nan_and_infinities(lab: Lab) -> None:
    ready_groups(lab, 2)
    lab.take_step(
        lab.claim_training(), metrics={"train/loss": math.nan, "train/grad_norm": math.inf}
    )

    points = dict(MetricPoint.objects.filter(run=lab.run).values_list("name", "value"))
    assert math.isnan(points["train/loss"])
    assert points["train/grad_norm"] == math.inf


def test_a_trainer_without_its_lease_publishes_nothing(lab: Lab) -> None:
    ready_groups(lab, 2)
    old = lab.claim_training()
    step_id = steps.begin_step(old.stage_id, old.token, now=NOW)
    kill_trainer(lab)
    lab.claim_training()

    with pytest.raises(LeaseLost):
        steps.claim_batch(old.stage_id, old.token, step_id, now=NOW)
    assert lab.run.weight_version == 0


def test_a_live_lease_is_not_taken(lab: Lab) -> None:
    lab.claim_training()

    assert stages.claim_stage(lab.rl.pk, lab.worker.pk, now=NOW) is None


def test_a_trainer_killed_in_a_step_gives_its_groups_back(lab: Lab) -> None:
    first, second = ready_groups(lab, 2)
    plan = lab.claim_training()
    step_id = steps.begin_step(plan.stage_id, plan.token, now=NOW)
    steps.claim_batch(plan.stage_id, plan.token, step_id, now=NOW)
    kill_trainer(lab)
    lab.claim_training()

    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.status, second.status) == ("ready", "ready")
    assert Step.objects.get(pk=step_id).status == "failed"
    lab.run.refresh_from_db()
    assert (lab.run.resume, lab.run.weight_version) == (1, 0)


def test_a_roll_back_supersedes_steps_and_trains_nothing_twice(lab: Lab) -> None:
    early = ready_groups(lab, 2)
    plan = lab.claim_training()
    lab.take_step(plan)
    Checkpoint.objects.create(
        run=lab.run,
        stage=lab.rl,
        step=1,
        resume=0,
        weight_version=1,
        status="complete",
        blob="c",
        created_at=NOW,
    )
    late = ready_groups(lab, 2, version=1)
    lost_step = lab.take_step(plan)
    of_lost_weights = ready_groups(lab, 1, version=2)[0]
    kill_trainer(lab)

    again = lab.claim_training()

    assert again.num_steps_done == 1
    assert Step.objects.get(pk=lost_step).status == "superseded"
    lab.run.refresh_from_db()
    assert lab.run.weight_version == 3, "numbers go on after a roll-back"
    of_lost_weights.refresh_from_db()
    assert (of_lost_weights.status, of_lost_weights.drop_reason) == ("dropped", "superseded")
    for group in late:
        group.refresh_from_db()
        assert group.status == "ready", "their tokens are of the kept lineage"
    redone = lab.take_step(again)
    assert set(Group.objects.filter(step=redone)) == set(late)
    assert trained_twice(lab.run.pk) == 0
    assert all(g.step_id for g in Group.objects.filter(pk__in=[g.pk for g in early]))


def test_trained_twice_counts_what_two_steps_that_stand_have_consumed(lab: Lab) -> None:
    ready_groups(lab, 2)
    step = Step.objects.get(pk=lab.take_step(lab.claim_training()))
    other = Step.objects.create(
        run=lab.run,
        stage=lab.rl,
        index=99,
        resume=0,
        status="done",
        trained_version=0,
        started_at=NOW,
    )
    consumed = step.consumptions.first()
    assert consumed is not None
    Consumption.objects.create(step=other, trajectory=consumed.trajectory)

    assert trained_twice(lab.run.pk) == 1


def test_distance_is_counted_along_the_lineage() -> None:
    lab = Lab()
    for _ in range(3):
        weights.publish_weights(lab.run, blob="w", step=1, now=NOW)
        lab.run.refresh_from_db()
    Run.objects.filter(pk=lab.run.pk).update(weight_version=1)
    lab.run.refresh_from_db()
    weights.publish_weights(lab.run, blob="w", step=1, now=NOW)

    assert weights.lineage(lab.run, 4) == {4: 0, 1: 1, 0: 2}


def test_groups_past_the_hard_bound_are_dropped_when_a_step_claims(lab: Lab) -> None:
    old, _ = ready_groups(lab, 2)
    plan = lab.claim_training()
    for _ in range(lab.rl_plan.hard_staleness + 1):
        weights.publish_weights(lab.run, blob="w", step=1, now=NOW)
    step_id = steps.begin_step(plan.stage_id, plan.token, now=NOW)

    assert steps.claim_batch(plan.stage_id, plan.token, step_id, now=NOW) is None
    old.refresh_from_db()
    assert (old.status, old.drop_reason) == ("dropped", "stale")


def test_old_checkpoints_are_pruned_beyond_what_is_kept(lab: Lab) -> None:
    plan = lab.claim_training()
    pruned: list[str] = []
    for index in range(4):
        pruned += weights.record_checkpoint(
            plan.stage_id, plan.token, blob=f"c{index}", num_bytes=1, step=index, keep=2, now=NOW
        )

    assert pruned == ["c0", "c1"]
    kept = weights.last_checkpoint(lab.rl)
    assert kept is not None
    assert kept.blob == "c3"


def test_a_corrupt_checkpoint_is_set_aside_for_the_one_before(lab: Lab) -> None:
    plan = lab.claim_training()
    for index in range(2):
        weights.record_checkpoint(
            plan.stage_id, plan.token, blob=f"c{index}", num_bytes=1, step=index, keep=3, now=NOW
        )
    weights.condemn_checkpoint(plan.stage_id, plan.token, "c1", now=NOW)

    kept = weights.last_checkpoint(lab.rl)
    assert kept is not None
    assert kept.blob == "c0"


def test_weights_that_nothing_goes_back_to_are_pruned(lab: Lab) -> None:
    plan = lab.claim_training()
    for number in range(1, 10):
        weights.publish_weights(lab.run, blob=f"w{number}", step=number, now=NOW)
        if number == 2:
            weights.record_checkpoint(
                plan.stage_id, plan.token, blob="c", num_bytes=1, step=2, keep=2, now=NOW
            )
    # a roll-back to version 3 would publish its blob again
    weights.publish_weights(lab.run, blob="w3", step=3, now=NOW)

    assert weights.prune_weights(plan.stage_id, plan.token, now=NOW) == ["w1", "w4", "w5"]
    assert weights.prune_weights(plan.stage_id, plan.token, now=NOW) == []
    kept = WeightVersion.objects.filter(run=lab.run, pruned_at__isnull=True)
    assert set(kept.values_list("blob", flat=True)) == {"w2", "w3", "w6", "w7", "w8", "w9"}

"""What is left behind when a worker, a run or a stage ends, and what a resume makes of it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from runs import reaper, scheduler
from runs.models import Engine, Event, Group, Run, Stage, Step
from runs.services import attempts, engines, groups, runs, stages, steps, weights
from runs.services.workers import lose_worker, retire_worker
from sandboxes.models import Sandbox
from tests.factories import NOW, RECIPE, SandboxFactory, UserFactory
from tests.runs.lab import Lab, first_attempt, result

pytestmark = pytest.mark.django_db

MIXED = [1.0, 0.0, 0.0, 1.0]


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What the scheduler dispatched: the broker is not part of these tests."""
    messages: list[tuple[str, int]] = []
    monkeypatch.setattr(
        scheduler, "enqueue", lambda path, pk, **_: messages.append((path.rpartition(".")[2], pk))
    )
    return messages


@pytest.fixture
def lab() -> Lab:
    return Lab()


def stop(lab: Lab) -> None:
    runs.stop_run(lab.run, actor=UserFactory(admin=True), reason="enough", now=lab.now)


def resume(lab: Lab) -> None:
    lab.run.refresh_from_db()
    runs.resume_run(lab.run, actor=UserFactory(admin=True), reason="again", now=lab.now)
    lab.decide()


def own_training(lab: Lab) -> stages.TrainingPlan:
    """The stage is dispatched, then claimed, as a train worker does."""
    Stage.objects.filter(pk=lab.rl.pk).update(dispatched_at=timezone.now() - timedelta(seconds=1))
    return lab.claim_training()


def test_an_evaluation_stopped_half_way_and_resumed_scores_every_task(lab: Lab) -> None:
    lab.decide()
    quick, *slow = lab.eval.groups.order_by("index")
    lab.complete_group(quick, [1.0, 1.0])
    stop(lab)
    lab.decide()
    assert lab.run.status == "cancelled"

    resume(lab)
    lab.decide()

    assert lab.eval.status == "running", "two of three tasks have no score yet"
    again = lab.eval.groups.filter(status="open")
    assert {g.task_id for g in again} == {g.task_id for g in slow}
    for group in again:
        lab.complete_group(group, [0.0, 0.0])
    lab.decide()
    assert lab.eval.result["tasks"] == 3
    assert lab.eval.result["pass_at_1"] == pytest.approx(1 / 3)


def test_a_stage_that_is_resumed_without_a_checkpoint_starts_from_its_first_weights(
    lab: Lab,
) -> None:
    lab.begin("rl")
    for group in lab.open_rl_groups(2):
        lab.complete_group(group, MIXED)
    step = lab.take_step(lab.claim_training())
    stop(lab)
    Stage.objects.filter(pk=lab.rl.pk).update(lease_expires_at=NOW - timedelta(seconds=1))
    lab.decide()
    assert lab.run.status == "cancelled"

    resume(lab)
    plan = lab.claim_training()

    assert (plan.resume, plan.num_steps_done, plan.weights) == (1, 0, "")
    assert Step.objects.get(pk=step).status == "superseded"
    lab.run.refresh_from_db()
    assert set(weights.lineage(lab.run, lab.run.weight_version)) == {0, 2}


def test_a_group_whose_members_were_stopped_is_cancelled_not_invalid(lab: Lab) -> None:
    lab.begin("rl")
    group = lab.open_rl_groups(1)[0]
    stop(lab)

    group.refresh_from_db()
    assert (group.status, group.drop_reason) == ("dropped", "cancelled")


def test_a_paused_run_does_not_end_before_it_may_go_on(lab: Lab) -> None:
    lab.run.stages.update(status="succeeded", finished_at=NOW)
    Run.objects.filter(pk=lab.run.pk).update(status="paused")
    lab.decide()
    assert lab.run.status == "paused"

    Run.objects.filter(pk=lab.run.pk).update(status="running")
    lab.decide()
    assert lab.run.status == "succeeded"


def test_a_pass_that_began_before_a_pause_leaves_its_sentence(lab: Lab) -> None:
    before = Run.objects.get(pk=lab.run.pk)
    runs.pause_run(lab.run, actor=UserFactory(admin=True, username="ada"), reason="", now=NOW)
    runs.set_wait_sentence(before, "Step 1 collects.")

    lab.run.refresh_from_db()
    assert lab.run.wait_sentence.startswith("Paused by")


def test_an_expired_attempt_leaves_no_box_in_the_list(lab: Lab) -> None:
    lab.begin("rl")
    attempt = first_attempt(lab.open_rl_groups(1)[0])
    lab.claim(attempt)
    box = SandboxFactory(project=lab.run.project, attempt_id=attempt.pk, run_id=lab.run.pk)
    attempts.expire_attempts([attempt], now=NOW, sentence="silent")

    box.refresh_from_db()
    assert box.status == "failed"
    assert not Sandbox.objects.filter(finished_at__isnull=True).exists()


def test_a_train_worker_that_dies_spends_a_resume_before_anybody_else_trains(
    lab: Lab, sent: list[tuple[str, int]]
) -> None:
    lab.begin("rl")
    own_training(lab)
    lose_worker(lab.worker, now=NOW, sentence="Worker train-0 was restarted.")

    lab.run.refresh_from_db()
    assert lab.run.num_auto_resumes == 1
    assert "Worker train-0" in Event.objects.get(run=lab.run, kind="trainer_lost").sentence
    lab.later(60)
    lab.decide()
    assert ("run_stage", lab.rl.pk) in sent


def test_a_lapsed_training_lease_is_given_up_before_it_is_dispatched_again(
    lab: Lab, sent: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.begin("rl")
    own_training(lab)
    lapsed = timezone.now() - timedelta(milliseconds=500)
    Stage.objects.filter(pk=lab.rl.pk).update(lease_expires_at=lapsed)
    lab.now = timezone.now() + timedelta(minutes=5)
    lab.decide()
    assert ("run_stage", lab.rl.pk) not in sent

    monkeypatch.setattr(reaper, "_armed_at", 0.0)
    reaper.reap(now=lab.now)
    lab.decide()
    assert ("run_stage", lab.rl.pk) in sent
    assert Event.objects.filter(run=lab.run, kind="trainer_lost").count() == 1


def test_a_train_worker_that_is_shut_down_spends_no_resume(lab: Lab) -> None:
    lab.begin("rl")
    own_training(lab)
    retire_worker(lab.worker, now=NOW)

    lab.run.refresh_from_db()
    assert (lab.run.num_auto_resumes, lab.rl.status, lab.rl.dispatched_at) == (0, "running", None)
    lab.worker.refresh_from_db()
    assert lab.worker.status == "gone"


def test_the_engines_of_a_lost_worker_take_no_more_traffic(lab: Lab) -> None:
    lab.begin("rl")
    lose_worker(lab.worker, now=NOW, sentence="Worker engine-0 was restarted.")

    lab.engine.refresh_from_db()
    assert lab.engine.status == "lost"
    assert "engine-0" in lab.engine.failure_message
    attempt = first_attempt(lab.open_rl_groups(1)[0])
    assert attempts.claim_attempt(attempt.pk, lab.worker.pk, now=NOW) is None


def test_an_engine_that_nobody_claimed_ends_with_its_run(lab: Lab) -> None:
    waiting = Engine.objects.create(run=lab.run, index=1, created_at=NOW)
    stop(lab)
    lab.decide()

    waiting.refresh_from_db()
    assert waiting.status == "gone"
    assert engines.claim_engine(waiting.pk, lab.worker.pk, now=NOW) is None


def test_nobody_begins_to_train_for_a_run_that_is_stopping(lab: Lab) -> None:
    lab.begin("rl")
    stop(lab)

    assert stages.claim_stage(lab.rl.pk, lab.worker.pk, now=NOW) is None


def test_only_a_present_stop_takes_attempts_from_their_workers(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was stopped once, resumed and stopped again has its 60 s again."""
    monkeypatch.setattr(reaper, "_armed_at", 0.0)
    lab.begin("rl")
    attempt = first_attempt(lab.open_rl_groups(1)[0])
    lab.claim(attempt)
    Event.objects.create(
        run=lab.run, kind="run_stopped", sentence="once", at=NOW - timedelta(hours=1)
    )
    stop(lab)
    reaper.reap(now=NOW + timedelta(seconds=5))
    attempt.refresh_from_db()
    assert attempt.status == "starting"

    reaper.reap(now=NOW + timedelta(seconds=61))
    attempt.refresh_from_db()
    assert (attempt.status, attempt.reward) == ("cancelled", None)


def test_a_group_that_settles_while_it_is_being_dropped_is_left_as_it_is(lab: Lab) -> None:
    lab.begin("rl")
    group = lab.open_rl_groups(1)[0]
    stale = Group.objects.get(pk=group.pk)
    Group.objects.filter(pk=group.pk).update(
        status="dropped", drop_reason="too_few_valid", finished_at=NOW
    )
    groups.drop(stale, Group.DropReason.STALE, now=NOW)

    group.refresh_from_db()
    assert group.drop_reason == "too_few_valid"


def test_a_reward_that_two_broken_verdicts_gave_is_marked_as_attributed(lab: Lab) -> None:
    lab.begin("rl")
    attempt = first_attempt(lab.open_rl_groups(1)[0])
    token = lab.claim_to_grading(attempt).token
    graded = result(grade={"details": {"attributed": "policy", "first": "verify_timeout"}})
    attempts.complete_attempt(attempt.pk, token, graded, reward=0.0, now=NOW)

    attempt.refresh_from_db()
    assert attempt.is_attributed_to_policy


def test_a_step_that_loses_many_groups_says_so_once_and_while_it_waits() -> None:
    plan = {
        **RECIPE["stages"][1],
        "max_dropped_groups_per_step": 1,
        "algorithm": {"zero_variance": "resample"},
    }
    lab = Lab({"stages": [plan]})
    lab.begin("rl")
    training = lab.claim_training()
    steps.begin_step(training.stage_id, training.token, now=NOW)
    for num_dropped in (1, 2, 3):
        group = lab.open_rl_groups(1)[0]
        lab.complete_group(group, [1.0, 1.0, 1.0, 1.0])
        assert (group.status, group.drop_reason) == ("dropped", "zero_variance")
        lab.decide()
        said = Event.objects.filter(run=lab.run, kind="many_groups_dropped")
        assert said.count() == (1 if num_dropped > 1 else 0)
        assert ("dropped meanwhile" in lab.run.wait_sentence) == (num_dropped > 1)

    assert Group.objects.filter(run=lab.run, status="open").count() == 4, "they are sampled again"


def test_the_wait_sentence_names_the_loss_of_an_engine_while_its_replacement_starts(
    lab: Lab,
) -> None:
    lab.begin("rl")
    lab.engine.move("lost", finished_at=NOW, failure_message="bad weights.")
    lab.decide()

    assert Engine.objects.filter(run=lab.run, status="starting").exists()
    assert "bad weights." in lab.run.wait_sentence

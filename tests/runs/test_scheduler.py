from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import connection, transaction

from runs import scheduler
from runs.models import Attempt, Engine, Event, Group, Run, Stage
from runs.services import steps, weights
from runs.services.runs import launch_run, stop_run
from tests.factories import NOW, UserFactory, WorkerFactory
from tests.runs.lab import Lab

pytestmark = pytest.mark.django_db


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What the scheduler dispatched: the broker is not part of these tests."""
    messages: list[tuple[str, int]] = []
    monkeypatch.setattr(
        scheduler, "enqueue", lambda path, pk, **_: messages.append((path.rpartition(".")[2], pk))
    )
    return messages


def test_an_evaluation_opens_every_task_and_ends_with_its_result(
    sent: list[tuple[str, int]],
) -> None:
    lab = Lab()
    lab.decide()
    stage = lab.eval
    assert stage.status == "running"
    assert stage.groups.count() == 3
    for group in stage.groups.order_by("index"):
        lab.complete_group(group, [1.0, 0.0])
    lab.decide()

    stage = lab.eval
    assert stage.status == "succeeded"
    assert stage.result["pass_at_1"] == 0.5
    assert (stage.result["tasks"], stage.result["attempts"], stage.result["invalid"]) == (3, 6, 0)
    assert ("run_attempt", stage.trajectories.first().attempts.get().pk) in sent  # type: ignore[union-attr]


def test_an_evaluation_waits_until_every_engine_serves_its_version(
    sent: list[tuple[str, int]],
) -> None:
    lab = Lab()
    Run.objects.filter(pk=lab.run.pk).update(weight_version=1, next_version=2)
    lab.decide()

    assert lab.eval.status == "pending"
    assert "weight version 1 (0 do)" in lab.run.wait_sentence
    Engine.objects.filter(pk=lab.engine.pk).update(weight_version=1)
    lab.decide()
    assert lab.eval.status == "running"


def test_admission_is_bounded_by_staleness(sent: list[tuple[str, int]]) -> None:
    lab = Lab({"rollout": {"max_in_flight": 8}}, num_slots=8)
    Stage.objects.filter(pk=lab.rl.pk).update(num_steps=50)
    lab.begin("rl")
    lab.decide()

    assert Group.objects.filter(status="open").count() == 4, "two steps of two groups are left"
    lab.decide()
    assert Group.objects.filter(status="open").count() == 4, "a second pass opens nothing more"


def test_capacity_is_counted_from_live_rows(sent: list[tuple[str, int]]) -> None:
    stages = Lab().run.recipe["stages"]
    stages[1]["num_steps"] = 50
    lab = Lab({"stages": stages})
    lab.begin("rl")
    lab.decide()
    assert Group.objects.filter(run=lab.run, status="open").count() == 6, "(2 + 1) x 2 groups"

    for group in Group.objects.filter(run=lab.run).order_by("index")[:2]:
        lab.complete_group(group, [1.0, 0.0, 0.0, 0.0])
    lab.decide()
    assert Group.objects.filter(run=lab.run).count() == 6, "ready groups hold their place"
    plan = lab.claim_training()
    lab.take_step(plan)
    lab.decide()
    assert Group.objects.filter(run=lab.run, status="open").count() == 6


def test_a_step_in_training_holds_the_place_of_its_groups(sent: list[tuple[str, int]]) -> None:
    """Else its successors would be opened one version too early: staleness max_staleness + 1."""
    plans = Lab().run.recipe["stages"]
    plans[1]["num_steps"] = 50
    lab = Lab({"stages": plans})
    lab.begin("rl")
    lab.decide()
    for group in Group.objects.filter(run=lab.run).order_by("index")[:2]:
        lab.complete_group(group, [1.0, 0.0, 0.0, 0.0])
    plan = lab.claim_training()
    step_id = steps.begin_step(plan.stage_id, plan.token, now=NOW)
    assert steps.claim_batch(plan.stage_id, plan.token, step_id, now=NOW)

    lab.decide()
    assert Group.objects.filter(run=lab.run, status="open").count() == 4
    steps.report_update(
        plan.stage_id, plan.token, step_id, metrics={}, wait_s=1, logprob_s=1, update_s=1
    )
    steps.publish_step(
        plan.stage_id, plan.token, step_id, blob="w", publish_s=1, metric_step=1, now=NOW
    )
    lab.decide()
    assert Group.objects.filter(run=lab.run, status="open").count() == 6


def test_attempts_are_dispatched_into_free_slots_only(sent: list[tuple[str, int]]) -> None:
    lab = Lab(num_slots=4)
    lab.begin("rl")
    lab.decide()

    rollouts = [pk for name, pk in sent if name == "run_attempt"]
    assert len(rollouts) == 4
    lab.decide()
    assert len([1 for name, _ in sent if name == "run_attempt"]) == 4, "none twice"
    lab.complete(Attempt.objects.get(pk=rollouts[0]), 1.0)
    lab.decide()
    assert len([1 for name, _ in sent if name == "run_attempt"]) == 5


def test_a_slot_is_freed_per_trajectory_and_siblings_go_first(sent: list[tuple[str, int]]) -> None:
    lab = Lab(num_slots=2)
    lab.begin("rl")
    lab.decide()
    for _ in range(2):
        lab.complete(Attempt.objects.get(pk=sent[-1][1]), 1.0)
        lab.decide()

    rollouts = [pk for name, pk in sent if name == "run_attempt"]
    first_group = Group.objects.order_by("index").first()
    assert {Attempt.objects.get(pk=pk).trajectory.group for pk in rollouts} == {first_group}


def test_what_nobody_claimed_is_dispatched_again(sent: list[tuple[str, int]]) -> None:
    lab = Lab(num_slots=1)
    lab.begin("rl")
    lab.decide()
    lab.later(29)
    lab.decide()
    assert len([1 for name, _ in sent if name == "run_attempt"]) == 1
    lab.later(2)
    lab.decide()
    rollouts = [pk for name, pk in sent if name == "run_attempt"]
    assert len(rollouts) == 2
    assert rollouts[0] == rollouts[1]


def test_the_cap_of_the_run_counts_what_is_dispatched(sent: list[tuple[str, int]]) -> None:
    lab = Lab({"rollout": {"max_in_flight": 3}})
    lab.begin("rl")
    lab.decide()

    assert len([1 for name, _ in sent if name == "run_attempt"]) == 3


def test_a_dead_engine_is_replaced_and_attempts_wait(sent: list[tuple[str, int]]) -> None:
    lab = Lab()
    lab.begin("rl")
    lab.engine.move("lost", finished_at=NOW)
    lab.decide()

    fresh = Engine.objects.get(run=lab.run, status="starting")
    assert ("run_engine", fresh.pk) in sent
    assert not [1 for name, _ in sent if name == "run_attempt"]
    assert "waits for an engine" in lab.run.wait_sentence


def test_a_free_training_stage_gets_one_job(sent: list[tuple[str, int]]) -> None:
    lab = Lab()
    lab.begin("rl")
    lab.decide()
    lab.decide()
    assert [name for name, _ in sent].count("run_stage") == 1
    lab.claim_training()
    lab.later(60)
    lab.decide()
    assert [name for name, _ in sent].count("run_stage") == 1, "its lease is alive"


def test_two_passes_never_decide_the_same_run(sent: list[tuple[str, int]]) -> None:
    lab = Lab()
    results: list[bool] = []

    def other() -> None:
        with transaction.atomic():
            results.append(scheduler._try_lock(lab.run.pk))
        connection.close()

    assert scheduler._try_lock(lab.run.pk)
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert results == [False]


def test_stale_groups_are_dropped_and_their_tasks_come_again(sent: list[tuple[str, int]]) -> None:
    lab = Lab()
    lab.begin("rl")
    lab.decide()
    before = set(Group.objects.values_list("pk", flat=True))
    for _ in range(lab.rl_plan.hard_staleness + 1):
        weights.publish_weights(lab.run, blob="w", step=1, now=NOW)
    lab.decide()

    assert set(Group.objects.filter(status="dropped").values_list("drop_reason", flat=True)) == {
        "stale"
    }
    assert Group.objects.filter(status="open").exclude(pk__in=before).count() == 4
    assert Event.objects.filter(run=lab.run, kind="groups_stale").exists()


def test_a_run_whose_stages_are_over_succeeds(sent: list[tuple[str, int]]) -> None:
    lab = Lab()
    lab.run.stages.update(status="succeeded", finished_at=NOW)
    lab.decide()

    assert lab.run.status == "succeeded"
    assert lab.run.finished_at == NOW


def test_a_stopped_run_is_cancelled_once_nothing_of_it_runs(sent: list[tuple[str, int]]) -> None:
    lab = Lab(num_slots=1)
    lab.begin("rl")
    lab.decide()
    attempt = Attempt.objects.get(pk=next(pk for name, pk in sent if name == "run_attempt"))
    token = lab.claim(attempt).token
    stop_run(lab.run, actor=UserFactory(admin=True), reason="enough", now=lab.now)
    lab.decide()
    assert lab.run.status == "stopping"
    assert "1 trajectories in flight" in lab.run.wait_sentence

    from runs.services.attempts import Result, cancel_attempt

    cancel_attempt(attempt.pk, token, Result(), now=lab.now)
    lab.decide()
    assert lab.run.status == "cancelled"
    assert set(Attempt.objects.values_list("reward", flat=True)) == {None}


def test_a_run_that_cannot_be_decided_does_not_hold_up_the_others(
    sent: list[tuple[str, int]], caplog: pytest.LogCaptureFixture
) -> None:
    broken, lab = Lab(), Lab()
    Run.objects.filter(pk=broken.run.pk).update(recipe={"version": 99})
    scheduler.run_pass()

    assert lab.eval.status == "running"
    assert f"could not decide run {broken.run.pk}" in caplog.text


def test_launching_twice_with_one_key_makes_one_run(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    import yaml

    from tests.factories import RECIPE

    lab = Lab()
    model = tmp_path_factory.mktemp("model")
    for name in ("config.json", "tokenizer.json"):
        (model / name).write_text("{}")
    recipe = {**RECIPE, "model": {"path": str(model), "context_length": 448}}
    source = yaml.safe_dump(recipe)
    WorkerFactory(kind="train")
    actor = UserFactory(admin=True)
    runs = {
        launch_run(actor, lab.run.project, source, now=NOW, idempotency_key="k").pk
        for _ in range(2)
    }
    assert len(runs) == 1
    assert Run.objects.get(pk=runs.pop()).stages.count() == 2


def test_nothing_is_dispatched_for_a_paused_run_but_what_is_queued_may_finish(
    sent: list[tuple[str, int]],
) -> None:
    lab = Lab(num_slots=1)
    lab.begin("rl")
    Run.objects.filter(pk=lab.run.pk).update(status="paused")
    lab.decide()

    assert Group.objects.count() == 0, "no admission"
    lab.later(timedelta(minutes=5).total_seconds())
    lab.decide()
    assert lab.run.status == "paused"

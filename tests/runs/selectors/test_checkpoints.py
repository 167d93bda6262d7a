"""Checkpoints with what they are good for, and the lives of a trainer."""

from __future__ import annotations

from datetime import timedelta

import pytest

from runs.models import Run, Stage
from runs.selectors.checkpoints import checkpoints, lives, mean_up_to
from tests.factories import (
    NOW,
    CheckpointFactory,
    EventFactory,
    RunFactory,
    StageFactory,
    StepFactory,
    UserFactory,
    WeightVersionFactory,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> Run:
    run: Run = RunFactory(resume=1)
    return run


@pytest.fixture
def stage(run: Run) -> Stage:
    stage: Stage = StageFactory(run=run, name="rl-training")
    return stage


def test_the_mean_is_of_the_steps_up_to_it_that_are_known() -> None:
    rewards = {1: 0.0, 2: 1.0, 20: 0.5}

    assert mean_up_to(rewards, 2) == 0.5
    assert mean_up_to(rewards, 20) == 0.5
    assert mean_up_to(rewards, 15) is None


def test_a_checkpoint_says_what_it_reached_who_uses_it_and_why_it_is_kept(
    run: Run, stage: Stage
) -> None:
    old = CheckpointFactory(stage=stage, step=10, weight_version=10, status="pruned")
    kept = CheckpointFactory(stage=stage, step=20, weight_version=20)
    newest = CheckpointFactory(stage=stage, step=30, weight_version=30)
    WeightVersionFactory(run=run, version=20)
    WeightVersionFactory(run=run, version=30, pruned_at=NOW)
    StepFactory(stage=stage, index=20, done=True, reward_mean=0.4)
    StageFactory(
        run=run, kind="eval", name="held-out", weight_version=20, result={"pass_at_1": 0.25}
    )
    clone = RunFactory(name="clone", from_checkpoint=kept)

    rows = {row["id"]: row for row in checkpoints(UserFactory(admin=True), run=run.pk).all()}

    assert rows[kept.pk]["reward_mean_10"] == 0.4
    assert rows[kept.pk]["solve_rate"] == {"stage": "held-out", "pass_at_1": 0.25}
    assert rows[kept.pk]["runs"] == [{"id": clone.pk, "name": "clone"}]
    assert [rows[c.pk]["kept_by"] for c in (old, kept, newest)] == [
        "",
        "newest 3 of its stage",
        "newest of its stage",
    ]
    assert [rows[c.pk]["why_no_start"] for c in (old, kept, newest)] == [
        "It was pruned: its files are gone.",
        "",
        "Its published weights were pruned.",
    ]


def test_a_life_names_its_reason_its_downtime_and_what_it_undid(run: Run, stage: Stage) -> None:
    def at(minutes: int) -> object:
        return NOW + timedelta(minutes=minutes)

    for index in (1, 2):
        StepFactory(stage=stage, index=index, done=True, started_at=at(index))
    StepFactory(stage=stage, index=3, status="superseded", started_at=at(3), finished_at=at(4))
    StepFactory(stage=stage, index=4, status="failed", started_at=at(4), finished_at=at(30))
    EventFactory(run=run, kind="trainer_lost", sentence="The trainer died.", at=at(20))
    EventFactory(run=run, kind="rolled_back", at=at(30), data={"resume": 1, "step": 2})
    StepFactory(stage=stage, index=3, resume=1, done=True, started_at=at(31))

    (life,) = lives(run)

    assert (life["resume"], life["after_step"], life["num_superseded"]) == (1, 2, 1)
    assert life["downtime_s"] == 27 * 60
    assert life["reason"] == "The trainer died."


def test_a_step_is_undone_by_one_life_only(run: Run, stage: Stage) -> None:
    Run.objects.filter(pk=run.pk).update(resume=2)
    run.refresh_from_db()
    for resume, minutes in ((0, 0), (1, 10), (2, 20)):
        status = "done" if resume == 2 else "superseded"
        StepFactory(
            stage=stage,
            index=3,
            resume=resume,
            status=status,
            started_at=NOW + timedelta(minutes=minutes),
        )

    assert [life["num_superseded"] for life in lives(run)] == [1, 1]


def test_a_run_with_one_life_was_never_resumed(stage: Stage) -> None:
    Run.objects.filter(pk=stage.run_id).update(resume=0)
    stage.run.refresh_from_db()

    assert lives(stage.run) == []

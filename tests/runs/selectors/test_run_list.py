"""Rows of the runs list: figures of the whole page, each with its population."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import orjson
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.accounts.models import User
from runs.models import Run, Stage
from runs.selectors.run_list import RunRow, runs
from tests.factories import (
    NOW,
    AttemptFactory,
    EngineFactory,
    EventFactory,
    FailureFactory,
    MembershipFactory,
    MetricPointFactory,
    ProjectFactory,
    RunFactory,
    StageFactory,
    StepFactory,
    TrajectoryFactory,
    WorkerFactory,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def reader() -> User:
    user: User = MembershipFactory(project=ProjectFactory(), role="viewer").user
    return user


def rows(reader: User, **query: Any) -> list[RunRow]:
    return runs(reader, now=NOW + timedelta(minutes=30), **query).page(50, None)[0]


def row(reader: User) -> RunRow:
    (found,) = rows(reader)
    return found


def rl_stage(run: Run, **fields: Any) -> Stage:
    stage: Stage = StageFactory(run=run, **fields)
    return stage


def test_the_curve_is_the_ten_step_mean_of_steps_that_count(reader: User) -> None:
    stage = rl_stage(RunFactory())
    for index in range(1, 13):
        StepFactory(stage=stage, index=index, done=True, reward_mean=index / 10)
    StepFactory(stage=stage, index=13, resume=1, status="superseded", reward_mean=9.0)
    StepFactory(stage=stage, index=13, resume=2, status="collecting", reward_mean=None)

    curve = row(reader)["reward_mean_10"]

    assert curve[:2] == [0.1, 0.15]
    assert curve[-1] == pytest.approx(sum(range(3, 13)) / 100)
    assert len(curve) == 12


def test_a_long_curve_has_at_most_forty_points_and_ends_with_the_newest_step(reader: User) -> None:
    stage = rl_stage(RunFactory())
    for index in range(1, 146):
        StepFactory(stage=stage, index=index, done=True, reward_mean=index)

    curve = row(reader)["reward_mean_10"]

    assert len(curve) == 37
    assert curve[-1] == pytest.approx(140.5)
    assert curve == sorted(curve)


def test_infra_failures_are_attempts_of_those_that_ended(reader: User) -> None:
    run = RunFactory()
    stage = rl_stage(run)
    trajectory = TrajectoryFactory(group__stage=stage, completed=True)
    AttemptFactory(trajectory=trajectory, completed=True)
    lost = AttemptFactory(trajectory=trajectory, failed=True)
    attributed = AttemptFactory(trajectory=trajectory, completed=True)
    for attempt in (lost, attributed):
        FailureFactory(run_id=run.pk, attempt_id=attempt.pk)
    FailureFactory(run_id=run.pk, attempt_id=None)  # the trainer's

    found = row(reader)

    assert (found["infra_failures"], found["attempts_ended"]) == (1, 2)


def test_a_running_run_produces_what_it_did_in_ten_minutes_and_an_ended_one_over_its_whole_time(
    reader: User,
) -> None:
    running, ended = rl_stage(RunFactory()), rl_stage(RunFactory(succeeded=True))
    for stage in (running, ended):
        for minutes in (1, 21, 29):
            TrajectoryFactory(
                group__stage=stage, completed=True, finished_at=NOW + timedelta(minutes=minutes)
            )

    newest, oldest = rows(reader)

    assert newest["produced_per_h"] == pytest.approx(3)  # three in its hour
    assert oldest["produced_per_h"] == pytest.approx(12)  # two in ten minutes


def test_a_row_says_how_stale_how_busy_and_how_alive_the_run_is(reader: User) -> None:
    run = RunFactory(is_demo=True)
    stage = rl_stage(run)
    for step, value in ((1, 0.5), (2, 1.5)):
        MetricPointFactory(run=run, name="rollout/staleness_mean", step=step, value=value)
    AttemptFactory(trajectory__group__stage=stage, running=True)
    beat = NOW + timedelta(minutes=29)
    EngineFactory(run=run, worker=WorkerFactory(last_seen_at=beat))
    EngineFactory(run=run, status="lost", finished_at=NOW)
    EventFactory(run=run, level="error", at=NOW)
    EventFactory(run=run, level="error", at=NOW - timedelta(days=2))

    found = row(reader)

    assert found["is_demo"] is True
    assert found["staleness"] == 1.5
    assert (found["in_flight"], found["max_in_flight"]) == (
        1,
        run.recipe["rollout"]["max_in_flight"],
    )
    assert (found["engines_up"], found["last_heartbeat_at"], found["errors_24h"]) == (1, beat, 1)


def test_runs_are_found_by_recipe_and_sorted_by_how_long_they_took(reader: User) -> None:
    for hours in (1, 3, 2):
        RunFactory(status="succeeded", name=f"{hours} h", finished_at=NOW + timedelta(hours=hours))
    other = RunFactory(name="other")
    Run.objects.filter(pk=other.pk).update(recipe={**other.recipe, "name": "another"})

    found = rows(reader, recipe=["tiny"], sort="-duration_s")

    assert [one["name"] for one in found] == ["3 h", "2 h", "1 h"]
    assert [one["name"] for one in rows(reader, recipe=["another", "none"])] == ["other"]


def test_a_page_of_fifty_runs_is_read_in_a_handful_of_queries_and_stays_small(
    reader: User,
) -> None:
    for _ in range(50):
        run = RunFactory()
        stages = StageFactory.create_batch(5, run=run)
        StepFactory.create_batch(40, stage=stages[0], done=True, reward_mean=0.123456)

    with CaptureQueriesContext(connection) as captured:
        found = rows(reader)

    assert len(captured) <= 7
    assert len(orjson.dumps(found)) < 100_000

"""The dry run: how much work a recipe is, and what that took before."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from runs.models import Run
from runs.selectors.plans import PlanRow, plan_of
from tests.factories import NOW, ProjectFactory, RunFactory, StageFactory, TrajectoryFactory
from tests.scenario import launchable_recipe

pytestmark = pytest.mark.django_db


@pytest.fixture
def source(tmp_path: Path) -> str:
    return launchable_recipe(ProjectFactory(), tmp_path)


def plan(source: str) -> PlanRow:
    found = plan_of(ProjectFactory(), source)
    assert found is not None
    return found


def finished_run(source: str, *, seconds: int = 60, tokens: int = 100) -> Run:
    """One trajectory in its evaluation, which took so long."""
    run: Run = RunFactory(recipe_source=source, succeeded=True)
    stage = StageFactory(
        run=run,
        index=0,
        kind="eval",
        name="base",
        status="succeeded",
        finished_at=NOW + timedelta(seconds=seconds),
    )
    TrajectoryFactory(group__stage=stage, completed=True, output_tokens=tokens)
    return run


def test_work_is_counted_from_tasks_attempts_steps_and_groups(source: str) -> None:
    base, rl = plan(source)["stages"]

    assert (base["num_tasks"], base["num_trajectories"], base["num_steps"]) == (1, 2, None)
    assert (rl["num_steps"], rl["num_trajectories"]) == (2, 16)
    assert plan(source)["num_trajectories"] == 18


def test_without_a_finished_run_time_and_tokens_are_unknown(source: str) -> None:
    RunFactory(recipe_source=source)  # it still runs
    RunFactory(recipe_source=source, succeeded=True, is_demo=True)

    found = plan(source)

    assert (found["like"], found["seconds"], found["output_tokens"]) == (None, None, None)


def test_a_finished_run_of_the_same_recipe_and_model_tells_in_proportion(source: str) -> None:
    run = finished_run(source, seconds=60, tokens=100)

    found = plan(source)

    assert found["like"] == {"id": run.pk, "name": run.name}
    base, rl = found["stages"]
    assert (base["seconds"], base["output_tokens"]) == (120, 200)  # two trajectories to its one
    assert rl["seconds"] is None
    assert found["seconds"] is None, "the rl stage is not known, so the whole is not"


def test_another_model_tells_nothing(source: str) -> None:
    run = finished_run(source)
    Run.objects.filter(pk=run.pk).update(recipe={**run.recipe, "model": {"path": "/other"}})

    assert plan(source)["like"] is None


def test_a_missing_task_set_leaves_the_count_open_and_a_broken_recipe_has_no_plan(
    source: str,
) -> None:
    found = plan(source.replace("tiny-held-out", "nothing"))

    assert (found["stages"][0]["num_trajectories"], found["num_trajectories"]) == (None, None)
    assert plan_of(ProjectFactory(), "name: [") is None

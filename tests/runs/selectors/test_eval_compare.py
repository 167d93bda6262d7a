"""Evaluations side by side, by hand-computed values."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from controlplane.accounts.models import Role, User
from controlplane.errors import Invalid, NotFound
from runs.models import Run, Stage
from runs.selectors.eval_compare import compare, eval_arms
from tests import factories
from tests.factories import RECIPE
from tests.scenario import member

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer() -> User:
    return member(Role.VIEWER, factories.ProjectFactory())


class World:
    """Two tasks of two repositories; `arm` evaluates a run on them."""

    def __init__(self) -> None:
        self.set = factories.TaskSetFactory()
        self.tasks = [
            factories.TaskFactory(task_set=self.set, key=key, repository=repository)
            for key, repository in (("a", "calc"), ("b", "text"))
        ]

    def arm(self, *rewards: list[float | None], run: Run | None = None) -> Stage:
        run = run or factories.RunFactory()
        stage: Stage = factories.StageFactory(run=run, kind="eval", name="base", status="succeeded")
        for task, of_task in zip(self.tasks, rewards, strict=False):
            group = factories.GroupFactory(stage=stage, task=task)
            for reward in of_task:
                fate = {"failed": True} if reward is None else {"completed": True, "reward": reward}
                factories.TrajectoryFactory(group=group, **fate)
        return stage


def compared(viewer: User, *arms: Stage) -> Any:
    return compare(viewer, arms=[str(arm.pk) for arm in arms])


def test_arms_are_compared_task_by_task(viewer: User) -> None:
    world = World()
    first = world.arm([0.0, 0.0], [1.0, 0.0])
    second = world.arm([1.0, 1.0], [1.0, None])

    found = compared(viewer, first, second)["comparison"]

    one, two = found["arms"]
    assert (one["pass_at_1"]["mean"], two["pass_at_1"]["mean"]) == (0.25, 0.75)
    assert [(k["at_least_one"], k["all"]) for k in one["pass_at_k"]] == [(0.25, 0.25), (0.5, 0.0)]
    assert [(k["at_least_one"], k["all"]) for k in two["pass_at_k"]] == [(0.75, 0.75), (1.0, 0.5)]
    assert two["sensitivity"] == {"unsolved": 0.75, "excluded": 1.0, "solved": 1.0}
    assert (two["num_attempts"], two["num_valid"], two["num_invalid"]) == (4, 3, 1)
    (pair,) = found["pairs"]
    assert (pair["first"], pair["second"]) == (first.pk, second.pk)
    assert pair["difference"]["mean"] == 0.5
    assert (pair["wins"], pair["losses"], pair["num_ties"]) == (["a"], [], 1)
    assert pair["p_value"] == 1.0, "one task that differs proves nothing"
    assert [task["attempts"] for task in found["tasks"]] == [
        [[0.0, 0.0], [1.0, 1.0]],
        [[1.0, 0.0], [1.0, None]],
    ]
    assert [(r["repository"], r["pass_at_1"]) for r in found["repositories"]] == [
        ("calc", [0.0, 1.0]),
        ("text", [0.5, 0.5]),
    ]


def test_arms_measured_differently_are_refused_with_what_differs(viewer: User) -> None:
    world = World()
    other = {**RECIPE, "agent": {**RECIPE["agent"], "turn_cap": 5}}
    run = factories.RunFactory(recipe_source=yaml.safe_dump(other))

    found = compared(viewer, world.arm([1.0], [1.0]), world.arm([1.0], [1.0], run=run))

    assert found["comparison"] is None
    assert found["differences"] == [{"field": "agent.turn_cap", "values": ["10", "5"]}]
    assert [arm["run"] for arm in found["arms"]][1] == run.pk


def test_other_tasks_are_another_measurement(viewer: User) -> None:
    world = World()

    found = compared(viewer, world.arm([1.0], [1.0]), world.arm([1.0]))

    assert found["comparison"] is None
    (difference,) = found["differences"]
    assert difference["field"] == "tasks"
    assert [value.split(",")[0] for value in difference["values"]] == ["2 tasks", "1 tasks"]


def test_how_many_boxes_there_may_be_changes_no_result(viewer: User) -> None:
    world = World()
    wide = {**RECIPE, "sandbox": {**RECIPE["sandbox"], "max_concurrent": 3}}
    run = factories.RunFactory(recipe_source=yaml.safe_dump(wide))

    found = compared(viewer, world.arm([1.0], [1.0]), world.arm([0.0], [1.0], run=run))

    assert found["differences"] == []


def test_an_evaluation_without_an_attempt_that_ended_has_nothing_to_compare(viewer: User) -> None:
    empty = factories.StageFactory(run=factories.RunFactory(), kind="eval", name="base")

    found = compared(viewer, empty)

    assert (found["comparison"], found["differences"]) == (None, [])


@pytest.mark.parametrize("arms", [[], ["x"], [str(n) for n in range(7)], ["9" * 30]])
def test_what_is_no_list_of_arms_is_refused(viewer: User, arms: list[str]) -> None:
    with pytest.raises(Invalid):
        compare(viewer, arms=arms)


def test_arms_of_other_projects_do_not_exist(viewer: User) -> None:
    arm = World().arm([1.0])
    stranger = member(Role.ADMIN, factories.ProjectFactory(slug="theirs"))

    assert [row["id"] for row in eval_arms(viewer).all()] == [arm.pk]
    assert eval_arms(stranger).all() == []
    with pytest.raises(NotFound):
        compared(stranger, arm)

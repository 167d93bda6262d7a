"""A page costs the same number of queries whether it has one row or twenty."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from controlplane.accounts.models import Role
from runs.selectors.recipes import recipe_of
from tests import factories
from tests.controlplane.test_routes import ROUTES
from tests.factories import NOW
from tests.scenario import member

pytestmark = pytest.mark.django_db


class World:
    """Rows of one run (or project) in any number."""

    def __init__(self) -> None:
        self.project = factories.ProjectFactory()
        self.run = factories.RunFactory(project=self.project)
        self.stage = factories.StageFactory(run=self.run, kind="eval", name="base")
        self.task_set = factories.TaskSetFactory(project=self.project)
        self.group = factories.GroupFactory(stage=self.stage, task__task_set=self.task_set)
        self.trajectory = factories.TrajectoryFactory(group=self.group)
        self.attempt = factories.AttemptFactory(trajectory=self.trajectory, running=True)
        self.failures = factories.FailureGroupFactory(project=self.project)
        self.held = factories.SandboxFactory(
            project=self.project, run_id=self.run.pk, attempt_id=self.attempt.pk
        )
        self.trained = factories.StepFactory(stage=self.stage, done=True)
        self.user = member(Role.OPERATOR, self.project)

    def attempt_of_a_new_trajectory(self) -> Any:
        trajectory = factories.TrajectoryFactory(
            group__stage=self.stage, group__task__task_set=self.task_set, completed=True
        )
        return factories.AttemptFactory(
            trajectory=trajectory,
            running=True,
            engine=factories.EngineFactory(run=self.run),
        )

    def sibling(self) -> None:
        trajectory = factories.TrajectoryFactory(group=self.group, completed=True)
        attempt = factories.AttemptFactory(trajectory=trajectory, completed=True, number=1)
        factories.TurnFactory(attempt=attempt, index=0)

    def sandbox(self) -> None:
        attempt = self.attempt_of_a_new_trajectory()
        factories.SandboxFactory(project=self.project, run_id=self.run.pk, attempt_id=attempt.pk)

    def failure_of_the_box(self) -> None:
        for _ in range(2):
            factories.FailureFactory(
                group=self.failures, run_id=self.run.pk, attempt_id=self.held.attempt_id
            )

    def attempt_of_a_known_recipe(self) -> None:
        recipe_of(self.run.pk)  # read once a process, not once a page
        self.attempt_of_a_new_trajectory()

    def attempt_on_the_task(self) -> None:
        group = factories.GroupFactory(stage=self.stage, task=self.group.task)
        trajectory = factories.TrajectoryFactory(group=group, completed=True)
        factories.AttemptFactory(trajectory=trajectory, failed=True)

    def member_of_the_group(self) -> None:
        member = factories.TrajectoryFactory(group=self.group)
        factories.AttemptFactory(trajectory=member, running=True)

    def box(self) -> None:
        factories.SandboxFactory(project=self.project, attempt_id=self.attempt.pk)

    def failure(self) -> None:
        attempt = self.attempt_of_a_new_trajectory()
        factories.FailureFactory(group=self.failures, run_id=self.run.pk, attempt_id=attempt.pk)

    def run_with_stages(self) -> None:
        run = factories.RunFactory(project=self.project)
        stages = factories.StageFactory.create_batch(3, run=run)
        factories.StepFactory(stage=stages[0], done=True, reward_mean=0.5)
        factories.EngineFactory(run=run)

    def membership(self) -> None:
        project = factories.ProjectFactory(slug=f"project-{self.user.memberships.count()}")
        factories.MembershipFactory(user=self.user, project=project)

    def token(self) -> None:
        factories.ApiTokenFactory(user=self.user, project=self.project)

    def member_of_the_step(self) -> None:
        group = factories.GroupFactory(
            stage=self.stage, task__task_set=self.task_set, status="consumed", step=self.trained
        )
        trajectory = factories.TrajectoryFactory(group=group, completed=True)
        factories.AttemptFactory(trajectory=trajectory, completed=True)
        factories.MetricPointFactory(
            run=self.run, name=f"train/{group.pk}", step=self.trained.index
        )

    def everything_of_an_overview(self) -> None:
        self.member_of_the_step()
        self.sandbox()
        self.failure()
        self.step()

    def point_of_a_new_curve(self) -> None:
        name = f"train/{self.run.metric_points.count()}"
        factories.MetricPointFactory(run=self.run, name=name)

    def step(self) -> None:
        factories.StepFactory(stage=self.stage, done=True, started_at=NOW + timedelta(minutes=1))


ADD: dict[str, Callable[[World], object]] = {
    "projects": World.membership,
    "me": World.membership,
    "tokens": World.token,
    "limits": lambda w: factories.LimitFactory(project=w.project),
    "recipes": lambda w: factories.RecipeFactory(project=w.project),
    "runs": World.run_with_stages,
    "runs/{run}": World.attempt_of_a_new_trajectory,
    "runs/{run}/stages": lambda w: factories.StageFactory(run=w.run),
    "runs/{run}/overview": World.everything_of_an_overview,
    "runs/{run}/steps": World.step,
    "runs/{run}/steps/{step}": World.member_of_the_step,
    "runs/{run}/metrics": lambda w: factories.MetricPointFactory(run=w.run),
    "runs/{run}/metric-names": lambda w: factories.MetricPointFactory(run=w.run),
    "runs/{run}/series": World.point_of_a_new_curve,
    "runs/{run}/series/export": World.point_of_a_new_curve,
    "runs/{run}/groups": lambda w: factories.GroupFactory(stage=w.stage),
    "runs/{run}/trajectories": World.attempt_of_a_new_trajectory,
    "runs/{run}/trajectories/facets": World.attempt_of_a_new_trajectory,
    "runs/{run}/checkpoints": lambda w: factories.CheckpointFactory(stage=w.stage),
    "runs/{run}/resumes": World.step,
    "runs/{run}/engines": lambda w: factories.EngineFactory(run=w.run),
    "runs/{run}/events": lambda w: factories.EventFactory(run=w.run),
    "runs/{run}/event-kinds": lambda w: factories.EventFactory(run=w.run, kind="run_started"),
    "runs/{run}/evals": World.attempt_of_a_new_trajectory,
    "groups/{group_id}": World.sibling,
    "runs/{run}/tail": World.member_of_the_step,
    "runs/{run}/tail/caps": World.sibling,
    "groups": lambda w: factories.GroupFactory(stage=w.stage),
    "trajectories": World.attempt_of_a_new_trajectory,
    "trajectories/{trajectory}": lambda w: factories.AttemptFactory(
        trajectory=w.trajectory, failed=True
    ),
    "trajectories/{trajectory}/turns": lambda w: factories.TurnFactory(attempt=w.attempt),
    "trajectories/{trajectory}/skeleton": lambda w: factories.TurnFactory(attempt=w.attempt),
    "trajectories/{trajectory}/log": lambda w: factories.TurnFactory(attempt=w.attempt),
    "trajectories/{trajectory}/atif": lambda w: factories.TurnFactory(attempt=w.attempt),
    "trajectories/{trajectory}/siblings": World.member_of_the_group,
    "trajectories/{trajectory}/sandboxes": World.box,
    "engines": World.attempt_of_a_new_trajectory,
    "workers": World.attempt_of_a_new_trajectory,
    "nodes": World.attempt_of_a_new_trajectory,
    "queues": World.attempt_of_a_new_trajectory,
    "sandboxes": World.sandbox,
    "sandboxes/fleet": World.sandbox,
    "sandboxes/carpet": World.sandbox,
    "sandboxes/{sandbox}": World.failure_of_the_box,
    "failures": lambda w: factories.FailureFactory(group__project=w.project),
    "failures/{group}": World.failure,
    "failures/{group}/members": World.failure,
    "task-sets": lambda w: factories.TaskFactory(task_set__project=w.project),
    "task-sets/{task_set}": lambda w: factories.TaskFactory(task_set=w.task_set),
    "task-sets/{task_set}/tasks": lambda w: factories.TaskFactory(task_set=w.task_set),
    "task-sets/{task_set}/tasks/{task}": World.attempt_on_the_task,
    "evals": lambda w: factories.StageFactory(run=w.run, kind="eval"),
    "evals/compare?arms={stage}": World.attempt_of_a_known_recipe,
}
# One row, or nothing from the database.
SINGLE = {
    "recipes/{name}",
    "recipe-schema",
    "metric-catalogue",
    "openapi.json",
    "runs/{run}/trajectories/export",  # a stream: tests/runs/api/test_exports.py counts
    "runs/{run}/recipe",
    "trajectories/{trajectory}/turns/{turn}/text",
    "trajectories/{trajectory}/patch",
    "trajectories/{trajectory}/tests",
    "trajectories/{trajectory}/tokens",
}


def test_every_read_of_the_api_is_measured() -> None:
    assert {path.partition("?")[0] for path in ADD} | SINGLE == {
        path for method, path in ROUTES if method == "GET"
    }


def _queries(client: APIClient, url: str) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        answer = client.get(url)
    assert answer.status_code == 200, answer.content
    return [query["sql"] for query in captured]


@pytest.mark.parametrize("path", ADD)
def test_a_page_of_twenty_costs_the_queries_of_a_page_of_one(path: str) -> None:
    world = World()
    client = APIClient()
    client.force_login(world.user)
    url = "/api/v1/" + path.format(
        run=world.run.pk,
        trajectory=world.trajectory.pk,
        group=world.failures.pk,
        group_id=world.group.pk,
        step=world.trained.pk,
        task_set=world.task_set.pk,
        task=world.group.task_id,
        sandbox=world.held.pk,
        stage=world.stage.pk,
    )
    ADD[path](world)
    of_one = _queries(client, url)

    for _ in range(19):
        ADD[path](world)
    of_twenty = _queries(client, url)

    assert len(of_twenty) == len(of_one), "\n".join(of_twenty)
    assert len(of_one) <= 10, "\n".join(of_one)

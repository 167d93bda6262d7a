"""One project with a row of everything in it, and the people who may or may not see it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rest_framework.test import APIClient

from controlplane.accounts.models import Project, Role, User
from tests import factories

PEOPLE = ("anonymous", "outsider", "viewer", "operator", "admin")


@dataclass
class Scenario:
    """`rows` maps the names in URL patterns to the ids of this project's rows."""

    project: Project
    rows: dict[str, Any]
    people: dict[str, User | None]
    recipe_source: str

    def client(self, who: str) -> APIClient:
        client = APIClient()
        user = self.people[who]
        if user is not None:
            client.force_login(user)
        return client


def member(role: Role, project: Project) -> User:
    user: User = factories.UserFactory(username=f"{role}-of-{project.slug}")
    factories.MembershipFactory(user=user, project=project, role=role)
    return user


def launchable_recipe(project: Project, directory: Path) -> str:
    """A recipe that passes its preflight: files are there, task sets are imported and disjoint."""
    for name in ("config.json", "tokenizer.json"):
        (directory / name).write_text("{}")
    for name, split in (("tiny-train", "train"), ("tiny-held-out", "held_out")):
        task_set = factories.TaskSetFactory(project=project, name=name, split=split)
        factories.TaskFactory(task_set=task_set)
    recipe = {**factories.RECIPE, "model": {"path": str(directory), "context_length": 448}}
    return yaml.safe_dump(recipe, sort_keys=False)


def build(directory: Path) -> Scenario:
    project = factories.ProjectFactory(slug="ours")
    other = factories.ProjectFactory(slug="theirs")
    people: dict[str, User | None] = {
        "anonymous": None,
        "outsider": member(Role.ADMIN, other),
        "viewer": member(Role.VIEWER, project),
        "operator": member(Role.OPERATOR, project),
        "admin": member(Role.ADMIN, project),
    }
    source = launchable_recipe(project, directory)
    run = factories.RunFactory(project=project, recipe_source=source)
    stage = factories.StageFactory(
        run=run,
        kind="eval",
        name="base",
        status="succeeded",
        weight_version=0,
        result={
            "pass_at_1": 0.5,
            "low": 0.1,
            "high": 0.9,
            "tasks": 1,
            "attempts": 2,
            "invalid": 0,
        },
    )
    group = factories.GroupFactory(stage=stage)
    trajectory = factories.TrajectoryFactory(group=group, completed=True)
    worker = factories.WorkerFactory()
    attempt = factories.AttemptFactory(
        trajectory=trajectory,
        completed=True,
        worker=worker,
        engine=factories.EngineFactory(run=run),
        timings={"llm": 1.5},
        grade={"details": {"passed": 3}, "output": "3 passed", "duration_s": 0.5},
    )
    factories.TurnFactory(attempt=attempt, index=0)
    step = factories.StepFactory(stage=stage, done=True)
    factories.MetricPointFactory(run=run)
    factories.EventFactory(run=run)
    factories.CheckpointFactory(stage=stage)
    sandbox = factories.SandboxFactory(project=project, run_id=run.pk, attempt_id=attempt.pk)
    failures = factories.FailureGroupFactory(project=project)
    factories.FailureFactory(group=failures, run_id=run.pk, attempt_id=attempt.pk)
    factories.LimitFactory(project=project)
    task = factories.TaskFactory(task_set__project=project)
    recipe = factories.RecipeFactory(project=project, name="stored")
    rows = {
        "run": run.pk,
        "step": step.pk,
        "trajectory": trajectory.pk,
        "turn": 0,
        "group": failures.pk,
        "group_id": group.pk,
        "task_set": task.task_set_id,
        "task": task.pk,
        "sandbox": sandbox.pk,
        "stage": stage.pk,
        "worker": worker.pk,
        "name": recipe.name,
    }
    return Scenario(project, rows, people, source)

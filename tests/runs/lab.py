"""A run in its RL or evaluation stage, with a worker and an engine, for tests of services and scheduler."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import yaml

from runs import scheduler
from runs.models import Attempt, Engine, Group, Run, Stage, TaskSet, Worker
from runs.recipe import RlStage, parse
from runs.services import attempts, groups, stages, steps
from tests.factories import (
    NOW,
    RECIPE,
    NodeFactory,
    RunFactory,
    StageFactory,
    TaskFactory,
    TaskSetFactory,
    WorkerFactory,
)


@dataclass
class Lab:
    """`later()` moves the clock that services are given; leases use the database's."""

    changes: dict[str, Any] = field(default_factory=dict)
    num_tasks: int = 3
    num_slots: int = 64

    def __post_init__(self) -> None:
        recipe = {**RECIPE, **self.changes}
        self.now = NOW
        self.run: Run = RunFactory(recipe_source=yaml.safe_dump(recipe))
        self.stages = [
            StageFactory(
                run=self.run,
                index=index,
                kind=plan["kind"],
                name=plan["name"],
                num_steps=plan.get("num_steps", 0),
                status="pending",
                started_at=None,
            )
            for index, plan in enumerate(recipe["stages"])
        ]
        for name, split in (("tiny-train", "train"), ("tiny-held-out", "held_out")):
            if TaskSet.objects.filter(project=self.run.project, name=name).exists():
                continue
            task_set = TaskSetFactory(
                project=self.run.project, name=name, split=split, num_tasks=self.num_tasks
            )
            for number in range(self.num_tasks):
                TaskFactory(task_set=task_set, key=f"{name}-{number}")
        node = NodeFactory()
        self.worker: Worker = WorkerFactory(node=node, kind="rollout", num_slots=self.num_slots)
        self.engine = Engine.objects.create(
            run=self.run,
            index=0,
            status="serving",
            url="http://127.0.0.1:1",
            weight_version=0,
            synced_at=NOW,
            lease_token=uuid.uuid4(),
            lease_expires_at=NOW + timedelta(days=365),
            worker=self.worker,
            created_at=NOW,
        )

    @property
    def eval(self) -> Stage:
        return self._stage("eval")

    @property
    def rl(self) -> Stage:
        return self._stage("rl")

    def _stage(self, kind: str) -> Stage:
        stage = next(s for s in self.stages if s.kind == kind)
        stage.refresh_from_db()
        stage.run.refresh_from_db()
        return stage

    def begin(self, kind: str) -> Stage:
        """Skip to the stage and begin it."""
        for stage in self.stages:
            if stage.kind == kind:
                stages.begin_stage(stage, now=self.now)
                return stage
            Stage.objects.filter(pk=stage.pk).update(status="succeeded")
        raise AssertionError(kind)

    def decide(self) -> None:
        self.run.refresh_from_db()
        scheduler.decide(self.run, now=self.now)
        self.run.refresh_from_db()

    def later(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def claim(self, attempt: Attempt) -> attempts.Assignment:
        assignment = attempts.claim_attempt(attempt.pk, self.worker.pk, now=self.now)
        assert assignment is not None
        return assignment

    def claim_to_grading(self, attempt: Attempt) -> attempts.Assignment:
        assignment = self.claim(attempt)
        for status in ("running", "grading"):
            attempts.advance_attempt(attempt.pk, assignment.token, status)
        return assignment

    def complete(self, attempt: Attempt, reward: float, *, version: int | None = None) -> None:
        assignment = self.claim_to_grading(attempt)
        at = self.run.weight_version if version is None else version
        attempts.complete_attempt(
            attempt.pk,
            assignment.token,
            result(version_min=at, version_max=at),
            reward=reward,
            now=self.now,
        )

    def complete_group(
        self, group: Group, rewards: list[float], *, version: int | None = None
    ) -> None:
        queued = Attempt.objects.filter(trajectory__group=group, status="queued").order_by("pk")
        for attempt, reward in zip(queued, rewards, strict=True):
            self.complete(attempt, reward, version=version)
        group.refresh_from_db()

    def open_rl_groups(self, num: int) -> list[Group]:
        stage = self.rl
        plan = self.rl_plan
        ids = groups.tasks_of_stage(stage)
        chosen = [ids[i % len(ids)] for i in range(num)]
        return groups.open_groups(stage, chosen, plan.group_size, now=self.now)

    @property
    def rl_plan(self) -> RlStage:
        plan = parse(self.run.recipe).stages[self.rl.index]
        assert isinstance(plan, RlStage)
        return plan

    def claim_training(self) -> stages.TrainingPlan:
        plan = stages.claim_stage(self.rl.pk, self.worker.pk, now=self.now)
        assert plan is not None
        return plan

    def take_step(
        self, plan: stages.TrainingPlan, *, metrics: dict[str, float] | None = None
    ) -> int:
        """One whole step on the groups that are ready; returns its id."""
        step_id = steps.begin_step(plan.stage_id, plan.token, now=self.now)
        batch = steps.claim_batch(plan.stage_id, plan.token, step_id, now=self.now)
        assert batch is not None
        steps.report_update(
            plan.stage_id,
            plan.token,
            step_id,
            metrics=metrics or {},
            wait_s=1,
            logprob_s=1,
            update_s=1,
        )
        steps.publish_step(
            plan.stage_id, plan.token, step_id, blob="w", publish_s=1, metric_step=1, now=self.now
        )
        self.run.refresh_from_db()
        return step_id


def result(**changes: Any) -> attempts.Result:
    values: dict[str, Any] = {
        "blob": "blob",
        "stop_reason": "submitted",
        "num_turns": 2,
        "output_tokens": 10,
        "version_min": 0,
        "version_max": 0,
    }
    return attempts.Result(**values | changes)


def first_attempt(group: Group) -> Attempt:
    attempt = Attempt.objects.filter(trajectory__group=group).order_by("pk").first()
    assert attempt is not None
    return attempt

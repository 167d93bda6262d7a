"""A plan placed in real time, in a project, under a run's row."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from controlplane.accounts.models import Project
from runs.demo_data.plan import Plan
from runs.demo_data.records import GroupPlan
from runs.demo_data.repositories import DemoTask, tasks_of
from runs.demo_data.shape import NUM_HELD_OUT_TASKS, NUM_TRAIN_TASKS, Shape

NODE_PREFIX = "demo-"
BATCH = 2_000


@dataclass(frozen=True)
class Context:
    """began: when the run did."""

    project: Project
    shape: Shape
    plan: Plan
    began: datetime
    seed: int

    def at(self, seconds: float | None) -> datetime | None:
        return None if seconds is None else self.when(seconds)

    def when(self, seconds: float) -> datetime:
        return self.began + timedelta(seconds=seconds)

    def task_of(self, group: GroupPlan) -> DemoTask:
        if group.stage.kind == "rl":
            return tasks_of("train", NUM_TRAIN_TASKS)[group.task]
        return tasks_of("held_out", NUM_HELD_OUT_TASKS)[group.task]

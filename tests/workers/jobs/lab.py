"""A lab whose tasks are real Harbor directories, imported into the real blob store."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db.models import Q

from controlplane.blobs import BlobStore
from runs.models import Attempt, Engine, Group, Stage, Task, Worker
from runs.services.task_sets import import_task_set
from tests.factories import NOW, ProjectFactory
from tests.runs.lab import Lab
from workers.jobs.runtime import Runtime

PASSES_WHEN_FIXED = """\
if grep -q fixed calc.py; then reward=1; else reward=0; fi
echo "{\\"reward\\": $reward}" > /logs/verifier/reward.json
"""
FIX = "echo fixed >> calc.py\n"


def write_task(folder: Path, *, test: str, solution: str, timeout_s: float = 10.0) -> None:
    files = {
        "instruction.md": "Fix calc.py.\n",
        "task.toml": 'schema_version = "1.4"\n[metadata]\nrepository = "r"\n'
        f"[verifier]\ntimeout_sec = {timeout_s}\n",
        "environment/Dockerfile": "FROM scratch\nCOPY workspace /workspace\n",
        "environment/workspace/calc.py": "broken\n",
        "tests/test.sh": test,
        "solution/solve.sh": solution,
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@dataclass
class JobLab(Lab):
    """`test` and `solution` are the scripts of its one task; the engine is whoever answers at `url`."""

    process: Runtime | None = None
    url: str = ""
    test: str = PASSES_WHEN_FIXED
    solution: str = FIX
    verify_timeout_s: float = 10.0
    num_tasks: int = 1
    store: BlobStore = field(init=False)

    def __post_init__(self) -> None:
        assert self.process is not None
        self.store = self.process.store
        project = ProjectFactory()
        with tempfile.TemporaryDirectory() as name:
            write_task(
                Path(name) / "task-0",
                test=self.test,
                solution=self.solution,
                timeout_s=self.verify_timeout_s,
            )
            for task_set, split in (("tiny-train", "train"), ("tiny-held-out", "held_out")):
                import_task_set(
                    project,
                    self.store,
                    name=task_set,
                    split=split,
                    directory=Path(name),
                    now=NOW,
                )
        super().__post_init__()
        Worker.objects.filter(pk=self.worker.pk).update(
            kind=self.process.kind, name=self.process.name
        )
        self.worker.refresh_from_db()
        self.process.worker = self.worker
        if self.url:
            Engine.objects.filter(pk=self.engine.pk).update(url=self.url)

    @property
    def task(self) -> Task:
        return Task.objects.get(task_set__name="tiny-train")

    def queued(self) -> list[Attempt]:
        return list(Attempt.objects.filter(run=self.run, status="queued").order_by("pk"))

    def open_attempts(self) -> list[Attempt]:
        """A group of the RL stage: its members' first attempts."""
        self.begin("rl")
        self.open_rl_groups(1)
        return self.queued()

    def states(self) -> list[tuple[str, float | None]]:
        rows = Attempt.objects.filter(self.mine).order_by("pk")
        return list(rows.values_list("status", "reward"))

    @property
    def mine(self) -> Q:
        return Q(run=self.run)

    @property
    def group(self) -> Group:
        return Group.objects.get(run=self.run)


def rollout_recipe(model: Path, *, context_length: int = 4096, **changes: Any) -> dict[str, Any]:
    """Short patience, one group of two."""
    recipe: dict[str, Any] = {
        "model": {"path": str(model), "context_length": context_length},
        "agent": {"format": "raw", "turn_cap": 6, "turn_token_cap": 256, "token_cap": 4096},
        "timeouts": {
            "start_s": 20,
            "setup_s": 10,
            "llm_call_s": 20,
            "command_s": 20,
            "turn_s": 25,
            "agent_s": 60,
            "verify_s": 20,
            "trajectory_s": 90,
        },
        "rollout": {"max_in_flight": 4},
        "stages": [
            {"kind": "eval", "name": "base", "task_set": "held_out", "attempts": 2},
            {
                "kind": "rl",
                "name": "rl-training",
                "task_set": "train",
                "num_steps": 1,
                "groups_per_step": 1,
                "group_size": 2,
                "max_staleness": 2,
            },
        ],
    }
    for key, value in changes.items():
        recipe[key] = {**recipe.get(key, {}), **value}
    return recipe


def training_stage(lab: Lab, kind: str) -> Stage:
    return next(stage for stage in lab.stages if stage.kind == kind)

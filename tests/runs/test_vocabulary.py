"""The words of the API are the words of the models, and every curve has a definition."""

from __future__ import annotations

import re
from collections import Counter
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import pytest

from controlplane.accounts import selectors as accounts
from controlplane.accounts.models import Role
from runs import metrics_catalogue
from runs.metrics_catalogue import definition_of
from runs.models import (
    Attempt,
    Checkpoint,
    Engine,
    Event,
    Group,
    Run,
    Stage,
    Step,
    TaskSet,
    Trajectory,
    Worker,
)
from runs.selectors import checkpoints, fleet, history, runs, stages, tasks, trajectories
from sandboxes import selectors as boxes
from sandboxes.failures import FailureClass, FailureStage
from sandboxes.models import Sandbox

WORDS = [
    (accounts.Role, Role),
    (runs.RunStatus, Run.Status),
    (stages.StageKind, Stage.Kind),
    (stages.StageStatus, Stage.Status),
    (history.StepStatus, Step.Status),
    (checkpoints.CheckpointStatus, Checkpoint.Status),
    (history.EventLevel, Event.Level),
    (trajectories.GroupStatus, Group.Status),
    (trajectories.DropReason, Group.DropReason),
    (trajectories.TrajectoryStatus, Trajectory.Status),
    (trajectories.AttemptStatus, Attempt.Status),
    (trajectories.StopReason, Attempt.StopReason),
    (trajectories.CancelReason, Attempt.CancelReason),
    (fleet.EngineStatus, Engine.Status),
    (fleet.WorkerKind, Worker.Kind),
    (fleet.WorkerStatus, Worker.Status),
    (tasks.TaskSetSplit, TaskSet.Split),
    (boxes.SandboxStatus, Sandbox.Status),
    (boxes.FailureStage, FailureStage),
    (boxes.FailureClass, FailureClass),
]


@pytest.mark.parametrize(
    ("alias", "choices"), [pytest.param(*pair, id=pair[0].__name__) for pair in WORDS]
)
def test_the_api_knows_every_word_of_the_model(alias: Any, choices: type[Enum]) -> None:
    words = set(get_args(alias.__value__)) - {""}

    assert words == {choice.value for choice in choices}


def test_every_curve_that_is_recorded_is_in_the_catalogue() -> None:
    """Curves are named where they are computed: string literals that begin with a family."""
    family = re.compile(r"""f?"((?:reward|train|time|rollout|sft|eval|engine)/[a-z_0-9/]*)[{"]""")
    root = Path(__file__).parents[2]
    found = {
        name
        for part in ("runs/selectors", "runs/services", "workers")
        for path in (root / part).rglob("*.py")
        for name in family.findall(path.read_text())
    }
    # a field of the recipe, and a family that is left out as a whole
    others = {"rollout/max_in_flight", "sft/"}

    missing = {name for name in found - others if definition_of(name.rstrip("/")) is None}

    assert len(found) > 20
    assert missing == set()


def test_no_curve_is_defined_twice() -> None:
    names = [entry["name"] for entry in metrics_catalogue.CATALOGUE]

    assert len(names) == len(set(names))


def test_a_curve_by_lag_has_the_definition_of_the_curve() -> None:
    found = definition_of("train/ess/lag_2")

    assert found is not None
    assert found["name"] == "train/ess"
    assert definition_of("made/up") is None


def test_every_shape_of_the_api_has_a_name_of_its_own() -> None:
    """The document has one component a name: of two shapes with one name it would keep one, silently."""
    root = Path(__file__).parents[2]
    sources = [
        path for app in ("runs", "sandboxes", "controlplane") for path in (root / app).rglob("*.py")
    ]
    names = Counter(
        name.removesuffix("Row")
        for path in sources
        for name in re.findall(r"^class (\w+)\(TypedDict", path.read_text(), re.MULTILINE)
    )
    assert [name for name, num in names.items() if num > 1] == []

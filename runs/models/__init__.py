"""One module a noun."""

from runs.models.checkpoint import Checkpoint, WeightVersion
from runs.models.engine import Engine
from runs.models.event import Event
from runs.models.group import Group
from runs.models.metric import MetricPoint
from runs.models.recipe import Recipe
from runs.models.run import Run, Stage
from runs.models.step import Consumption, Step
from runs.models.task import Task, TaskSet
from runs.models.trajectory import Attempt, Trajectory, Turn
from runs.models.worker import Node, Worker

__all__ = [
    "Attempt",
    "Checkpoint",
    "Consumption",
    "Engine",
    "Event",
    "Group",
    "MetricPoint",
    "Node",
    "Recipe",
    "Run",
    "Stage",
    "Step",
    "Task",
    "TaskSet",
    "Trajectory",
    "Turn",
    "WeightVersion",
    "Worker",
]

"""Every message that a browser can receive. An undeclared field is a bug: it fails at construction.

Messages say *what changed*; the client fetches what it is. Only metric points and the turns of an open
trajectory carry data, because fetching them would be a storm.

Topics: `p{project}.runs` (the list), `p{project}.run.{id}`, `p{project}.trajectory.{id}`, `p{project}.fleet`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema


class _Event(BaseModel):
    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="strings")


class RunChanged(_Event):
    type: Literal["run_changed"] = "run_changed"
    run: int
    status: str


class StageChanged(_Event):
    type: Literal["stage_changed"] = "stage_changed"
    run: int
    stage: int
    status: str


class StepChanged(_Event):
    type: Literal["step_changed"] = "step_changed"
    run: int
    step: int
    status: str


class TrajectoryChanged(_Event):
    type: Literal["trajectory_changed"] = "trajectory_changed"
    run: int
    trajectory: int
    status: str


class EventAdded(_Event):
    type: Literal["event_added"] = "event_added"
    run: int
    at: datetime
    level: str
    sentence: str


# What JSON cannot hold comes as a word (ser_json_inf_nan).
_FLOAT_OR_WORD = {
    "anyOf": [{"type": "number"}, {"type": "string", "enum": ["NaN", "Infinity", "-Infinity"]}]
}


class MetricPointData(_Event):
    name: str
    resume: int
    step: int
    value: Annotated[float, WithJsonSchema(_FLOAT_OR_WORD)]
    at: datetime


class MetricsAdded(_Event):
    type: Literal["metrics_added"] = "metrics_added"
    run: int
    points: list[MetricPointData]


class TurnsAdded(_Event):
    """Turns of an attempt whose trajectory somebody has open: indices from..to, fetched by range."""

    type: Literal["turns_added"] = "turns_added"
    trajectory: int
    attempt: int
    first_index: int
    last_index: int


class FleetChanged(_Event):
    """A worker, engine or sandbox list of the project is no longer what it was."""

    type: Literal["fleet_changed"] = "fleet_changed"
    what: Literal["workers", "engines", "sandboxes", "failures"]


class Beacon(_Event):
    """What PostgreSQL holds for a topic: a client that is behind fetches."""

    type: Literal["beacon"] = "beacon"
    topic: str
    cursors: dict[str, int]


_AnyEvent = (
    RunChanged
    | StageChanged
    | StepChanged
    | TrajectoryChanged
    | EventAdded
    | MetricsAdded
    | TurnsAdded
    | FleetChanged
    | Beacon
)
LiveEvent = Annotated[_AnyEvent, Field(discriminator="type")]


class Subscribed(_Event):
    """The topic is open: its beacon follows, then what changes."""

    type: Literal["subscribed"] = "subscribed"
    topic: str


class Refused(_Event):
    """The topic does not exist for this user, or the connection has too many."""

    type: Literal["refused"] = "refused"
    topic: str
    code: Literal["not_found", "too_many_topics"]


ServerMessage = Annotated[_AnyEvent | Subscribed | Refused, Field(discriminator="type")]


class Subscribe(_Event):
    subscribe: str


class Unsubscribe(_Event):
    unsubscribe: str


ClientMessage = Subscribe | Unsubscribe


def runs_topic(project_id: int) -> str:
    return f"p{project_id}.runs"


def run_topic(project_id: int, run_id: int) -> str:
    return f"p{project_id}.run.{run_id}"


def trajectory_topic(project_id: int, trajectory_id: int) -> str:
    return f"p{project_id}.trajectory.{trajectory_id}"


def fleet_topic(project_id: int) -> str:
    return f"p{project_id}.fleet"

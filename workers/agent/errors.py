"""How a trajectory ends, and the exceptions that steer the loop.

    AgentFlow
    ├── Stop         the policy's trajectory is over, for one stop reason of domain.md: graded
    ├── FormatError  the output holds no action; its text is the observation, the loop goes on
    └── Cancelled    nobody wants the trajectory any more: no reward, not a failure

What the infrastructure did wrong is a `sandboxes.failures.Failure` and passes through the loop
untouched.
"""

from __future__ import annotations

from enum import StrEnum, auto


class StopReason(StrEnum):
    """Why a completed trajectory ended; each may be graded and trained."""

    SUBMITTED = auto()
    TURN_CAP = auto()
    TOKEN_CAP = auto()
    TURN_TOKEN_CAP = auto()
    TIME_CAP = auto()
    NO_ACTION = auto()
    LOOP = auto()


class AgentFlow(Exception):
    """Base of what the loop itself raises: control flow, not errors."""


class Stop(AgentFlow):
    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason = reason


class FormatError(AgentFlow):
    def __init__(self, observation: str) -> None:
        super().__init__(observation)
        self.observation = observation


class Cancelled(AgentFlow):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

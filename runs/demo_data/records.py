"""What a simulated run consists of. Times are seconds since the run began."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from runs.demo_data.behaviour import Behaviour
from runs.demo_data.faults import Fault


@dataclass(eq=False, slots=True)
class AttemptPlan:
    member: MemberPlan
    number: int
    created_at: float
    behaviour: Behaviour
    driver: str
    not_before: float | None = None
    fault: Fault | None = None
    is_suspect: bool = False
    is_attributed: bool = False
    status: str = "queued"
    cancel_reason: str = ""
    started_at: float | None = None
    finished_at: float | None = None
    engine: int = 0
    num_turns: int = 0
    version_min: int | None = None
    version_max: int | None = None
    num_llm_errors: int = 0

    def timings(self) -> dict[str, float]:
        """Seconds by stage, up to where it got."""
        if self.started_at is None or self.finished_at is None:
            return {}
        b = self.behaviour
        left = self.finished_at - self.started_at
        found = {"queue": self.started_at - self.created_at}
        for name, seconds in (("start", b.start_s), ("setup", b.setup_s)):
            found[name] = min(seconds, left)
            left -= found[name]
        found["llm"] = float(b.llm_s[: self.num_turns].sum())
        found["exec"] = float(b.exec_s[: self.num_turns].sum())
        if self.status == "completed" or (self.fault and self.fault.at == (1.0, 1.0)):
            found["verify"] = max(0.0, left - found["llm"] - found["exec"])
        found["teardown"] = b.teardown_s
        return {name: round(seconds, 3) for name, seconds in found.items()}


@dataclass(eq=False, slots=True)
class MemberPlan:
    """A trajectory."""

    group: GroupPlan
    index: int
    created_at: float
    is_solved: bool
    status: str = "open"
    reward: float | None = None
    advantage: float | None = None
    finished_at: float | None = None
    attempts: list[AttemptPlan] = field(default_factory=list)

    @property
    def last(self) -> AttemptPlan:
        return self.attempts[-1]


@dataclass(eq=False, slots=True)
class GroupPlan:
    stage: StagePlan
    index: int
    task: int
    """Place of the task in its task set."""
    resume: int
    opened_version: int
    opened_at: float
    slowness: float
    is_broken: bool = False
    """Its task has no working verifier."""
    members: list[MemberPlan] = field(default_factory=list)
    status: str = "open"
    drop_reason: str = ""
    num_ended: int = 0
    num_valid: int | None = None
    reward_mean: float | None = None
    reward_std: float | None = None
    oldest_version: int | None = None
    step: StepPlan | None = None
    ready_at: float | None = None
    finished_at: float | None = None

    @property
    def is_live(self) -> bool:
        return self.status in ("open", "ready")


@dataclass(eq=False, slots=True)
class StepPlan:
    stage: StagePlan
    index: int
    resume: int
    trained_version: int
    started_at: float
    status: str = "collecting"
    published_version: int | None = None
    groups: list[GroupPlan] = field(default_factory=list)
    """Those that it claimed; after a roll-back they may belong to another step."""
    consumed: list[MemberPlan] = field(default_factory=list)
    reward_mean: float | None = None
    wait_s: float = 0.0
    logprob_s: float = 0.0
    update_s: float = 0.0
    publish_s: float = 0.0
    trained: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    finished_at: float | None = None


@dataclass(eq=False, slots=True)
class StagePlan:
    index: int
    kind: str
    name: str
    started_at: float = 0.0
    finished_at: float = 0.0
    weight_version: int = 0
    num_steps: int = 0
    num_steps_done: int = 0
    num_opened: int = 0
    groups: list[GroupPlan] = field(default_factory=list)
    steps: list[StepPlan] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class VersionPlan:
    version: int
    parent: int | None
    resume: int
    step: int
    at: float
    copies: int | None = None
    """A roll-back publishes the weights of an older version once more."""


@dataclass(slots=True)
class CheckpointPlan:
    stage: StagePlan
    step: int
    resume: int
    version: int
    at: float
    status: str = "complete"


@dataclass(frozen=True, slots=True)
class Sentence:
    at: float
    kind: str
    text: str
    level: str = "info"
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Point:
    name: str
    resume: int
    step: int
    value: float
    at: float


@dataclass(slots=True)
class EnginePlan:
    index: int
    started_at: float
    lost_at: float | None = None


def output_tokens(attempt: AttemptPlan) -> int:
    return int(attempt.behaviour.output_tokens[: attempt.num_turns].sum())

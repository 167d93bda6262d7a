"""What a run waits for: the share of its last steps that the trainer spent waiting for groups. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Side = Literal["rollout", "trainer", "balanced", "none"]

WINDOW = 10
ROLLOUT_BOUND = 0.5
"""The alert rule on a starving trainer has the same threshold."""
TRAINER_BOUND = 0.1
LONE = 4
"""With so many steps, one that makes up half of the wait is named: it is no habit."""


@dataclass(frozen=True)
class StepTimes:
    """Seconds of one finished step; publishing is not part of its sum."""

    wait_s: float
    logprob_s: float
    update_s: float

    @property
    def total_s(self) -> float:
        return self.wait_s + self.logprob_s + self.update_s


@dataclass(frozen=True)
class Verdict:
    """bound is the side that the other one waits for; wait_share is None without a step."""

    bound: Side
    wait_share: float | None
    num_steps: int
    sentence: str


def bottleneck(steps: Sequence[StepTimes], *, num_ready: int) -> Verdict:
    """steps: finished ones, oldest first; num_ready: ready groups that wait for the trainer now."""
    recent = steps[-WINDOW:]
    total = sum(step.total_s for step in recent)
    if not recent or total <= 0:
        return Verdict("none", None, 0, "No step has finished yet, so there is nothing to compare.")
    n = len(recent)
    wait = sum(step.wait_s for step in recent)
    share = wait / total
    over = f"the last {n} steps" if n > 1 else "the one finished step"
    longest = max(step.wait_s for step in recent)
    is_lone = n >= LONE and longest > wait / 2
    facts = (
        f"the trainer waited {wait / n:.1f} of {total / n:.1f} s a step ({share:.0%}) over {over}"
        + (f", {longest / wait:.0%} of it in one of them" if is_lone else "")
    )
    if share >= ROLLOUT_BOUND:
        return Verdict("rollout", share, n, f"Rollout-bound: {facts}; faster rollouts speed it up.")
    if share <= TRAINER_BOUND:
        queue = f"{num_ready} ready group{'s wait' if num_ready != 1 else ' waits'} for it"
        return Verdict("trainer", share, n, f"Trainer-bound: {facts}; {queue}.")
    return Verdict("balanced", share, n, f"Balanced: {facts}.")

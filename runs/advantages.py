"""Group statistics and advantages over the valid members of a group. Pure, standard library only.

Computed once, when a group is ready; stored with the group and sent to the trainer with the batch.

    grpo     (r - mean) / (std + 1e-6)       DeepSeekMath, arXiv:2402.03300; std with n - 1 (Miles)
    dr_grpo  r - mean                        Dr. GRPO, arXiv:2503.20783
    rloo     r - mean of the other members   RLOO, arXiv:2402.14740

A member whose reward is None is invalid (the infrastructure failed): it has no advantage and does
not vote in the mean. A group whose valid rewards are all equal has advantage exactly 0, whatever
rounding the mean would leave.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Estimator = Literal["grpo", "dr_grpo", "rloo"]

STD_EPSILON = 1e-6


@dataclass(frozen=True)
class GroupStatistics:
    """Over valid members; mean is NaN when there is none, std when there are fewer than two."""

    num_members: int
    num_valid: int
    mean: float
    std: float
    is_zero_variance: bool
    """At least one valid member and all valid rewards equal: no gradient comes from this group."""


def group_statistics(rewards: Sequence[float | None]) -> GroupStatistics:
    """Raises ValueError for a reward that is not finite: it must have been stored as None."""
    valid = _valid(rewards)
    mean = math.fsum(valid) / len(valid) if valid else math.nan
    is_zero_variance = bool(valid) and min(valid) == max(valid)
    if len(valid) < 2:
        std = math.nan
    elif is_zero_variance:
        std = 0.0
    else:
        std = math.sqrt(math.fsum((r - mean) ** 2 for r in valid) / (len(valid) - 1))
    return GroupStatistics(len(rewards), len(valid), mean, std, is_zero_variance)


def default_min_valid(group_size: int) -> int:
    """Half of the group, rounded up, never below the two that a baseline needs."""
    return max(2, math.ceil(group_size / 2))


def group_advantages(
    rewards: Sequence[float | None],
    estimator: Estimator = "grpo",
    *,
    min_valid: int | None = None,
) -> list[float | None]:
    """One advantage per member, in the members' order; None for invalid members.

    Raises ValueError if fewer than min_valid members (default: `default_min_valid`) are valid: such
    a group is dropped, not trained.
    """
    stats = group_statistics(rewards)
    needed = default_min_valid(len(rewards)) if min_valid is None else max(2, min_valid)
    if stats.num_valid < needed:
        raise ValueError(
            f"{stats.num_valid} of {stats.num_members} members are valid, {needed} are needed"
        )
    if stats.is_zero_variance:
        return [None if r is None else 0.0 for r in rewards]
    match estimator:
        case "grpo":
            scale = 1 / (stats.std + STD_EPSILON)
        case "dr_grpo":
            scale = 1.0
        case "rloo":
            # r - (sum - r)/(n - 1)  =  n/(n - 1) · (r - mean)
            scale = stats.num_valid / (stats.num_valid - 1)
        case _:
            raise ValueError(f"unknown advantage estimator {estimator!r}")
    return [None if r is None else scale * (r - stats.mean) for r in rewards]


def _valid(rewards: Sequence[float | None]) -> list[float]:
    valid = [r for r in rewards if r is not None]
    if not all(math.isfinite(r) for r in valid):
        raise ValueError("a reward is not finite")
    return valid

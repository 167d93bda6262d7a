"""The figures of a simulated step, computed from its trajectories as runs.selectors.steps computes them from rows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from statistics import fmean

import numpy as np

from runs.demo_data.curves import training_metrics
from runs.demo_data.records import StepPlan, output_tokens
from runs.demo_data.shape import Shape
from runs.statistics import tail_share


def trained(
    rng: np.random.Generator, shape: Shape, step: StepPlan, *, is_broken: bool
) -> dict[str, float]:
    """What the trainer says of the step."""
    tokens = [int(m.last.behaviour.output_tokens.sum()) for m in step.consumed]
    lags = {
        max(0, step.trained_version - version)
        for m in step.consumed
        for version in (m.last.version_min, m.last.version_max)
        if version is not None
    }
    return training_metrics(
        rng,
        step=step.index,
        num_steps=shape.num_steps,
        is_zero_gradient=not any(g.reward_std for g in step.groups),
        is_broken=is_broken,
        lags=sorted(lags)[:8],
        trained_tokens=sum(tokens),
        mean_tokens=fmean(tokens),
        update_s=step.update_s,
        learning_rate=shape.learning_rate,
    )


def rolled_out(step: StepPlan, completed_at: Sequence[float]) -> dict[str, float]:
    """As runs.selectors.steps.rollout_metrics computes them from rows."""
    members = [m for g in step.groups for m in g.members]
    valid = step.consumed
    began = min(m.created_at for m in members)
    assert step.finished_at is not None
    until = step.finished_at
    num = bisect_right(completed_at, until) - bisect_right(completed_at, until - 120.0)
    found = {
        "rollout/groups_mixed": float(sum(1 for g in step.groups if g.reward_std)),
        "rollout/valid_share": len(valid) / len(members),
        "reward/mean": fmean(m.reward or 0.0 for m in valid),
        "rollout/turns_mean": fmean(m.last.num_turns for m in valid),
        "rollout/output_tokens_mean": fmean(output_tokens(m.last) for m in valid),
        "rollout/tail_share": tail_share(
            [m.finished_at - began for m in members if m.finished_at is not None]
        ),
        "rollout/trajectories_per_h": num * 30.0,
    }
    return found | _selection(step) | _staleness(step)


def _selection(step: StepPlan) -> dict[str, float]:
    stage = step.stage
    recent = stage.groups[-600:]
    finished = [m for g in recent for m in g.members if m.status != "open"]
    discarded = [m for g in recent if g.status == "dropped" for m in g.members]
    values: dict[str, float] = {}
    for name, members in (
        ("finished", finished),
        ("consumed", [m for g in step.groups for m in g.members]),
        ("discarded", [m for m in discarded if m.status != "open"]),
    ):
        if members:
            values[f"rollout/selection_bias/{name}_turns"] = fmean(
                m.last.num_turns for m in members
            )
        rewards = [m.reward for m in members if m.reward is not None]
        if rewards:
            values[f"rollout/selection_bias/{name}_reward"] = fmean(rewards)
    return values


def _staleness(step: StepPlan) -> dict[str, float]:
    """As runs.selectors.steps.staleness_of computes it from rows."""
    rows = [
        (m.last.version_min, m.last.version_max, output_tokens(m.last))
        for m in step.consumed
        if m.last.version_min is not None and m.last.version_max is not None
    ]
    total = sum(row[2] for row in rows) or 1
    ages = [step.trained_version - row[0] for row in rows]
    return {
        "rollout/staleness_mean": sum(a * r[2] for a, r in zip(ages, rows, strict=True)) / total,
        "rollout/staleness_max": float(max(ages)),
        "rollout/staleness_in_flight": fmean(row[1] - row[0] for row in rows),
        "rollout/staleness_in_queue": fmean(step.trained_version - row[1] for row in rows),
    }

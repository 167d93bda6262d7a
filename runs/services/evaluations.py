"""The result of an evaluation stage, from its rows."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from datetime import datetime
from typing import Any

from runs.models import Stage, Trajectory
from runs.services.stages import finish_stage
from runs.statistics import clustered_mean, paired_difference


def rewards_by_task(stage: Stage) -> dict[str, list[float | None]]:
    """Per task key its scheduled trajectories' rewards; None where the infrastructure failed."""
    rows = (
        Trajectory.objects.filter(stage=stage)
        .exclude(group__status="dropped")
        .order_by("task__key", "group", "index")
        .values_list("task__key", "reward")
    )
    rewards: dict[str, list[float | None]] = defaultdict(list)
    for key, reward in rows:
        rewards[key].append(reward)
    return dict(rewards)


def evaluate(rewards: dict[str, list[float | None]]) -> dict[str, Any]:
    """pass@1 with its interval. The headline counts missing attempts as unresolved; beside it the valid-only
    figure, and the band that the invalid ones could make of it (all failed ... all solved)."""
    headline = [sum(r or 0.0 for r in task) / len(task) for task in rewards.values()]
    best = [sum(1.0 if r is None else r for r in task) / len(task) for task in rewards.values()]
    valid = [
        sum(r for r in task if r is not None) / sum(r is not None for r in task)
        for task in rewards.values()
        if any(r is not None for r in task)
    ]
    estimate = clustered_mean(headline)
    every = [reward for task in rewards.values() for reward in task]
    return {
        "pass_at_1": estimate.mean,
        "low": estimate.low,
        "high": estimate.high,
        "tasks": len(rewards),
        "attempts": sum(reward is not None for reward in every),
        "invalid": sum(reward is None for reward in every),
        "valid_only": clustered_mean(valid).mean if valid else None,
        "if_invalid_solved": sum(best) / len(best),
        "per_task": dict(zip(rewards, headline, strict=True)),
    }


def compared(result: dict[str, Any], before: Stage | None) -> dict[str, Any]:
    """The result with its paired difference to an earlier evaluation of the same tasks."""
    if before is None or before.result.get("per_task", {}).keys() != result["per_task"].keys():
        return result
    first, second = before.result["per_task"], result["per_task"]
    difference = paired_difference([first[k] for k in second], list(second.values()))
    return {**result, "paired": {"against": before.name, **asdict(difference)}}


def sentence_of(name: str, result: dict[str, Any]) -> str:
    return (
        f"Evaluation {name}: pass@1 {result['pass_at_1']:.3f} "
        f"[{result['low']:.3f}, {result['high']:.3f}] on {result['tasks']} tasks, "
        f"{result['attempts']} valid attempts, {result['invalid']} invalid."
    )


def finish_evaluation(stage: Stage, *, now: datetime) -> None:
    """running -> succeeded, with the result; the paired difference to the evaluation before it."""
    before = (
        stage.run.stages.filter(kind=Stage.Kind.EVAL, index__lt=stage.index, status="succeeded")
        .order_by("-index")
        .first()
    )
    result = compared(evaluate(rewards_by_task(stage)), before)
    finish_stage(stage, result, now=now, sentence=sentence_of(stage.name, result))

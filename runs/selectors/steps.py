"""Figures of a step's batch. Populations: a name says whose mean it is; quality reads valid members only."""

from __future__ import annotations

from datetime import datetime, timedelta
from statistics import fmean

from django.db.models import Avg, Count, Q

from runs.models import Group, Run, Step, Trajectory
from runs.statistics import tail_share


def rollout_metrics(step: Step) -> dict[str, float]:
    """reward/*, rollout/* of the trajectories that the step consumed and of those discarded meanwhile."""
    members = list(
        Trajectory.objects.filter(group__step=step).values_list(
            "status", "reward", "num_turns", "output_tokens", "created_at", "finished_at"
        )
    )
    valid = [m for m in members if m[0] == Trajectory.Status.COMPLETED]
    groups = list(step.groups.values_list("reward_std", flat=True))
    metrics = {
        "rollout/groups_mixed": float(sum(1 for std in groups if std)),
        "rollout/valid_share": len(valid) / len(members) if members else 1.0,
    }
    if valid:
        metrics |= {
            "reward/mean": fmean(m[1] or 0.0 for m in valid),
            "rollout/turns_mean": fmean(m[2] for m in valid),
            "rollout/output_tokens_mean": fmean(m[3] for m in valid),
        }
        began = min(m[4] for m in members)
        metrics["rollout/tail_share"] = tail_share(
            [(m[5] - began).total_seconds() for m in members if m[5]]
        )
    metrics["rollout/trajectories_per_h"] = completed_per_h(step.run, until=step.finished_at)
    return metrics | _selection(step)


def completed_per_h(
    run: Run, *, until: datetime | None, window: timedelta = timedelta(minutes=2)
) -> float:
    """Completed trajectories an hour in the window before `until`, or since the run's first one."""
    if until is None:
        return 0.0
    since = max(until - window, run.started_at or until - window)
    num = Trajectory.objects.filter(
        run=run, status=Trajectory.Status.COMPLETED, finished_at__gt=since, finished_at__lte=until
    ).count()
    seconds = (until - since).total_seconds()
    return num / seconds * 3600 if seconds > 0 else 0.0


def _selection(step: Step) -> dict[str, float]:
    """Members are not missing at random (invariant 2): turns and reward of finished, consumed, discarded."""
    finished = Trajectory.objects.filter(stage=step.stage_id).exclude(status="open")
    population = {
        "finished": Q(),
        "consumed": Q(group__step=step),
        "discarded": Q(group__status=Group.Status.DROPPED),
    }
    values: dict[str, float] = {}
    for name, where in population.items():
        row = finished.filter(where).aggregate(
            turns=Avg("num_turns"), reward=Avg("reward"), num=Count("pk")
        )
        if row["num"]:
            values[f"rollout/selection_bias/{name}_turns"] = row["turns"] or 0.0
            if row["reward"] is not None:
                values[f"rollout/selection_bias/{name}_reward"] = row["reward"]
    return values


def staleness_of(step: Step) -> dict[str, float]:
    """Weight versions between the trainer and a trajectory's oldest token, and where they were spent.

    in_flight: newest minus oldest version of its own tokens; in_queue: trainer minus newest.
    """
    rows = [
        (low, high, num)
        for low, high, num in Trajectory.objects.filter(
            group__step=step, status=Trajectory.Status.COMPLETED
        ).values_list("version_min", "version_max", "output_tokens")
        if low is not None and high is not None
    ]
    if not rows:
        return {}
    total = sum(row[2] for row in rows) or 1
    ages = [step.trained_version - row[0] for row in rows]
    return {
        "rollout/staleness_mean": sum(a * r[2] for a, r in zip(ages, rows, strict=True)) / total,
        "rollout/staleness_max": float(max(ages)),
        "rollout/staleness_in_flight": fmean(row[1] - row[0] for row in rows),
        "rollout/staleness_in_queue": fmean(step.trained_version - row[1] for row in rows),
    }

"""What a finished run says of itself: the table of its evaluations and the figures a script reads."""

from __future__ import annotations

from typing import Any

from runs.models import Run, Stage, Step, Trajectory
from runs.recipe import EvalStage, parse
from runs.selectors.runs import trained_twice
from runs.selectors.task_sets import task_set_named

STAGE_KEYS = ("pass_at_1", "low", "high", "tasks", "attempts", "invalid", "valid_only", "paired")


def run_report(run: Run, *, wall_s: float, cpu_s: float) -> dict[str, Any]:
    """{stages: [{name, pass_at_1, low, high, tasks, attempts, invalid}], trajectories, infra_failures, ...}."""
    ended = Trajectory.objects.filter(run=run)
    evaluated = run.stages.filter(kind=Stage.Kind.EVAL, status=Stage.Status.SUCCEEDED)
    return {
        "run": run.pk,
        "status": run.status,
        "seed": run.seed,
        "stages": [
            {"name": s.name} | {key: s.result[key] for key in STAGE_KEYS if key in s.result}
            for s in evaluated.order_by("index")
        ],
        "baselines": baselines_of(run),
        "trajectories": ended.filter(status=Trajectory.Status.COMPLETED).count(),
        "infra_failures": run.attempts.filter(status="failed").count(),
        "trained_twice": trained_twice(run.pk),
        "steps": Step.objects.filter(run=run, status=Step.Status.DONE).count(),
        "resumes": run.resume,
        "wall_s": round(wall_s, 1),
        "cpu_s": round(cpu_s, 1),
    }


def baselines_of(run: Run) -> dict[str, Any]:
    """The reference lines of the task set that the run's last evaluation used."""
    recipe = parse(run.recipe)
    for stage in reversed(recipe.stages):
        if isinstance(stage, EvalStage):
            return dict(task_set_named(run.project, recipe.task_sets[stage.task_set]).baselines)
    return {}


def report_table(report: dict[str, Any]) -> str:
    """The evaluations and their reference lines as lines of text."""
    lines = [f"{'stage':<28}{'pass@1':>8}   95 % interval     tasks  attempts  invalid"]
    for stage in report["stages"]:
        lines.append(
            f"{stage['name']:<28}{stage['pass_at_1']:>8.3f}   "
            f"[{stage['low']:.3f}, {stage['high']:.3f}]  {stage['tasks']:>7}{stage['attempts']:>10}"
            f"{stage['invalid']:>9}"
        )
        paired = stage.get("paired")
        if paired:
            change = f"  change against {paired['against']}"
            lines.append(
                f"{change:<28}{paired['mean']:>+8.3f}   [{paired['low']:+.3f}, {paired['high']:+.3f}]"
            )
    for name, line in report["baselines"].items():
        lines.append(f"{name:<28}{line['mean']:>8.3f}   [{line['low']:.3f}, {line['high']:.3f}]")
    return "\n".join(lines)

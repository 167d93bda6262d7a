"""Caps that this installation has, measured: what is configured, what is used now. The peak is kept by the row.

Called every few seconds while a run is active; a driver that knows caps of its own records them the same way.
"""

from __future__ import annotations

from datetime import datetime

from django.db.models import Sum

from controlplane.accounts.models import Project
from runs.models import Attempt, Engine, Group, Run, Worker
from runs.recipe import RlStage
from runs.selectors.recipes import recipe_of
from sandboxes.models import Sandbox
from sandboxes.services import record_limit


def measure_limits(*, now: datetime) -> None:
    """One row a cap: of all workers together, then of each active run. An unchanged figure is measured anew."""
    active = list(Run.objects.filter(status__in=["running", "paused", "stopping"]))
    for project in Project.objects.filter(runs__in=active).distinct():
        _measure_workers(project, now)
    for run in active:
        _measure_run(run, now)


def _measure_workers(project: Project, now: datetime) -> None:
    slots = dict(
        Worker.objects.filter(status=Worker.Status.LIVE)
        .values_list("kind")
        .annotate(Sum("num_slots"))
    )
    busy = Attempt.objects.filter(status__in=Attempt.IN_FLIGHT).count()
    record_limit(
        project.pk,
        layer="workers",
        name="rollout slots",
        configured=slots.get(Worker.Kind.ROLLOUT, 0),
        measured=busy,
        unit="attempts",
        now=now,
    )
    served = Engine.objects.filter(status__in=Engine.LIVE, lease_token__isnull=False).count()
    record_limit(
        project.pk,
        layer="workers",
        name="engine slots",
        configured=slots.get(Worker.Kind.ENGINE, 0),
        measured=served,
        unit="engines",
        now=now,
    )


def _measure_run(run: Run, now: datetime) -> None:
    recipe = recipe_of(run.pk)
    attempts = Attempt.objects.filter(run=run, status__in=Attempt.IN_FLIGHT).count()
    boxes = (
        Sandbox.objects.filter(run_id=run.pk)
        .exclude(status__in=[Sandbox.Status.GONE, Sandbox.Status.FAILED])
        .count()
    )
    loads = [
        load
        for load in Engine.objects.filter(run=run, status__in=Engine.LIVE).values_list(
            "load", flat=True
        )
        if load
    ]
    num_engines = len(recipe.engines.urls) or recipe.engines.num_engines
    figures: list[tuple[str, str, float, float | None, str]] = [
        ("rollout", "max_in_flight", recipe.rollout.max_in_flight, attempts, "attempts"),
        ("sandbox", "max_concurrent", recipe.sandbox.max_concurrent, boxes, "sandboxes"),
        (
            "engine",
            "max_running",
            num_engines * recipe.engines.max_running,
            _sum(loads, "running"),
            "requests",
        ),
        (
            "engine",
            "max_queued",
            num_engines * recipe.engines.max_queued,
            _sum(loads, "queued"),
            "requests",
        ),
        (
            "engine",
            "longest sequence",
            recipe.model.context_length,
            _max(loads, "longest_tokens"),
            "tokens",
        ),
    ]
    stage = run.stages.filter(status="running", kind="rl").first()
    if stage is not None:
        plan = recipe.stages[stage.index]
        assert isinstance(plan, RlStage)
        held = stage.groups.filter(status__in=[Group.Status.OPEN, Group.Status.READY]).count()
        cap = (plan.max_staleness + 1) * plan.groups_per_step
        figures.append(("admission", "open and ready groups", cap, held, "groups"))
    for layer, name, configured, measured, unit in figures:
        record_limit(
            run.project_id,
            layer=layer,
            name=name,
            scope=f"run {run.pk}",
            configured=configured,
            measured=measured,
            unit=unit,
            now=now,
        )


def _sum(loads: list[dict[str, float]], name: str) -> float | None:
    """None where no engine says it."""
    said = [load[name] for load in loads if name in load]
    return sum(said) if said else None


def _max(loads: list[dict[str, float]], name: str) -> float | None:
    return max((load[name] for load in loads if name in load), default=None)

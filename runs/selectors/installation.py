"""Counts over the whole installation, for an operator's monitoring (no actor: /metrics has its own guard)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import Count, QuerySet

from runs.models import Attempt, Engine, Run, Worker
from sandboxes.models import FailureGroup, Sandbox

Gauge = tuple[str, str, list[str], dict[tuple[str, ...], float]]


def gauges() -> Iterator[Gauge]:
    """(name, help, label names, {label values: count}); a status without rows is 0, not absent."""
    yield (
        "runs",
        "Runs by status.",
        ["status"],
        _counted(Run.objects.all(), {(status,): 0 for status in Run.Status.values}, "status"),
    )
    in_flight = Attempt.objects.filter(status__in=["queued", *Attempt.IN_FLIGHT])
    yield (
        "attempts",
        "Attempts that have not ended, by status.",
        ["status"],
        _counted(in_flight, {(s,): 0 for s in ("queued", *Attempt.IN_FLIGHT)}, "status"),
    )
    live = Worker.objects.filter(status=Worker.Status.LIVE)
    yield (
        "workers",
        "Live worker processes by kind.",
        ["kind"],
        _counted(live, {(kind,): 0 for kind in Worker.Kind.values}, "kind"),
    )
    engines = Engine.objects.filter(status__in=Engine.LIVE)
    yield (
        "engines",
        "Inference servers that have not ended, by status.",
        ["status"],
        _counted(engines, {(status,): 0 for status in Engine.LIVE}, "status"),
    )
    boxes = Sandbox.objects.exclude(status__in=["gone", "failed"])
    yield (
        "sandboxes",
        "Sandboxes that are not gone, by driver and status.",
        ["driver", "status"],
        _counted(boxes, {}, "driver", "status"),
    )
    failures: dict[tuple[str, ...], float] = {}
    for stage, kind, number in FailureGroup.objects.values_list("stage", "kind", "num_failures"):
        failures[stage, kind] = failures.get((stage, kind), 0) + number
    yield (
        "failures",
        "Infrastructure failures so far, by stage and class.",
        ["stage", "kind"],
        failures,
    )


def _counted(
    query: QuerySet[Any], empty: dict[tuple[str, ...], float], *fields: str
) -> dict[tuple[str, ...], float]:
    found = query.order_by().values_list(*fields).annotate(Count("id"))
    return {**empty, **{tuple(row[:-1]): row[-1] for row in found}}

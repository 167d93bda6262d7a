"""Curves of a run."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Literal

from typing_extensions import TypeAliasType, TypedDict

from controlplane.accounts.access import Actor
from runs.metrics_catalogue import unit_of
from runs.models import MetricPoint
from runs.selectors.runs import visible_run

NonFinite = TypeAliasType("NonFinite", Literal["NaN", "Infinity", "-Infinity"])


class MetricPointRow(TypedDict):
    """One point; what JSON cannot hold is a word, so that no NaN is ever lost."""

    resume: int
    step: int
    value: float | NonFinite
    at: datetime


class MetricSeriesRow(TypedDict):
    """A curve in the order of its cursor (resume, step)."""

    name: str
    unit: str
    points: list[MetricPointRow]


class MetricsRow(TypedDict):
    series: list[MetricSeriesRow]


def metrics(actor: Actor, *, run: int, name: list[str] | None = None) -> MetricsRow:
    """The named curves, or all of the run; a name without points gives an empty curve. Raises NotFound."""
    query = MetricPoint.objects.filter(run=visible_run(actor, run))
    if name:
        query = query.filter(name__in=name)
    curves: dict[str, list[MetricPointRow]] = {each: [] for each in name or []}
    points = query.order_by("name", "resume", "step")
    for curve, resume, step, value, at in points.values_list(
        "name", "resume", "step", "value", "at"
    ).iterator(chunk_size=5_000):
        curves.setdefault(curve, []).append(
            MetricPointRow(resume=resume, step=step, value=in_json(value), at=at)
        )
    return MetricsRow(
        series=[
            MetricSeriesRow(name=curve, unit=unit_of(curve), points=found)
            for curve, found in curves.items()
        ]
    )


def in_json(value: float) -> float | NonFinite:
    """What JSON cannot hold is a word."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"

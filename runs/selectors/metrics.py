"""Curves of a run: their names and their stored points."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any, Literal

from django.db.models import Count
from typing_extensions import TypeAliasType, TypedDict

from controlplane.accounts.access import Actor
from runs.metrics_catalogue import (
    CATALOGUE,
    GROUPS,
    Population,
    ThresholdRow,
    definition_of,
    group_of,
    label_of,
    thresholds_of,
    unit_of,
)
from runs.models import MetricPoint, Run
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


class MetricNameRow(TypedDict):
    """A curve that a run has; `last` is the last value of its newest life. thresholds: lines to hold it against."""

    name: str
    label: str
    group: str
    unit: str
    definition: str
    population: Population
    thresholds: list[ThresholdRow]
    num_points: int
    last: float | NonFinite
    last_step: int


class MetricNamesRow(TypedDict):
    metrics: list[MetricNameRow]


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
    """What JSON cannot hold as a word."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def metric_names(actor: Actor, *, run: int) -> MetricNamesRow:
    """Every curve that the run has, by group and name. Raises NotFound."""
    found = visible_run(actor, run)
    points = MetricPoint.objects.filter(run=found)
    counts = dict(points.values_list("name").annotate(Count("id")).order_by())
    newest = points.order_by("name", "-resume", "-step").distinct("name")
    last = {point.name: point for point in newest}
    return MetricNamesRow(
        metrics=[
            _name_row(name, num, last[name], found)
            for name, num in sorted(counts.items(), key=in_catalogue_order)
            if name in last
        ]
    )


_PREFIXES = {prefix: place for place, prefix in enumerate(GROUPS)}
_PLACES = {entry["name"]: place for place, entry in enumerate(CATALOGUE)}


def in_catalogue_order(row: tuple[str, Any]) -> tuple[int, int, str]:
    """By group, then as the catalogue has them; a curve that it does not know comes last."""
    name = row[0]
    entry = definition_of(name)
    group = _PREFIXES.get(name.partition("/")[0], len(_PREFIXES))
    return group, _PLACES[entry["name"]] if entry else len(_PLACES), name


def _name_row(name: str, num_points: int, last: MetricPoint, run: Run) -> MetricNameRow:
    entry = definition_of(name)
    return MetricNameRow(
        name=name,
        label=label_of(name),
        group=group_of(name),
        unit=entry["unit"] if entry else "",
        definition=entry["definition"] if entry else "",
        population=entry["population"] if entry else "none",
        thresholds=thresholds_of(name, run.recipe),
        num_points=num_points,
        last=in_json(last.value),
        last_step=last.step,
    )

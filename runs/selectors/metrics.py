"""Curves of a run: their names, their stored points, and what a chart of any width draws of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
from django.db import connection
from django.db.models import Count, Max, Min, OuterRef, Subquery
from typing_extensions import TypeAliasType, TypedDict

from controlplane.accounts.access import Actor
from runs.metrics_catalogue import (
    GROUPS,
    Population,
    ThresholdRow,
    definition_of,
    group_of,
    label_of,
    thresholds_of,
    unit_of,
)
from runs.models import Event, MetricPoint, Run, Step
from runs.selectors.runs import visible_run
from runs.series import (
    Buckets,
    Floats,
    Ints,
    Points,
    Smoothing,
    bucketed,
    effective,
    first_steps,
    points_of,
    smoothed,
)

NonFinite = TypeAliasType("NonFinite", Literal["NaN", "Infinity", "-Infinity"])
XAxis = TypeAliasType(
    "XAxis", Literal["step", "wall", "elapsed", "active_elapsed", "trajectories", "tokens"]
)

TOKENS = "train/tokens"


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


class BucketMarkRow(TypedDict):
    """How many values of one kind JSON could not hold, in the bucket with this index."""

    index: int
    kind: NonFinite
    count: int


class BucketsRow(TypedDict):
    """Columns of equal length, ascending in x, which is that of a bucket's last point.

    last, mean, low and high are over the bucket's finite values, and null where it has none; count is of all.
    """

    x: list[float]
    last: list[float | None]
    mean: list[float | None]
    low: list[float | None]
    high: list[float | None]
    count: list[int]
    non_finite: list[BucketMarkRow]


class SeriesResumeRow(TypedDict):
    """A later life of the trainer, where it begins in this curve. Downtime: from the last sign of the one before."""

    resume: int
    step: int
    x: float
    reason: str
    downtime_s: float


class CentralRow(TypedDict):
    """The 1st and the 99th percentile of the finite values in range."""

    low: float
    high: float


class SeriesRow(TypedDict):
    """A curve's effective history on an axis: the highest resume of each step; `ghosts` is what was superseded.

    is_raw: every bucket is one point. num_points: of the effective history in range; num_unplaced: those that
    have no place on this axis, as SFT steps on trajectories. smooth: from full resolution, at each bucket's end.
    """

    name: str
    label: str
    unit: str
    is_raw: bool
    num_points: int
    num_unplaced: int
    buckets: BucketsRow
    smooth: list[float | None]
    ghosts: BucketsRow
    resumes: list[SeriesResumeRow]
    central: CentralRow | None


class SeriesSetRow(TypedDict):
    x: XAxis
    series: list[SeriesRow]


class SeriesPointRow(TypedDict):
    """One stored point at full resolution; `x` is its place on the axis that was asked for."""

    name: str
    resume: int
    step: int
    at: datetime
    x: float
    value: float | NonFinite
    is_superseded: bool


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
    newest = points.filter(name=OuterRef("name")).order_by("-resume", "-step").values("id")[:1]
    names = points.values("name").annotate(num=Count("id"), newest=Subquery(newest)).order_by()
    counts = {row["name"]: (row["num"], row["newest"]) for row in names}
    last = points.in_bulk([newest for _, newest in counts.values()])
    return MetricNamesRow(
        metrics=[
            _name_row(name, num, last[newest], found)
            for name, (num, newest) in sorted(counts.items(), key=_in_catalogue_order)
        ]
    )


def _in_catalogue_order(row: tuple[str, Any]) -> tuple[int, str]:
    name, prefixes = row[0], list(GROUPS)
    prefix = name.partition("/")[0]
    return (prefixes.index(prefix) if prefix in prefixes else len(prefixes)), name


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


@dataclass
class _Life:
    """One life of a run's trainer; times in seconds since 1970."""

    began: float = math.inf
    ended: float = -math.inf
    first_step: int | None = None


@dataclass
class _Timeline:
    """What a run's steps and events say about places on the axes."""

    start: float
    lives: dict[int, _Life] = field(default_factory=dict)
    steps: list[tuple[int, int]] = field(default_factory=list)
    """(step of a curve, trajectories) of the steps that count."""
    sentences: list[tuple[float, bool, str]] = field(default_factory=list)
    """(when, is a cause, why a trainer was lost or went on)."""

    def see(self, resume: int, began: float, ended: float) -> _Life:
        life = self.lives.setdefault(resume, _Life())
        life.began = min(life.began, began)
        life.ended = max(life.ended, ended)
        return life

    def downtime(self, resume: int) -> float:
        """Seconds between the last sign of all earlier lives and the first of this one."""
        earlier = [life.ended for number, life in self.lives.items() if number < resume]
        return max(0.0, self.lives[resume].began - max(earlier)) if earlier else 0.0

    def reason(self, resume: int) -> str:
        """The last sentence that was said before this life began, a cause rather than the roll-back itself."""
        since = max(
            (life.began for number, life in self.lives.items() if number < resume),
            default=-math.inf,
        )
        until = self.lives[resume].began + 1
        said = [(cause, at, text) for at, cause, text in self.sentences if since < at <= until]
        return max(said)[2] if said else ""


def series(
    actor: Actor,
    *,
    run: int,
    name: list[str] | None = None,
    x: XAxis = "step",
    low: float | None = None,
    high: float | None = None,
    buckets: int = 400,
    smoothing: Smoothing,
) -> SeriesSetRow:
    """The named curves (or all) on an axis between low and high, in at most so many buckets. Raises NotFound."""
    axis, curves = _curves(visible_run(actor, run), name, x)
    return SeriesSetRow(
        x=x,
        series=[
            axis.row(each, points, (low, high), buckets, smoothing)
            for each, points in curves.items()
        ],
    )


def series_points(
    actor: Actor,
    *,
    run: int,
    name: list[str] | None = None,
    x: XAxis = "step",
    low: float | None = None,
    high: float | None = None,
) -> Iterator[list[SeriesPointRow]]:
    """The points that `series` is drawn from, all of them, a list a curve; superseded ones last. Raises NotFound."""
    axis, curves = _curves(visible_run(actor, run), name, x)
    return (axis.points(each, points, (low, high)) for each, points in curves.items())


def _curves(run: Run, name: list[str] | None, x: XAxis) -> tuple[_Axis, dict[str, Points]]:
    wanted = [*dict.fromkeys(name)] if name else None
    stored = _stored(run, [*wanted, TOKENS] if wanted and x == "tokens" else wanted)
    timeline = _timeline(run)
    for points in stored.values():
        for resume in np.unique(points.resume):
            at = points.at[points.resume == resume]
            timeline.see(int(resume), float(at.min()), float(at.max()))
    axis = _Axis(x, timeline, stored.get(TOKENS))
    none = points_of(b"")
    if wanted:
        return axis, {each: stored.get(each, none) for each in wanted}
    return axis, dict(sorted(stored.items(), key=_in_catalogue_order))


_PACKED = """
SELECT name, string_agg(point, ''::bytea) FROM (
  SELECT name, int4send(resume) || int4send(step) || float8send(value)
    || float8send(date_part('epoch', at)) AS point
  FROM runs_metricpoint WHERE run_id = %s AND (%s::text[] IS NULL OR name = ANY(%s))
  ORDER BY name, resume, step
) points GROUP BY name
"""


def _stored(run: Run, names: list[str] | None) -> dict[str, Points]:
    """By name. The database packs the points, so that a hundred thousand of them are one value of one row."""
    with connection.cursor() as cursor:
        cursor.execute(_PACKED, [run.pk, names, names])
        return {name: points_of(bytes(records)) for name, records in cursor.fetchall()}


_CAUSES = {
    "trainer_lost": True,
    "run_resumed": True,
    "trainer_resumed": False,
    "rolled_back": False,
}


def _timeline(run: Run) -> _Timeline:
    timeline = _Timeline(start=run.started_at.timestamp() if run.started_at else math.nan)
    before, total = {}, 0
    for stage, kind, num_steps in run.stages.values_list("id", "kind", "num_steps"):
        before[stage] = total
        total += num_steps if kind == "rl" else 0
    rows = Step.objects.filter(run=run).order_by("stage__index", "resume", "index")
    for stage, index, resume, status, num, began, ended in rows.values_list(
        "stage", "index", "resume", "status", "num_trajectories", "started_at", "finished_at"
    ):
        step = before[stage] + index
        life = timeline.see(resume, began.timestamp(), (ended or began).timestamp())
        life.first_step = min(step, life.first_step or step)
        if status == Step.Status.DONE:
            timeline.steps.append((step, num))
    sft = MetricPoint.objects.filter(run=run, name="sft/loss").values_list("resume")
    for resume, first, last in sft.annotate(Min("at"), Max("at")).order_by():
        timeline.see(resume, first.timestamp(), last.timestamp())
    events = Event.objects.filter(run=run, kind__in=_CAUSES).order_by("id")
    timeline.sentences = [
        (at.timestamp(), _CAUSES[kind], sentence)
        for kind, at, sentence in events.values_list("kind", "at", "sentence")
    ]
    return timeline


class _Axis:
    """Where points lie on one of the axes, and the rows that a chart draws."""

    def __init__(self, kind: XAxis, timeline: _Timeline, tokens: Points | None) -> None:
        self.kind = kind
        self.timeline = timeline
        steps = np.array(timeline.steps, dtype=np.int64).reshape(-1, 2)
        self.steps, self.totals = steps[:, 0], np.cumsum(steps[:, 1])
        if kind == "tokens":
            kept, _ = self.history(TOKENS, tokens or points_of(b""))
            self.steps, self.totals = kept.step, np.nancumsum(kept.value)

    def history(self, name: str, points: Points) -> tuple[Points, Points]:
        """The effective points and the superseded ones. SFT has no steps of its own to go by."""
        known = {
            resume: life.first_step
            for resume, life in self.timeline.lives.items()
            if life.first_step is not None and not _is_sft(name)
        }
        return effective(points, first_steps(points, known))

    def places(self, name: str, points: Points) -> Floats:
        """The x of each point; NaN where the axis has no place for it."""
        if self.kind == "step":
            return points.step.astype(np.float64)
        if self.kind in ("trajectories", "tokens"):
            if _is_sft(name) or not len(self.steps):
                return np.full(len(points), np.nan)
            sums = np.concatenate([[0.0], self.totals])
            return sums[np.searchsorted(self.steps, points.step, side="right")]
        if self.kind == "wall":
            return points.at
        start = self.timeline.start
        if math.isnan(start):
            start = min((life.began for life in self.timeline.lives.values()), default=0.0)
        elapsed = points.at - start
        if self.kind == "active_elapsed":
            for resume in self.timeline.lives:
                elapsed = elapsed - np.where(
                    points.resume >= resume, self.timeline.downtime(resume), 0.0
                )
        return elapsed

    def row(
        self,
        name: str,
        points: Points,
        span: tuple[float | None, float | None],
        num: int,
        smoothing: Smoothing,
    ) -> SeriesRow:
        kept, ghosts = self.history(name, points)
        x = self.places(name, kept)
        order = _ascending_within(x, span)
        drawn = bucketed(x[order], kept.value[order], num)
        ends = np.where(drawn.last_index >= 0, _at(order, drawn.last_index), -1)
        finite = kept.value[order][np.isfinite(kept.value[order])]
        ghost_x = self.places(name, ghosts)
        ghost_order = _ascending_within(ghost_x, span)
        return SeriesRow(
            name=name,
            label=label_of(name),
            unit=unit_of(name),
            is_raw=drawn.is_raw,
            num_points=len(order),
            num_unplaced=int(np.isnan(x).sum()),
            buckets=_buckets_row(drawn),
            smooth=_nullable(smoothed(kept.value, x, smoothing, ends)),
            ghosts=_buckets_row(bucketed(ghost_x[ghost_order], ghosts.value[ghost_order], num)),
            resumes=list(self._resumes(kept, x)),
            central=CentralRow(
                low=float(np.quantile(finite, 0.01)), high=float(np.quantile(finite, 0.99))
            )
            if len(finite)
            else None,
        )

    def points(
        self, name: str, points: Points, span: tuple[float | None, float | None]
    ) -> list[SeriesPointRow]:
        rows = []
        for is_superseded, part in zip((False, True), self.history(name, points), strict=True):
            x = self.places(name, part)
            order = _ascending_within(x, span)
            chosen = part.where(order)
            columns = (chosen.resume, chosen.step, chosen.at, x[order], chosen.value)
            rows += [
                SeriesPointRow(
                    name=name,
                    resume=resume,
                    step=step,
                    at=datetime.fromtimestamp(at, tz=UTC),
                    x=place,
                    value=in_json(value),
                    is_superseded=is_superseded,
                )
                for resume, step, at, place, value in zip(
                    *(column.tolist() for column in columns), strict=True
                )
            ]
        return rows

    def _resumes(self, kept: Points, x: Floats) -> Iterable[SeriesResumeRow]:
        placed = kept.where(~np.isnan(x))
        for resume in np.unique(placed.resume)[1:].tolist():
            first = int(np.argmax(placed.resume == resume))
            yield SeriesResumeRow(
                resume=resume,
                step=int(placed.step[first]),
                x=float(x[~np.isnan(x)][first]),
                reason=self.timeline.reason(resume),
                downtime_s=self.timeline.downtime(resume),
            )


def _is_sft(name: str) -> bool:
    """Its points are of a stage that has no steps of its own and trains on no trajectories."""
    return name.partition("/")[0] == "sft"


def _ascending_within(x: Floats, span: tuple[float | None, float | None]) -> Ints:
    """Indices of the points between both ends, by x."""
    low = -math.inf if span[0] is None else span[0]
    high = math.inf if span[1] is None else span[1]
    chosen = np.flatnonzero((x >= low) & (x <= high))
    return chosen[np.argsort(x[chosen], kind="stable")]


def _at(values: Ints, places: Ints) -> Ints:
    return values[places] if len(values) else places


def _nullable(values: Floats) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values.tolist()]


def _buckets_row(drawn: Buckets) -> BucketsRow:
    kinds: dict[NonFinite, Ints] = {
        "NaN": drawn.nan,
        "Infinity": drawn.plus_inf,
        "-Infinity": drawn.minus_inf,
    }
    return BucketsRow(
        x=drawn.x.tolist(),
        last=_nullable(drawn.last),
        mean=_nullable(drawn.mean),
        low=_nullable(drawn.low),
        high=_nullable(drawn.high),
        count=drawn.count.tolist(),
        non_finite=[
            BucketMarkRow(index=index, kind=kind, count=int(counts[index]))
            for kind, counts in kinds.items()
            for index in np.flatnonzero(counts).tolist()
        ],
    )

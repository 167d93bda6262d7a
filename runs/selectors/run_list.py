"""The list of runs: what a row shows is read for the whole page at once, in the same number of queries."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, cast

from django.db.models import (
    Avg,
    Count,
    Exists,
    F,
    FloatField,
    Max,
    OuterRef,
    QuerySet,
    RowRange,
    Subquery,
    Value,
    Window,
)
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce, Extract, Greatest, RowNumber
from typing_extensions import TypedDict

from controlplane.accounts.access import Actor
from controlplane.pages import Rows
from runs.models import Attempt, Engine, Event, MetricPoint, Run, Stage, Step, Trajectory
from runs.selectors.runs import (
    RATE_WINDOW,
    RUN_ALIASES,
    RUN_FIELDS,
    RunStatus,
    max_in_flight,
    produced_per_h,
    produced_since,
    run_fields,
    sum_of,
    visible_runs,
)
from runs.selectors.stages import (
    STAGE_FIELDS,
    StageKind,
    StageStatus,
    stage_progress,
    task_sets_of,
    trajectory_tallies,
)
from sandboxes.models import Failure

SPARKLINE_POINTS = 40
ALERT_WINDOW = timedelta(hours=24)


class StageBriefRow(TypedDict):
    """A stage in a list of runs."""

    id: int
    index: int
    name: str
    kind: StageKind
    status: StageStatus
    num_done: int
    num_total: int | None
    pass_at_1: float | None


class RunRow(TypedDict):
    """One execution of a recipe, as in a list.

    produced_per_h: completed trajectories per hour over the last ten minutes, or over the whole of an ended run.
    infra_failures of attempts_ended: attempts that the infrastructure lost, of those that completed or were lost.
    reward_mean_10: the 10-step mean reward of steps that count, at most 40 points.
    staleness: the newest step's, in weight versions. errors_24h: error lines of the feed in the last 24 hours.
    """

    id: int
    project: str
    name: str
    is_demo: bool
    status: RunStatus
    wait_sentence: str
    stop_reason: str
    recipe: str
    seed: int
    created_by: str | None
    resume: int
    weight_version: int
    cpu_s: float
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    stages: list[StageBriefRow]
    reward_mean_10: list[float]
    produced_per_h: float | None
    infra_failures: int
    attempts_ended: int
    in_flight: int
    max_in_flight: int
    staleness: float | None
    errors_24h: int
    engines_up: int
    last_heartbeat_at: datetime | None


SORTABLE = {
    "id": "id",
    "name": "name",
    "status": "status",
    "project": "project_slug",
    "recipe": "recipe_name",
    "seed": "seed",
    "created_by": "creator",
    "resume": "resume",
    "weight_version": "weight_version",
    "cpu_s": "cpu_s",
    "created_at": "created_at",
    "started_at": "started_at",
    "finished_at": "finished_at",
    "duration_s": "duration_s",
}
"""The words of `sort` and their columns."""


def runs(
    actor: Actor,
    *,
    now: datetime,
    project: str | None = None,
    status: list[str] | None = None,
    name: str | None = None,
    recipe: list[str] | None = None,
    sort: str | None = None,
) -> Rows[RunRow]:
    """Newest first; `name` is a part of the name."""
    query = visible_runs(actor)
    if project:
        query = query.filter(project__slug=project)
    if status:
        query = query.filter(status__in=status)
    if name:
        query = query.filter(name__icontains=name)
    if recipe:
        query = query.filter(recipe__name__in=recipe)
    until = Coalesce(F("finished_at"), Value(now))
    columns = query.values(
        *RUN_FIELDS,
        **RUN_ALIASES,
        recipe_name=KT("recipe__name"),
        duration_s=Extract(until - F("started_at"), "epoch", output_field=FloatField()),
    )
    return Rows(columns, lambda found: _shaped(found, now), sort=sort)


def _shaped(found: list[dict[str, Any]], now: datetime) -> list[RunRow]:
    ids = [row["id"] for row in found]
    by_run: dict[int, list[dict[str, Any]]] = {run: [] for run in ids}
    stages = list(
        Stage.objects.filter(run__in=ids).order_by("run_id", "index").values(*STAGE_FIELDS)
    )
    for stage in stages:
        by_run[stage["run_id"]].append(stage)
    tallies = trajectory_tallies([stage["id"] for stage in stages])
    progress = stage_progress(
        stages, {row["id"]: row for row in found}, task_sets_of(found), tallies
    )
    facts = {row["id"]: row for row in _facts(ids, now)}
    sparklines = _sparklines(ids)
    rows = []
    for run in found:
        mine = by_run[run["id"]]
        own = facts[run["id"]]
        completed = sum_of({s["id"]: tallies[s["id"]] for s in mine}, Trajectory.Status.COMPLETED)
        parts = {
            "stages": [_brief(stage, progress[stage["id"]]) for stage in mine],
            "reward_mean_10": sparklines.get(run["id"], []),
            "produced_per_h": produced_per_h(run | own, completed, now),
            "infra_failures": own["infra_failures"],
            "attempts_ended": completed + own["infra_failures"],
            "in_flight": own["in_flight"],
            "max_in_flight": max_in_flight(run),
            "staleness": own["staleness"],
            "errors_24h": own["errors_24h"],
            "engines_up": own["engines_up"],
            "last_heartbeat_at": own["last_heartbeat_at"],
        }
        rows.append(cast("RunRow", run_fields(run) | parts))
    return rows


def _brief(stage: dict[str, Any], progress: tuple[int, int | None]) -> StageBriefRow:
    return StageBriefRow(
        id=stage["id"],
        index=stage["index"],
        name=stage["name"],
        kind=stage["kind"],
        status=stage["status"],
        num_done=progress[0],
        num_total=progress[1],
        pass_at_1=stage["result"].get("pass_at_1"),
    )


def _facts(ids: list[int], now: datetime) -> QuerySet[Run, Any]:
    """What other tables say about each run, by their indexes on the run: one query."""
    mine = {"run": OuterRef("pk")}
    lost = Attempt.objects.filter(pk=OuterRef("attempt_id"), status=Attempt.Status.FAILED)
    staleness = MetricPoint.objects.filter(**mine, name="rollout/staleness_mean")
    engines = Engine.objects.filter(**mine, status__in=Engine.LIVE)
    trainers = Stage.objects.filter(**mine, status=Stage.Status.RUNNING)
    return Run.objects.filter(pk__in=ids).values(
        "id",
        produced=produced_since(now - RATE_WINDOW),
        infra_failures=_num(Failure.objects.filter(Exists(lost), run_id=OuterRef("pk")), "run_id"),
        in_flight=_num(Attempt.objects.filter(**mine, status__in=Attempt.IN_FLIGHT)),
        staleness=Subquery(staleness.order_by("-resume", "-step").values("value")[:1]),
        errors_24h=_num(
            Event.objects.filter(**mine, level=Event.Level.ERROR, at__gte=now - ALERT_WINDOW)
        ),
        engines_up=_num(engines.filter(status__in=["serving", "paused"])),
        last_heartbeat_at=Greatest(
            _newest(engines, "worker__last_seen_at"),
            _newest(trainers, "lease_worker__last_seen_at"),
        ),
    )


def _num(query: QuerySet[Any], owner: str = "run") -> Coalesce:
    counted = query.order_by().values(owner).annotate(num=Count("pk")).values("num")
    return Coalesce(Subquery(counted), 0)


def _newest(query: QuerySet[Any], column: str) -> Subquery:
    return Subquery(query.order_by().values("run").annotate(newest=Max(column)).values("newest"))


def _sparklines(ids: list[int]) -> dict[int, list[float]]:
    """By run, the 10-step mean reward of the steps that count: every so many steps, the newest included."""
    order = [F("stage__index"), F("index")]
    partition = [F("run")]
    steps = Step.objects.filter(
        run__in=ids, status=Step.Status.DONE, reward_mean__isnull=False
    ).annotate(
        mean=Window(
            Avg("reward_mean"), partition_by=partition, order_by=order, frame=RowRange(-9, 0)
        ),
        from_end=Window(RowNumber(), partition_by=partition, order_by=[o.desc() for o in order]),
        num=Window(Count("pk"), partition_by=partition),
    )
    stride = (F("num") + (SPARKLINE_POINTS - 1)) / SPARKLINE_POINTS
    kept = steps.annotate(rest=(F("from_end") - 1) % stride).filter(rest=0)
    found: dict[int, list[float]] = {}
    for run, mean in kept.order_by("run", "-from_end").values_list("run", "mean"):
        found.setdefault(run, []).append(round(mean, 4))
    return found

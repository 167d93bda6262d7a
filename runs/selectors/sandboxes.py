"""Sandboxes with the trajectory that each belongs to, and the fleet that they are together.

The sandboxes app knows attempts by number; what an attempt means is added here.
"""

from __future__ import annotations

import base64
from datetime import datetime
from functools import reduce
from operator import add
from typing import Any, Literal

from django.contrib.postgres.fields import ArrayField
from django.db.models import (
    Aggregate,
    Count,
    Exists,
    F,
    FloatField,
    OuterRef,
    Q,
    QuerySet,
    Sum,
    Value,
)
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce, Extract
from typing_extensions import TypeAliasType, TypedDict

from controlplane.accounts.access import Actor, visible_projects
from controlplane.pages import Rows
from controlplane.sharing import Shared
from runs.models import Attempt, Worker
from runs.sandbox_life import STARTING, carpet
from runs.selectors.recipes import recipe_of
from runs.selectors.runs import visible_run
from sandboxes import selectors
from sandboxes.models import Sandbox

MAX_BOXES = 20_000
"""Of a carpet: the newest ones; the answer says how many were left out."""

MAX_PAUSE_S = 3600.0
"""Without a run: what came before a longer pause is another time, and would make this one unreadable."""

_ENDED = (Sandbox.Status.GONE, Sandbox.Status.FAILED)


class SandboxRow(selectors.SandboxRow):
    """One box of a provider. timings: seconds by admit, image, start, setup, exec, verify, teardown.

    An orphan is alive, and no attempt in flight has it.
    """

    trajectory_id: int | None
    is_orphan: bool


class StartLatencyRow(TypedDict):
    """Until a box answers (image and start), over those that did; its set-up is the task's and apart. Seconds."""

    driver: str
    level: str
    num_boxes: int
    num_failed: int
    num_measured: int
    p50: float | None
    p90: float | None
    p99: float | None
    setup_p50: float | None


LimitSource = TypeAliasType("LimitSource", Literal["recipe", "workers"])


class SandboxFleetRow(TypedDict):
    """Boxes by state, against what may be alive at once: the recipe's cap of a run, else the workers' slots."""

    counts: dict[selectors.SandboxStatus, int]
    num_alive: int
    limit: int
    limit_source: LimitSource
    num_orphans: int
    num_unsafe: int
    starts: list[StartLatencyRow]


class SandboxCarpetRow(TypedDict):
    """Who held which slot when: num_slots rows of num_bins bytes, base64; a byte is an index of `stages`.

    A slot is no machine's: boxes are laid into the first row that is free, so the rows in use are the
    concurrency. In a bin the stage that lasted longest counts, and a failure before all others.
    """

    stages: list[str]
    from_at: datetime | None
    to_at: datetime | None
    num_slots: int
    num_bins: int
    num_boxes: int
    num_left_out: int
    cells: str


def sandboxes(
    actor: Actor, *, is_orphan: bool | None = None, sort: str | None = None, **filters: Any
) -> Rows[SandboxRow]:
    """Newest first."""
    query = with_orphans(selectors.sandboxes(actor, **filters))
    if is_orphan is not None:
        query = query.filter(is_orphan=is_orphan)
    query = query.annotate(
        start_s=_seconds("start"), lived_s=Extract(F("finished_at") - F("created_at"), "epoch")
    )
    own = [name for name in selectors.SandboxRow.__annotations__ if name != "project"]
    rows = query.values(*own, "is_orphan", "start_s", "lived_s", project_slug=F("project__slug"))
    return Rows(rows, _sandbox_rows, sort=sort)


def with_orphans(query: Any) -> Any:
    in_flight = Attempt.objects.filter(pk=OuterRef("attempt_id"), status__in=Attempt.IN_FLIGHT)
    return query.annotate(is_orphan=~Q(status__in=_ENDED) & ~Exists(in_flight))


def _seconds(stage: str) -> Cast:
    return Cast(KeyTextTransform(stage, "timings"), FloatField())


def _sandbox_rows(rows: list[dict[str, Any]]) -> list[SandboxRow]:
    trajectory_of = trajectories_of([row["attempt_id"] for row in rows])
    return [sandbox_row(row, trajectory_of.get(row["attempt_id"])) for row in rows]


def sandbox_row(row: dict[str, Any], trajectory_id: int | None) -> SandboxRow:
    """A row of the query of `sandboxes` as the API has it."""
    found: Any = {name: row[name] for name in SandboxRow.__annotations__ if name in row}
    found |= {"project": row["project_slug"], "trajectory_id": trajectory_id}
    return found  # type: ignore[no-any-return]


def trajectories_of(attempt_ids: list[int | None]) -> dict[int, int]:
    ids = [attempt_id for attempt_id in attempt_ids if attempt_id is not None]
    return dict(Attempt.objects.filter(pk__in=ids).values_list("id", "trajectory_id"))


class FailureRow(selectors.FailureRow):
    """One thing that the infrastructure did, and the trajectory it happened to."""

    trajectory_id: int | None


def failures(actor: Actor, **filters: Any) -> Rows[FailureRow]:
    found = selectors.failures(actor, **filters)
    return Rows(found.query, lambda rows: with_trajectories(found.shape(rows)))


def with_trajectories(rows: list[Any]) -> list[Any]:
    trajectory_of = trajectories_of([row["attempt_id"] for row in rows])
    return [{**row, "trajectory_id": trajectory_of.get(row["attempt_id"])} for row in rows]


class _Percentiles(Aggregate):
    function = "PERCENTILE_CONT"
    template = "%(function)s(ARRAY[0.5, 0.9, 0.99]) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = ArrayField(FloatField())


def sandbox_fleet(actor: Actor, *, run: int | None = None) -> SandboxFleetRow:
    """Raises NotFound."""
    found_run = None if run is None else visible_run(actor, run)
    boxes = selectors.sandboxes(actor, run=run)
    counts = dict(boxes.values_list("status").annotate(Count("id")).order_by())
    flags = (
        with_orphans(boxes)
        .filter(Q(is_orphan=True) | Q(level="unsafe"))
        .aggregate(
            orphans=Count("id", filter=Q(is_orphan=True)),
            unsafe=Count("id", filter=Q(level="unsafe")),
        )
    )
    if found_run is not None:
        recipe = recipe_of(found_run.pk)
        limit = min(recipe.sandbox.max_concurrent, recipe.rollout.max_in_flight)
    else:
        live = Worker.objects.filter(kind=Worker.Kind.ROLLOUT, status=Worker.Status.LIVE)
        limit = live.aggregate(total=Sum("num_slots"))["total"] or 0
    return SandboxFleetRow(
        counts={status: counts.get(status, 0) for status in Sandbox.Status.values},  # type: ignore[misc]
        num_alive=sum(num for status, num in counts.items() if status not in _ENDED),
        limit=limit,
        limit_source="workers" if run is None else "recipe",
        num_orphans=flags["orphans"],
        num_unsafe=flags["unsafe"],
        starts=[_start_latency(row) for row in _starts(boxes)],
    )


def _starts(boxes: Any) -> Any:
    latency = Coalesce(_seconds("image"), Value(0.0)) + _seconds("start")
    is_measured = Q(timings__has_key="start")
    return (
        boxes.annotate(latency_s=latency, setup_s=_seconds("setup"))
        .values("driver", "level")
        .annotate(
            num_boxes=Count("id"),
            num_failed=Count("id", filter=Q(status=Sandbox.Status.FAILED)),
            num_measured=Count("id", filter=is_measured),
            percentiles=_Percentiles("latency_s", filter=is_measured),
            setups=_Percentiles("setup_s"),
        )
        .order_by("driver", "level")
    )


def _start_latency(row: dict[str, Any]) -> StartLatencyRow:
    p50, p90, p99 = row["percentiles"] or (None, None, None)
    return StartLatencyRow(
        driver=row["driver"],
        level=row["level"],
        num_boxes=row["num_boxes"],
        num_failed=row["num_failed"],
        num_measured=row["num_measured"],
        p50=p50,
        p90=p90,
        p99=p99,
        setup_p50=row["setups"][0] if row["setups"] else None,
    )


def _epoch(stamp: str) -> Cast:
    return Cast(Extract(stamp, "epoch"), FloatField())


_carpets = Shared[SandboxCarpetRow]()


def sandbox_carpet(
    actor: Actor, *, now: datetime, run: int | None = None, bins: int = 240
) -> SandboxCarpetRow:
    """Raises NotFound."""
    if run is not None:
        visible_run(actor, run)
    boxes = selectors.sandboxes(actor, run=run)
    # Shared by those who may see the same: a token of one project sees less than the person it belongs to.
    projects = tuple(visible_projects(actor).order_by("pk").values_list("pk", flat=True))
    return _carpets.ask((projects, run, bins), lambda: _carpet(boxes, now=now, run=run, bins=bins))


def _carpet(
    boxes: QuerySet[Sandbox], *, now: datetime, run: int | None, bins: int
) -> SandboxCarpetRow:
    newest = boxes.order_by("-id").values_list(
        _epoch("created_at"),
        _epoch("ready_at"),
        _epoch("finished_at"),
        "status",
        reduce(add, (Coalesce(_seconds(stage), Value(0.0)) for stage in STARTING)),
        Coalesce(_seconds("verify"), Value(0.0)),
        Coalesce(_seconds("teardown"), Value(0.0)),
    )
    found = carpet(
        list(newest[:MAX_BOXES]), bins=bins, now=now, max_pause_s=None if run else MAX_PAUSE_S
    )
    return SandboxCarpetRow(
        stages=list(found.stages),
        from_at=found.from_at,
        to_at=found.to_at,
        num_slots=found.cells.shape[0],
        num_bins=found.cells.shape[1],
        num_boxes=found.num_boxes,
        num_left_out=max(0, boxes.count() - found.num_boxes),
        cells=base64.b64encode(found.cells.tobytes()).decode(),
    )

"""Nodes, workers and engines. Machines belong to no project: whoever is in one may see them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from django.db.models import Count, F, Q
from typing_extensions import TypeAliasType, TypedDict

from controlplane.accounts.access import Actor, visible_projects
from controlplane.pages import Rows
from runs.models import Attempt, Engine, Node, Worker
from runs.selectors.runs import visible_run

EngineStatus = TypeAliasType(
    "EngineStatus", Literal["starting", "syncing", "serving", "paused", "draining", "gone", "lost"]
)
WorkerKind = TypeAliasType("WorkerKind", Literal["rollout", "train", "engine"])
WorkerStatus = TypeAliasType("WorkerStatus", Literal["live", "draining", "lost", "gone"])


class EngineLoadRow(TypedDict, total=False):
    """What the server said last (/v1/loads)."""

    running: float
    queued: float
    token_usage: float
    gen_throughput: float


class EngineRow(TypedDict):
    """One inference server process of a run. It takes traffic only while serving."""

    id: int
    run: int
    index: int
    status: EngineStatus
    url: str
    weight_version: int | None
    target_version: int
    num_in_flight: int
    load: EngineLoadRow
    failure_message: str
    created_at: datetime
    started_at: datetime | None
    synced_at: datetime | None
    finished_at: datetime | None


class WorkerRow(TypedDict):
    """A Celery worker process, kept alive by its heartbeat."""

    id: int
    name: str
    node: str
    kind: WorkerKind
    status: WorkerStatus
    pid: int
    num_slots: int
    num_busy: int
    capabilities: dict[str, Any]
    started_at: datetime
    last_seen_at: datetime


class NodeRow(TypedDict):
    """A machine that workers and engines live on."""

    id: int
    hostname: str
    num_cpus: int
    memory_bytes: int
    num_workers: int
    first_seen_at: datetime
    last_seen_at: datetime


_ENGINE_FIELDS = (
    "id",
    "run_id",
    "index",
    "status",
    "url",
    "weight_version",
    "load",
    "failure_message",
    "created_at",
    "started_at",
    "synced_at",
    "finished_at",
)
_WORKER_FIELDS = (
    "id",
    "name",
    "kind",
    "status",
    "pid",
    "num_slots",
    "capabilities",
    "started_at",
    "last_seen_at",
)


def engines(
    actor: Actor, *, run: int | None = None, status: list[str] | None = None
) -> Rows[EngineRow]:
    """Newest first. Raises NotFound."""
    query = Engine.objects.filter(run__project__in=visible_projects(actor))
    if run is not None:
        query = query.filter(run=visible_run(actor, run))
    if status:
        query = query.filter(status__in=status)
    return Rows(
        query.values(*_ENGINE_FIELDS, target_version=F("run__weight_version")), _engine_rows
    )


def _engine_rows(rows: list[dict[str, Any]]) -> list[EngineRow]:
    busy = _in_flight_by("engine_id", [row["id"] for row in rows])
    for row in rows:
        row["run"] = row.pop("run_id")
        row["num_in_flight"] = busy.get(row["id"], 0)
    return rows  # type: ignore[return-value]


def _in_flight_by(field: str, ids: list[int]) -> dict[int, int]:
    found = Attempt.objects.filter(status__in=Attempt.IN_FLIGHT, **{f"{field}__in": ids})
    return dict(found.values_list(field).annotate(Count("id")))


def workers(
    actor: Actor, *, kind: list[str] | None = None, status: list[str] | None = None
) -> Rows[WorkerRow]:
    """Newest first; none for somebody without a project."""
    query = Worker.objects.all() if visible_projects(actor).exists() else Worker.objects.none()
    if kind:
        query = query.filter(kind__in=kind)
    if status:
        query = query.filter(status__in=status)
    return Rows(query.values(*_WORKER_FIELDS, hostname=F("node__hostname")), _worker_rows)


def _worker_rows(rows: list[dict[str, Any]]) -> list[WorkerRow]:
    busy = _in_flight_by("worker_id", [row["id"] for row in rows])
    for row in rows:
        row["node"] = row.pop("hostname")
        row["num_busy"] = busy.get(row["id"], 0)
    return rows  # type: ignore[return-value]


def nodes(actor: Actor) -> Rows[NodeRow]:
    """Newest first; none for somebody without a project."""
    query = Node.objects.all() if visible_projects(actor).exists() else Node.objects.none()
    live = Count("workers", filter=Q(workers__status=Worker.Status.LIVE))
    fields = [name for name in NodeRow.__annotations__ if name != "num_workers"]
    return Rows(query.annotate(num_workers=live).values(*fields, "num_workers"), lambda rows: rows)  # type: ignore[arg-type,return-value]

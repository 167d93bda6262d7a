"""Nodes, workers, queues and engines. Machines belong to no project: whoever is in one may see them."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any, Literal

from django.conf import settings
from django.db.models import Count, F, Min, OuterRef, Q, Subquery, Sum, Value
from django.db.models.functions import Coalesce
from typing_extensions import TypeAliasType, TypedDict

from controlplane.accounts.access import Actor, visible_projects
from controlplane.accounts.models import AuditEntry
from controlplane.pages import Rows
from controlplane.queue import queue_length
from runs.models import Attempt, Engine, Node, Stage, Worker
from runs.selectors.runs import visible_run

EngineStatus = TypeAliasType(
    "EngineStatus", Literal["starting", "syncing", "serving", "paused", "draining", "gone", "lost"]
)
WorkerKind = TypeAliasType("WorkerKind", Literal["rollout", "train", "engine"])
WorkerStatus = TypeAliasType("WorkerStatus", Literal["live", "draining", "lost", "gone"])


class EngineLoadRow(TypedDict, total=False):
    """What the server said last (/v1/loads); what it does not say is absent.

    token_usage is the share of the KV cache in use, longest_tokens the longest sequence that is running.
    """

    running: float
    queued: float
    token_usage: float
    used_tokens: float
    max_tokens: float
    gen_throughput: float
    cache_hit_rate: float
    max_running: float
    longest_tokens: float


class EngineRow(TypedDict):
    """One inference server process of a run. It takes traffic only while serving.

    version_skew: published versions that it is behind; num_restarts: engines of this index before it.
    """

    id: int
    run: int
    run_name: str
    version_skew: int | None
    num_restarts: int
    heartbeat_at: datetime | None
    worker: str
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
    """A Celery worker process, kept alive by its heartbeat. A draining one says who drained it and why."""

    id: int
    name: str
    node: str
    kind: WorkerKind
    status: WorkerStatus
    pid: int
    num_slots: int
    num_busy: int
    capabilities: dict[str, Any]
    drain_reason: str
    drained_by: str
    started_at: datetime
    last_seen_at: datetime


class NodeRow(TypedDict):
    """A machine that workers and engines live on."""

    id: int
    hostname: str
    num_cpus: int
    memory_bytes: int
    num_workers: int
    num_slots: int
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
    restarts = (
        Engine.objects.filter(run=OuterRef("run"), index=OuterRef("index"), pk__lt=OuterRef("pk"))
        .order_by()
        .values("run")
        .annotate(num=Count("pk"))
        .values("num")
    )
    rows = query.annotate(num_restarts=Coalesce(Subquery(restarts), 0)).values(
        *_ENGINE_FIELDS,
        "num_restarts",
        "lease_expires_at",
        run_name=F("run__name"),
        worker_name=Coalesce("worker__name", Value("")),
        target_version=F("run__weight_version"),
    )
    return Rows(rows, _engine_rows)


def _engine_rows(rows: list[dict[str, Any]]) -> list[EngineRow]:
    busy = _in_flight_by("engine_id", [row["id"] for row in rows])
    for row in rows:
        row["run"], row["worker"] = row.pop("run_id"), row.pop("worker_name")
        row["num_in_flight"] = busy.get(row["id"], 0)
        expires, held = row.pop("lease_expires_at"), row["weight_version"]
        row["heartbeat_at"] = expires and expires - timedelta(seconds=settings.LEASE_TTL_S)
        row["version_skew"] = None if held is None else row["target_version"] - held
        row["load"] = {n: row["load"][n] for n in EngineLoadRow.__annotations__ if n in row["load"]}
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
    busy = _held_by_workers([row["id"] for row in rows])
    drains = _drains([row["id"] for row in rows if row["status"] == Worker.Status.DRAINING])
    for row in rows:
        row["drained_by"], row["drain_reason"] = drains.get(row["id"], ("", ""))
        row["node"] = row.pop("hostname")
        row["num_busy"] = busy[row["id"]]
    return rows  # type: ignore[return-value]


def _held_by_workers(ids: list[int]) -> Counter[int]:
    """Attempts, engines and training stages that a worker owns now; each takes one of its slots."""
    held = Counter(_in_flight_by("worker_id", ids))
    engines = Engine.objects.filter(worker__in=ids, status__in=Engine.LIVE)
    stages = Stage.objects.filter(lease_worker__in=ids, status=Stage.Status.RUNNING)
    for owned, field in ((engines, "worker_id"), (stages, "lease_worker_id")):
        taken = owned.filter(lease_token__isnull=False).order_by().values_list(field)
        held.update(dict(taken.annotate(Count("id"))))
    return held


def _drains(ids: list[int]) -> dict[int, tuple[str, str]]:
    """Who drained each of these workers last, and why: the audit log has it."""
    targets = {f"{Worker._meta.label_lower}:{pk}": pk for pk in ids}
    entries = AuditEntry.objects.filter(action="worker.drain", target__in=targets).order_by("id")
    return {
        targets[target]: (name or "", details.get("reason", ""))
        for target, name, details in entries.values_list("target", "actor__username", "details")
    }


def nodes(actor: Actor) -> Rows[NodeRow]:
    """Newest first; none for somebody without a project."""
    query = Node.objects.all() if visible_projects(actor).exists() else Node.objects.none()
    is_live = Q(workers__status=Worker.Status.LIVE)
    counted = query.annotate(
        num_workers=Count("workers", filter=is_live),
        num_slots=Coalesce(Sum("workers__num_slots", filter=is_live), 0),
    )
    return Rows(counted.values(*NodeRow.__annotations__), lambda rows: rows)  # type: ignore[arg-type,return-value]


QueueName = TypeAliasType("QueueName", Literal["prompt", "rollout", "train", "engine", "control"])


class QueueRow(TypedDict):
    """Work that waits, by what it waits for. depth and oldest_at are read from the rows, not from the broker.

    num_messages: what the broker holds; NULL when it does not answer, or where no message is sent.
    """

    name: QueueName
    waits_for: str
    depth: int | None
    oldest_at: datetime | None
    num_messages: int | None
    num_consumers: int | None
    num_slots: int | None
    num_busy: int | None


class QueuesRow(TypedDict):
    queues: list[QueueRow]


def queues(actor: Actor) -> QueuesRow:
    """What waits of the projects that the actor may read; consumers and slots are everybody's."""
    projects = visible_projects(actor)
    queued = Q(status=Attempt.Status.QUEUED)
    is_sent = Q(dispatched_at__isnull=False)
    attempts = Attempt.objects.filter(
        run__project__in=projects, status__in=[Attempt.Status.QUEUED, *Attempt.IN_FLIGHT]
    ).aggregate(
        prompts=Count("id", filter=queued & ~is_sent),
        prompt_at=Min("created_at", filter=queued & ~is_sent),
        rollouts=Count("id", filter=queued & is_sent),
        rollout_at=Min("dispatched_at", filter=queued & is_sent),
        busy=Count("id", filter=~queued),
    )
    stages = Stage.objects.filter(
        run__project__in=projects,
        kind__in=[Stage.Kind.SFT, Stage.Kind.RL],
        status=Stage.Status.RUNNING,
    ).aggregate(**_waiting("started_at"))
    engines = Engine.objects.filter(run__project__in=projects, status__in=Engine.LIVE).aggregate(
        **_waiting("created_at")
    )
    live = Worker.objects.filter(status=Worker.Status.LIVE).values("kind")
    workers = {
        row["kind"]: row
        for row in live.annotate(num=Count("id"), slots=Sum("num_slots")).order_by()
    }
    messages = {name: queue_length(name) for name in ("rollout", "train", "engine", "control")}

    def row(
        name: QueueName, waits_for: str, depth: int | None, at: datetime | None, busy: int | None
    ) -> QueueRow:
        kind = workers.get(name, {"num": 0, "slots": 0} if name in Worker.Kind.values else {})
        return QueueRow(
            name=name,
            waits_for=waits_for,
            depth=depth,
            oldest_at=at,
            num_messages=messages.get(name),
            num_consumers=kind.get("num"),
            num_slots=kind.get("slots"),
            num_busy=busy,
        )

    a = attempts
    return QueuesRow(
        queues=[
            row(
                "prompt",
                "a free slot below the caps of its run",
                a["prompts"],
                a["prompt_at"],
                None,
            ),
            row(
                "rollout", "a rollout worker to take it", a["rollouts"], a["rollout_at"], a["busy"]
            ),
            row(
                "train",
                "a train worker to own the stage",
                stages["num"],
                stages["at"],
                stages["busy"],
            ),
            row(
                "engine",
                "an engine worker to start it",
                engines["num"],
                engines["at"],
                engines["busy"],
            ),
            row("control", "the scheduler's next pass", messages["control"], None, None),
        ]
    )


def _waiting(since: str) -> dict[str, Any]:
    """Rows that no job owns, since when, and those that one does."""
    is_free = Q(lease_token__isnull=True)
    return {
        "num": Count("id", filter=is_free),
        "at": Min(since, filter=is_free),
        "busy": Count("id", filter=~is_free),
    }

"""Engines: wanted by the scheduler, run and changed by their own job only."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from controlplane.errors import LeaseLost
from controlplane.live import publish
from controlplane.queue import poke
from runs.events import FleetChanged, RunChanged, fleet_topic, run_topic
from runs.models import Engine, Run, WeightVersion
from runs.recipe import Recipe
from runs.services.events import say
from runs.services.leases import lease_end


def announce(engine: Engine) -> None:
    run = engine.run
    publish(fleet_topic(run.project_id), FleetChanged(what="engines"))
    publish(run_topic(run.project_id, run.pk), RunChanged(run=run.pk, status=run.status))


def want_engines(run: Run, recipe: Recipe, *, now: datetime) -> list[Engine]:
    """One live row an index; returns those that nobody owns."""
    num = len(recipe.engines.urls) or recipe.engines.num_engines
    live = list(Engine.objects.filter(run=run, status__in=Engine.LIVE))
    for index in sorted(set(range(num)) - {engine.index for engine in live}):
        if now < _start_after(run, index):
            continue
        url = recipe.engines.urls[index] if recipe.engines.urls else ""
        live.append(Engine.objects.create(run=run, index=index, url=url, created_at=now))
    return [engine for engine in live if engine.lease_token is None]


def _start_after(run: Run, index: int) -> datetime:
    """When the index may have its next engine: at once after one that served, else with backoff (2 s to 60 s)."""
    lost = Engine.objects.filter(run=run, index=index, status=Engine.Status.LOST).order_by("-id")
    latest = list(lost.values_list("finished_at", "synced_at")[:6])
    num_failed = next((n for n, (_, synced) in enumerate(latest) if synced), len(latest))
    if not latest or num_failed == 0 or latest[0][0] is None:
        return datetime.min.replace(tzinfo=UTC)
    return latest[0][0] + timedelta(seconds=min(60, 2**num_failed))


@dataclass(frozen=True)
class EnginePlan:
    engine_id: int
    run_id: int
    project_id: int
    token: uuid.UUID
    index: int
    url: str
    """Not empty: attach to a server that somebody else runs."""
    seed: int
    recipe: dict[str, Any]


@dataclass(frozen=True)
class EngineOrders:
    """What the engine should be: the version to serve, or to end."""

    version: int
    weights: str
    """Blob prefix; empty: the recipe's model."""
    is_wanted: bool


@transaction.atomic
def claim_engine(engine_id: int, worker_id: int, *, now: datetime) -> EnginePlan | None:
    """Own an engine row whose lease is free, for a run that goes on."""
    token = uuid.uuid4()
    claimed = Engine.objects.filter(
        Q(lease_token__isnull=True) | Q(lease_expires_at__lte=Now()),
        pk=engine_id,
        status__in=Engine.LIVE,
        run__status__in=[Run.Status.RUNNING, Run.Status.PAUSED],
    ).update(lease_token=token, lease_expires_at=lease_end(), worker_id=worker_id, started_at=now)
    if not claimed:
        return None
    engine = Engine.objects.select_related("run").get(pk=engine_id)
    run = engine.run
    return EnginePlan(
        engine.pk, run.pk, run.project_id, token, engine.index, engine.url, run.seed, run.recipe
    )


def _owned(engine_id: int, token: uuid.UUID) -> Engine:
    engine = (
        Engine.objects.select_related("run")
        .filter(pk=engine_id, lease_token=token, status__in=Engine.LIVE)
        .first()
    )
    if engine is None:
        raise LeaseLost(f"Engine {engine_id} is no longer ours.")
    return engine


def engine_orders(engine_id: int, token: uuid.UUID, load: dict[str, Any] | None) -> EngineOrders:
    """Renew the lease, leave the load, take the orders. Raises LeaseLost."""
    changes: dict[str, Any] = {"lease_expires_at": lease_end()}
    if load is not None:
        changes["load"] = load
    updated = Engine.objects.filter(pk=engine_id, lease_token=token, status__in=Engine.LIVE).update(
        **changes
    )
    if not updated:
        raise LeaseLost(f"Engine {engine_id} is no longer ours.")
    run = Run.objects.only("status", "weight_version").get(engines=engine_id)
    blob = WeightVersion.objects.filter(run=run, version=run.weight_version).values_list(
        "blob", flat=True
    )
    is_wanted = run.status in (Run.Status.RUNNING, Run.Status.PAUSED)
    return EngineOrders(run.weight_version, blob.first() or "", is_wanted)


@transaction.atomic
def engine_started(
    engine_id: int,
    token: uuid.UUID,
    *,
    url: str,
    boot_id: str,
    pid: int | None,
    now: datetime,
) -> None:
    """starting -> syncing: the server answers. Raises LeaseLost."""
    engine = _owned(engine_id, token)
    engine.move(Engine.Status.SYNCING, url=url, boot_id=boot_id, pid=pid)
    say(engine.run, "engine_started", f"Engine {engine.index} is up at {url}.", now=now)
    announce(engine)


@transaction.atomic
def engine_synced(engine_id: int, token: uuid.UUID, version: int, *, now: datetime) -> None:
    """It confirmed this version by /model_info; from syncing it begins to serve. Raises LeaseLost."""
    engine = _owned(engine_id, token)
    if engine.status == Engine.Status.SERVING:
        Engine.objects.filter(pk=engine_id).update(weight_version=version, synced_at=now)
    else:
        engine.move(Engine.Status.SERVING, weight_version=version, synced_at=now)
        say(
            engine.run,
            "engine_serving",
            f"Engine {engine.index} serves weight version {version}.",
            now=now,
        )
    announce(engine)
    poke()


@transaction.atomic
def end_engine(
    engine_id: int, token: uuid.UUID, *, status: str, now: datetime, sentence: str
) -> None:
    """-> gone (not wanted any more) or lost (it died): a lost one is replaced. Raises LeaseLost."""
    engine = _owned(engine_id, token)
    _end(engine, status, now=now, sentence=sentence)


def _end(engine: Engine, status: str, *, now: datetime, sentence: str) -> None:
    engine.move(status, finished_at=now, failure_message=sentence if status == "lost" else "")
    level = "warning" if status == Engine.Status.LOST else "info"
    say(engine.run, f"engine_{status}", f"Engine {engine.index}: {sentence}", now=now, level=level)
    announce(engine)
    poke()


@transaction.atomic
def expire_engine(engine: Engine, *, now: datetime, sentence: str) -> None:
    """-> lost, said by somebody else: its job is silent, or its worker gone."""
    locked = (
        Engine.objects.select_for_update(skip_locked=True, of=("self",), no_key=True)
        .select_related("run")
        .filter(pk=engine.pk, status__in=Engine.LIVE, lease_token=engine.lease_token)
        .first()
    )
    if locked is not None:
        _end(locked, Engine.Status.LOST, now=now, sentence=sentence)


def end_unowned_engines(run: Run, *, now: datetime) -> None:
    """The run is over: what no job has claimed will never be; the others end with their next orders."""
    for engine in Engine.objects.filter(run=run, status__in=Engine.LIVE, lease_token__isnull=True):
        engine.run = run
        _end(engine, Engine.Status.GONE, now=now, sentence="the run ended before it was started.")

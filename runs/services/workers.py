"""Nodes and workers: registered once, kept alive by one heartbeat a process."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from controlplane.accounts.access import Actor, require_anywhere
from controlplane.accounts.audit import record_audit
from controlplane.accounts.models import Role
from controlplane.errors import Conflict, NotFound
from controlplane.live import publish
from controlplane.queue import poke
from runs.events import FleetChanged, fleet_topic
from runs.models import Attempt, Engine, Node, Run, Stage, Worker
from runs.services.attempts import expire_attempts
from runs.services.engines import expire_engine
from runs.services.events import say
from runs.services.stages import recover_training
from sandboxes.failures import FailureClass

_ALIVE = (Worker.Status.LIVE, Worker.Status.DRAINING)


@transaction.atomic
def register_worker(
    *,
    hostname: str,
    name: str,
    kind: str,
    boot_id: str,
    pid: int,
    num_slots: int,
    num_cpus: int,
    memory_bytes: int,
    capabilities: dict[str, object],
    now: datetime,
) -> Worker:
    """A worker process has started. An earlier life of the same name is over: what it held is lost at once."""
    node, _ = Node.objects.update_or_create(
        hostname=hostname,
        defaults={"num_cpus": num_cpus, "memory_bytes": memory_bytes, "last_seen_at": now},
        create_defaults={
            "num_cpus": num_cpus,
            "memory_bytes": memory_bytes,
            "first_seen_at": now,
            "last_seen_at": now,
        },
    )
    earlier = Worker.objects.filter(node=node, name=name, status__in=_ALIVE).exclude(
        boot_id=boot_id
    )
    for worker in earlier:
        lose_worker(
            worker, now=now, sentence=f"Worker {name} ended without a word and was restarted."
        )
    worker, _ = Worker.objects.update_or_create(
        boot_id=boot_id,
        defaults={
            "node": node,
            "name": name,
            "kind": kind,
            "pid": pid,
            "num_slots": num_slots,
            "capabilities": capabilities,
            "status": Worker.Status.LIVE,
            "started_at": now,
            "last_seen_at": now,
        },
    )
    return worker


def beat(worker: Worker) -> str | None:
    """The heartbeat's first half, by the database's clock; live or draining, None when it was given up meanwhile."""
    Node.objects.filter(pk=worker.node_id).update(last_seen_at=Now())
    alive = Worker.objects.filter(pk=worker.pk, status__in=_ALIVE)
    alive.update(last_seen_at=Now())
    return alive.values_list("status", flat=True).first()


@transaction.atomic
def drain_worker(worker_id: int, *, actor: Actor, reason: str, now: datetime) -> None:
    """live -> draining: what is in flight finishes, nothing more comes. Raises NotFound, Forbidden, Conflict."""
    _turn(worker_id, "worker.drain", "live", "draining", actor=actor, reason=reason, now=now)


@transaction.atomic
def undrain_worker(worker_id: int, *, actor: Actor, reason: str, now: datetime) -> None:
    """draining -> live. Raises NotFound, Forbidden, Conflict."""
    _turn(worker_id, "worker.undrain", "draining", "live", actor=actor, reason=reason, now=now)
    poke()


def _turn(
    worker_id: int,
    action: str,
    before: str,
    after: str,
    *,
    actor: Actor,
    reason: str,
    now: datetime,
) -> None:
    require_anywhere(actor, Role.OPERATOR)
    worker = Worker.objects.filter(pk=worker_id).first()
    if worker is None:
        raise NotFound(f"There is no worker {worker_id}.")
    if not Worker.objects.filter(pk=worker_id, status=before).update(status=after):
        raise Conflict(f"Worker {worker.name} is {worker.status}, not {before}.")
    record_audit(actor, action, worker, project=None, now=now, details={"reason": reason})
    for project_id in (
        Run.objects.filter(status__in=Run.ACTIVE).values_list("project", flat=True).distinct()
    ):
        publish(fleet_topic(project_id), FleetChanged(what="workers"))


@transaction.atomic
def lose_worker(worker: Worker, *, now: datetime, sentence: str) -> None:
    """-> lost: its attempts are tried again, its training stage is resumed, its engines are replaced."""
    _release(worker, Worker.Status.LOST, now=now, sentence=sentence)


@transaction.atomic
def retire_worker(worker: Worker, *, now: datetime) -> None:
    """A clean shutdown, said by the worker itself: neither a retry nor an automatic resume is spent."""
    _release(worker, Worker.Status.GONE, now=now, sentence=f"Worker {worker.name} was shut down.")


def _release(worker: Worker, status: str, *, now: datetime, sentence: str) -> None:
    is_first = Worker.objects.filter(pk=worker.pk, status__in=_ALIVE).update(status=status)
    if not is_first:
        return
    held = list(Attempt.objects.filter(worker=worker, status__in=Attempt.IN_FLIGHT))
    kind = FailureClass.LOST if status == Worker.Status.LOST else FailureClass.CAPACITY
    expire_attempts(held, now=now, sentence=sentence, kind=kind)
    for run in Run.objects.filter(attempts__in=[attempt.pk for attempt in held]).distinct():
        num = sum(attempt.run_id == run.pk for attempt in held)
        say(
            run,
            "worker_lost",
            f"{sentence} {num} trajectories are tried again.",
            now=now,
            level="warning",
        )
    trained = (
        Stage.objects.select_for_update(of=("self",), no_key=True)
        .select_related("run")
        .filter(
            lease_worker=worker,
            status=Stage.Status.RUNNING,
            dispatched_at__lt=F("lease_expires_at"),
        )
    )
    for stage in trained:
        if status == Worker.Status.LOST:
            recover_training(stage, now=now, sentence=sentence)
        else:
            Stage.objects.filter(pk=stage.pk).update(lease_expires_at=now, dispatched_at=None)
            say(stage.run, "trainer_released", sentence, now=now)
    for engine in Engine.objects.filter(worker=worker, status__in=Engine.LIVE):
        expire_engine(engine, now=now, sentence=sentence)

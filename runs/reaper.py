"""The reaper: the row says running, but is anyone running it?

Invariant: nothing is reaped until one lease TTL after this process began to watch, or after it lost its
database connection, so an outage does not kill the fleet when it ends.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, Max, Q
from django.db.models.functions import Now

from controlplane.queue import poke
from runs.models import Attempt, Engine, Run, Stage, Worker
from runs.services.attempts import expire_attempts
from runs.services.engines import expire_engine
from runs.services.stages import recover_training
from runs.services.workers import lose_worker

STOP_DEADLINE = timedelta(seconds=60)

_armed_at: float | None = None


def reset() -> None:
    """Begin to watch anew: leases may have lapsed only because nobody could renew them."""
    global _armed_at
    _armed_at = time.monotonic() + settings.LEASE_TTL_S


def reap(*, now: datetime) -> int:
    """Give up what has been silent for a lease; returns how many things were given up."""
    if _armed_at is None:
        reset()
    assert _armed_at is not None
    if time.monotonic() < _armed_at:
        return 0
    num = _reap_workers(now) + _reap_attempts(now) + _reap_training(now) + _reap_engines(now)
    num += _reap_stopping(now)
    if num:
        poke()
    return num


def _silent() -> dict[str, object]:
    return {"lease_token__isnull": False, "lease_expires_at__lt": Now()}


def _reap_workers(now: datetime) -> int:
    ttl = timedelta(seconds=settings.LEASE_TTL_S)
    silent = list(
        Worker.objects.filter(
            status__in=[Worker.Status.LIVE, Worker.Status.DRAINING], last_seen_at__lt=Now() - ttl
        )
    )
    for worker in silent:
        lose_worker(worker, now=now, sentence=f"Worker {worker.name} was silent for a lease.")
    return len(silent)


def _reap_attempts(now: datetime) -> int:
    silent = list(Attempt.objects.filter(status__in=Attempt.IN_FLIGHT, **_silent())[:500])
    if not silent:
        return 0
    return expire_attempts(silent, now=now, sentence="The attempt's worker was silent for a lease.")


def _reap_training(now: datetime) -> int:
    """A running training stage whose lease lapsed; `dispatched_at` NULL means it was given up already."""
    silent = Stage.objects.filter(
        status=Stage.Status.RUNNING, dispatched_at__lt=F("lease_expires_at"), **_silent()
    )
    num = 0
    for found in list(silent):
        with transaction.atomic():
            stage = (
                Stage.objects.select_for_update(skip_locked=True, of=("self",), no_key=True)
                .select_related("run")
                .filter(
                    pk=found.pk,
                    status=Stage.Status.RUNNING,
                    lease_token=found.lease_token,
                    lease_expires_at__lt=Now(),
                )
                .first()
            )
            if stage is not None:
                recover_training(
                    stage, now=now, sentence="The train worker was silent for a lease."
                )
                num += 1
    return num


def _reap_engines(now: datetime) -> int:
    silent = list(Engine.objects.filter(status__in=Engine.LIVE, **_silent()))
    for engine in silent:
        expire_engine(engine, now=now, sentence="its job was silent for a lease.")
    return len(silent)


def _reap_stopping(now: datetime) -> int:
    """A run that has been stopping for too long: take its attempts from their workers."""
    stopping = (
        Run.objects.filter(status=Run.Status.STOPPING)
        .annotate(stopped_at=Max("events__at", filter=Q(events__kind="run_stopped")))
        .filter(stopped_at__lt=now - STOP_DEADLINE)
    )
    found = list(
        Attempt.objects.filter(
            run__in=list(stopping.values_list("pk", flat=True)), status__in=Attempt.IN_FLIGHT
        )
    )
    if not found:
        return 0
    return expire_attempts(
        found, now=now, sentence="The run was stopped and its worker did not end it."
    )

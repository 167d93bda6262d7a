"""The only way to start a job: a dotted path and ids, sent on commit; a lost message is harmless.

The scheduler is level-triggered and dispatches again what nobody claimed, so a broker outage delays
work and never loses it.
"""

from __future__ import annotations

import logging

import redis
from celery import current_app
from django.db import transaction

from controlplane.live import connection

log = logging.getLogger(__name__)

_WANTED = "longtail:schedule:wanted"
_QUEUED = "longtail:schedule:queued"
_QUEUED_TTL_S = 5


def enqueue(path: str, *args: int | str, expires_s: float | None = None) -> None:
    """Send the job at dotted `path` with ids once the present transaction commits."""
    transaction.on_commit(lambda: _send(path, *args, expires_s=expires_s), robust=True)


def poke() -> None:
    """Ask for a pass of the scheduler on commit. Pokes while one is queued or runs are merged into one."""
    transaction.on_commit(_poke, robust=True)


def _poke() -> None:
    try:
        connection().set(_WANTED, 1)
        is_first = connection().set(_QUEUED, 1, nx=True, ex=_QUEUED_TTL_S)
    except redis.RedisError as error:
        log.debug("poke lost: %s", error)
        return
    if is_first:
        _send("runs.jobs.schedule", expires_s=_QUEUED_TTL_S)


def take_pokes() -> bool:
    """At the start of a pass: was one asked for since the last call?"""
    try:
        return bool(connection().getdel(_WANTED))
    except redis.RedisError:
        return False


def end_passes() -> None:
    """The scheduling job is over: the next poke sends a new one."""
    try:
        connection().delete(_QUEUED)
    except redis.RedisError as error:
        log.debug("could not clear the poke: %s", error)


def queue_length(name: str) -> int | None:
    """Messages that no worker has taken; None when the broker does not answer."""
    try:
        return int(connection().llen(name))
    except redis.RedisError:
        return None


def _send(path: str, *args: int | str, expires_s: float | None = None) -> None:
    try:
        current_app.send_task(path, args=args, expires=expires_s, retry=False)
    except Exception as error:  # noqa: BLE001 - whatever the broker says, the scheduler sends it again
        log.warning("could not enqueue %s%s: %s", path, args, error)

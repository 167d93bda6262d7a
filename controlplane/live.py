"""Telling browsers what changed: one PUBLISH on a process-wide connection, on commit, best effort.

A lost message is repaired by the beacons of the consumer (runs/consumers.py), which compare each open
topic with PostgreSQL every few seconds. Topics begin with the project: `p1.run.7`, `p1.runs`, `p1.fleet`.
"""

from __future__ import annotations

import logging

import redis
from django.conf import settings
from django.db import transaction
from pydantic import BaseModel

log = logging.getLogger(__name__)

CHANNEL_PREFIX = "longtail:live:"

_connection: redis.Redis | None = None


def connection() -> redis.Redis:
    """The process-wide connection pool; short time-outs, so that an outage slows nobody down."""
    global _connection
    if _connection is None:
        _connection = redis.Redis.from_url(
            settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=1
        )
    return _connection


def publish(topic: str, event: BaseModel) -> None:
    """Send a typed event to the subscribers of `topic` once the present transaction commits."""
    message = event.model_dump_json()

    def send() -> None:
        try:
            connection().publish(CHANNEL_PREFIX + topic, message)
        except redis.RedisError as error:
            log.debug("live message on %s lost: %s", topic, error)

    transaction.on_commit(send, robust=True)


def followed(topics: list[str]) -> set[str]:
    """Those of `topics` that a consumer has announced interest in, so that data is sent only where it is read."""
    if not topics:
        return set()
    try:
        values = connection().mget([f"{CHANNEL_PREFIX}follow:{topic}" for topic in topics])
    except redis.RedisError:
        return set()
    return {topic for topic, value in zip(topics, values, strict=True) if value is not None}


def announce_interest(topic: str, ttl_s: int = 15) -> None:
    """A consumer keeps calling this while a client has `topic` open."""
    connection().set(f"{CHANNEL_PREFIX}follow:{topic}", 1, ex=ttl_s)

"""How often a password may be tried: counted in Valkey, by name and by address."""

from __future__ import annotations

import hashlib

import redis
from rest_framework import exceptions

from controlplane.live import connection

WINDOW_S = 300
TRIES_PER_NAME = 10
TRIES_PER_ADDRESS = 50


class CannotCount(exceptions.APIException):
    """Without its counter a login would be open to guessing, so it waits for Valkey."""

    status_code = 503
    default_code = "login_unavailable"
    default_detail = (
        "Logging in is not possible while Valkey is down; a login link still works "
        "(`manage.py login_link`)."
    )


def count_try(username: str, address: str) -> None:
    """Raises Throttled when this name or address tried too often within five minutes; CannotCount."""
    name = hashlib.sha256(username.lower().encode()).hexdigest()[:32]
    keys = {
        f"longtail:login:n:{name}": TRIES_PER_NAME,
        f"longtail:login:a:{address}": TRIES_PER_ADDRESS,
    }
    try:
        with connection().pipeline() as pipeline:
            for key in keys:
                pipeline.incr(key)
                pipeline.expire(key, WINDOW_S, nx=True)
                pipeline.ttl(key)
            answers = pipeline.execute()
    except redis.RedisError as error:
        raise CannotCount from error
    for (count, _, ttl), most in zip(_triples(answers), keys.values(), strict=True):
        if count > most:
            raise exceptions.Throttled(wait=max(1, ttl))


def forget_tries(username: str) -> None:
    """After a login that succeeded the name starts anew."""
    name = hashlib.sha256(username.lower().encode()).hexdigest()[:32]
    try:
        connection().delete(f"longtail:login:n:{name}")
    except redis.RedisError:
        return


def _triples(flat: list[int]) -> list[tuple[int, int, int]]:
    return [(flat[i], flat[i + 1], flat[i + 2]) for i in range(0, len(flat), 3)]

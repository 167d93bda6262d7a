"""What an operator's probes read: /healthz and /metrics."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Callable

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from controlplane import live


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """200 while PostgreSQL answers; without Valkey the parts say so, and the product works, less promptly."""
    del request
    postgres, valkey = _says(_ask_postgres), _says(_ask_valkey)
    body = {
        "status": "ok" if postgres == "ok" else "down",
        "postgresql": postgres,
        "valkey": valkey,
    }
    return JsonResponse(body, status=200 if postgres == "ok" else 503)


def _says(ask: Callable[[], object]) -> str:
    try:
        ask()
    except (DatabaseError, redis.RedisError):
        return "down"
    return "ok"


def _ask_postgres() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _ask_valkey() -> object:
    return live.connection().ping()


def may_scrape(request: HttpRequest) -> bool:
    """From this machine itself (not through a proxy on it), or with the token of LONGTAIL_METRICS_TOKEN."""
    token = settings.METRICS_TOKEN
    given = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if token and hmac.compare_digest(given.encode(), token.encode()):
        return True
    is_proxied = "X-Forwarded-For" in request.headers or "Forwarded" in request.headers
    try:
        address = ipaddress.ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:
        return False
    return address.is_loopback and not is_proxied

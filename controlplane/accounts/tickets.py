"""One-time tickets for the WebSocket: programs with a token have no cookie, and a token is no query string."""

from __future__ import annotations

import secrets

import redis

from controlplane.accounts.models import ApiToken, User
from controlplane.accounts.tokens import digest, is_usable
from controlplane.errors import Conflict
from controlplane.live import connection

LIFETIME_S = 30
_PREFIX = "longtail:ticket:"


def issue_ticket(user: User, token: ApiToken | None) -> str:
    """Good for one connection within 30 s. Raises Conflict while Valkey is down."""
    ticket = secrets.token_urlsafe(32)
    value = f"{user.pk}:{token.pk if token else ''}"
    try:
        connection().set(_PREFIX + digest(ticket), value, ex=LIFETIME_S)
    except redis.RedisError as error:
        raise Conflict(
            "There are no live updates while Valkey is down.", code="live_down"
        ) from error
    return ticket


def use_ticket(ticket: str) -> User | None:
    """The user who asked for it, limited by the token they asked with; None for a ticket that is spent."""
    try:
        value = connection().getdel(_PREFIX + digest(ticket))
    except redis.RedisError:
        return None
    if not isinstance(value, bytes):
        return None
    user_id, _, token_id = value.decode().partition(":")
    user = User.objects.filter(pk=user_id, is_active=True).first()
    if user is None or not token_id:
        return user
    token = ApiToken.objects.filter(pk=token_id).first()
    if token is None or not is_usable(token):
        return None
    user.presented_token = token  # type: ignore[attr-defined]
    return user

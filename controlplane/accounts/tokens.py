"""API tokens: `Authorization: Bearer lt_<prefix>_<secret>`; the hash is kept, the secret is shown once."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from django.utils import timezone
from rest_framework import authentication, exceptions
from rest_framework.request import Request

from controlplane.accounts.models import ApiToken, User

_LAST_USED_EVERY = timedelta(minutes=1)


def digest(secret: str) -> str:
    """Secrets are 256 random bits, so a plain hash is enough (no password to guess)."""
    return hashlib.sha256(secret.encode()).hexdigest()


def is_usable(token: ApiToken) -> bool:
    """Neither revoked nor past its end."""
    is_over = token.expires_at is not None and token.expires_at <= timezone.now()
    return token.revoked_at is None and not is_over


class TokenAuthentication(authentication.BaseAuthentication):
    """Bearer tokens; a wrong, expired or revoked one is refused with one and the same answer."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        kind, _, text = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() != "bearer":
            return None
        token = self._find(text.strip())
        if token is None:
            raise exceptions.AuthenticationFailed("This token is not valid (any more).")
        now = timezone.now()
        if token.last_used_at is None or now - token.last_used_at > _LAST_USED_EVERY:
            ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
        user = token.user
        user.presented_token = token  # type: ignore[attr-defined]
        return user, token

    def _find(self, text: str) -> ApiToken | None:
        parts = text.split("_", 2)
        if len(parts) != 3 or parts[0] != "lt":
            return None
        token = ApiToken.objects.select_related("user").filter(prefix=parts[1]).first()
        if token is None or not secrets.compare_digest(token.digest, digest(parts[2])):
            return None
        return token if is_usable(token) and token.user.is_active else None

    def authenticate_header(self, request: Request) -> str:  # noqa: ARG002
        return "Bearer"

"""Issuing and revoking API tokens."""

from __future__ import annotations

import secrets
from datetime import datetime

from django.db import transaction

from controlplane.accounts.access import presented_token, require
from controlplane.accounts.audit import record_audit
from controlplane.accounts.models import ApiToken, Project, Role, User
from controlplane.accounts.tokens import digest
from controlplane.errors import Conflict, Forbidden, Invalid, NotFound


@transaction.atomic
def issue_token(
    user: User,
    project: Project,
    *,
    name: str,
    role: Role,
    now: datetime,
    expires_at: datetime | None = None,
) -> tuple[ApiToken, str]:
    """A new token and its text, which cannot be shown again.

    A token never gives more than its owner has: the role is checked here and capped at every request.
    Raises NotFound, Forbidden; Invalid for an end that has passed.
    """
    if presented_token(user) is not None:
        raise Forbidden("A token cannot make tokens; sign in with the browser.")
    require(user, project.pk, role)
    if expires_at is not None and expires_at <= now:
        raise Invalid("The token would have expired already.", code="already_expired")
    prefix, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
    token = ApiToken.objects.create(
        user=user,
        project=project,
        name=name,
        role=role,
        prefix=prefix,
        digest=digest(secret),
        expires_at=expires_at,
    )
    record_audit(user, "token.issue", token, project=project, now=now, details={"role": role})
    return token, f"lt_{prefix}_{secret}"


@transaction.atomic
def revoke_token(user: User, token_id: int, *, now: datetime) -> None:
    """End one of the user's own tokens. Raises NotFound; Conflict when it has ended before."""
    token = ApiToken.objects.filter(pk=token_id, user=user).first()
    if token is None:
        raise NotFound(f"You have no token {token_id}.")
    if not ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=now):
        raise Conflict("This token was revoked before.", code="already_revoked")
    record_audit(user, "token.revoke", token, project=token.project, now=now)

"""Links that sign a user in, once."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta

from django.db import transaction

from controlplane.accounts.audit import record_audit
from controlplane.accounts.models import LoginLink, User
from controlplane.accounts.tokens import digest
from controlplane.errors import Conflict, NotFound

LIFETIME = timedelta(hours=12)


def create_login_link(user: User, *, now: datetime, lifetime: timedelta = LIFETIME) -> str:
    """The path of a fresh link; it cannot be shown again."""
    secret = secrets.token_urlsafe(32)
    LoginLink.objects.create(user=user, digest=digest(secret), expires_at=now + lifetime)
    return f"/enter/{secret}"


@transaction.atomic
def use_login_link(secret: str, *, now: datetime) -> User:
    """The link's user; of two at the same time one wins.

    Raises NotFound; Conflict when it was used or has expired.
    """
    link = LoginLink.objects.select_related("user").filter(digest=digest(secret)).first()
    if link is None or not link.user.is_active:
        raise NotFound("This link is not one of ours.")
    fresh = LoginLink.objects.filter(pk=link.pk, used_at=None, expires_at__gt=now)
    if not fresh.update(used_at=now):
        raise Conflict(
            "This link was used or has expired. `manage.py login_link` makes a new one.",
            code="link_spent",
        )
    record_audit(link.user, "login.link", link.user, project=None, now=now)
    return link.user

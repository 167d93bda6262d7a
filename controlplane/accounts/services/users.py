"""Users, the default project and memberships."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from controlplane.accounts.access import require
from controlplane.accounts.audit import record_audit
from controlplane.accounts.models import Membership, Project, Role, User

DEFAULT_PROJECT = "default"


@transaction.atomic
def ensure_first_admin(*, now: datetime, username: str = "admin") -> User:
    """The admin of this installation, made without a password when there is none: they enter by a link."""
    project, _ = Project.objects.get_or_create(slug=DEFAULT_PROJECT, defaults={"name": "Default"})
    admin = User.objects.filter(is_superuser=True, is_active=True).order_by("id").first()
    if admin is not None:
        return admin
    admin = User(username=username, is_superuser=True, is_staff=True)
    admin.set_unusable_password()
    admin.save()
    Membership.objects.create(project=project, user=admin, role=Role.ADMIN)
    record_audit(admin, "user.create", admin, project=project, now=now)
    return admin


@transaction.atomic
def set_role(actor: User, user: User, project: Project, role: Role, *, now: datetime) -> None:
    """Make a user a member, or change their role. Raises Forbidden, NotFound."""
    require(actor, project.pk, Role.ADMIN)
    Membership.objects.update_or_create(project=project, user=user, defaults={"role": role})
    record_audit(actor, "member.set_role", user, project=project, now=now, details={"role": role})

"""The audit log: one entry a write. Append only."""

from __future__ import annotations

from datetime import datetime

from django.db import models

from controlplane.accounts.access import Actor
from controlplane.accounts.models import AuditEntry, Project, User


def record_audit(
    actor: Actor,
    action: str,
    target: models.Model,
    *,
    project: Project | None,
    now: datetime,
    details: dict[str, object] | None = None,
) -> None:
    AuditEntry.objects.create(
        project=project,
        actor=actor if isinstance(actor, User) else None,
        at=now,
        action=action,
        target=f"{target._meta.label_lower}:{target.pk}",
        details=details or {},
    )

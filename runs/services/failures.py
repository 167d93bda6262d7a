"""What a person says about a failure group: resolved, ignored for a while, or open again; each with a reason."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction

from controlplane.accounts.access import Actor, require
from controlplane.accounts.audit import record_audit
from controlplane.accounts.models import Role
from controlplane.errors import FieldError, Invalid, NotFound
from controlplane.live import publish
from runs.events import FleetChanged, fleet_topic
from sandboxes.models import FailureGroup

MAX_IGNORED = timedelta(days=365)


@transaction.atomic
def resolve_group(group_id: int, *, actor: Actor, reason: str, now: datetime) -> None:
    """Its cause is gone; if it fails again after this it has regressed. Raises NotFound, Forbidden, Invalid."""
    changes = {"resolved_at": now, "regressed_at": None, "ignored_until": None}
    _say_of(group_id, actor, "failure.resolve", reason, now, changes)


@transaction.atomic
def ignore_group(
    group_id: int, *, actor: Actor, reason: str, until: datetime, now: datetime
) -> None:
    """Known and not worth a look before `until`. Raises NotFound, Forbidden, Invalid."""
    if not now < until <= now + MAX_IGNORED:
        message = "Give a time that is yet to come, within a year."
        raise Invalid(message, code="bad_time", errors=[FieldError("/until", message)])
    _say_of(group_id, actor, "failure.ignore", reason, now, {"ignored_until": until})


@transaction.atomic
def reopen_group(group_id: int, *, actor: Actor, reason: str, now: datetime) -> None:
    """Neither resolved nor ignored any more. Raises NotFound, Forbidden, Invalid."""
    changes: dict[str, datetime | None] = {
        "resolved_at": None,
        "regressed_at": None,
        "ignored_until": None,
    }
    _say_of(group_id, actor, "failure.reopen", reason, now, changes)


def _say_of(
    group_id: int,
    actor: Actor,
    action: str,
    reason: str,
    now: datetime,
    changes: dict[str, datetime | None],
) -> None:
    group = FailureGroup.objects.select_for_update(no_key=True).filter(pk=group_id).first()
    if group is None:
        raise NotFound(f"There is no failure group {group_id} in a project of yours.")
    require(actor, group.project_id, Role.OPERATOR)
    for name, value in changes.items():
        setattr(group, name, value)
    group.state_reason, group.state_by = reason, str(actor)[:150]
    group.save(update_fields=[*changes, "state_reason", "state_by"])
    details: dict[str, object] = {"reason": reason}
    if changes.get("ignored_until"):
        details["until"] = str(changes["ignored_until"])
    record_audit(actor, action, group, project=group.project, now=now, details=details)
    publish(fleet_topic(group.project_id), FleetChanged(what="failures"))

"""Leases: whoever runs something owns it until one TTL after the last renewal, by the database's clock."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models.functions import Now

from controlplane.errors import LeaseLost
from runs.models import Stage


def lease_end() -> Any:
    """One TTL from now, by the database's clock."""
    return Now() + timedelta(seconds=settings.LEASE_TTL_S)


def owned_stage(stage_id: int, token: uuid.UUID) -> Stage:
    """The stage, locked, if the lease is still ours. Raises LeaseLost."""
    stage = (
        Stage.objects.select_for_update(of=("self",), no_key=True)
        .select_related("run")
        .filter(pk=stage_id, lease_token=token, status=Stage.Status.RUNNING)
        .first()
    )
    if stage is None:
        raise LeaseLost(f"Stage {stage_id} is no longer ours.")
    return stage

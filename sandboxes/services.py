"""Writing sandbox rows, failures and limits."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Case, F, Value, When
from django.db.models.functions import Coalesce

from sandboxes import failures
from sandboxes.models import Failure, FailureGroup, Limit, Sandbox

MAX_EVIDENCE_CHARS = 8_000


@transaction.atomic
def record_failure(
    project_id: int,
    failure: failures.Failure,
    *,
    attempt_id: int | None,
    run_id: int | None,
    host: str = "",
    engine: str = "",
    driver: str = "",
    now: datetime,
) -> Failure:
    """One failure, joined to the group of its fingerprint. A resolved group that fails again has regressed."""
    group, _ = FailureGroup.objects.get_or_create(
        project_id=project_id,
        fingerprint=failure.fingerprint,
        defaults={
            "stage": failure.stage,
            "kind": failure.kind,
            "message": failure.message[:2000],
            "first_at": now,
            "last_at": now,
        },
    )
    FailureGroup.objects.filter(pk=group.pk).update(
        num_failures=F("num_failures") + 1,
        last_at=now,
        regressed_at=Case(
            When(resolved_at__isnull=False, then=Coalesce("regressed_at", Value(now))),
            default=F("regressed_at"),
        ),
    )
    return Failure.objects.create(
        project_id=project_id,
        group=group,
        stage=failure.stage,
        kind=failure.kind,
        message=failure.message[:2000],
        attempt_id=attempt_id,
        run_id=run_id,
        host=host,
        engine=engine,
        driver=driver,
        evidence={key: _clipped(value) for key, value in failure.evidence.items()},
        is_by_policy=failure.by_policy,
        at=now,
    )


def _clipped(value: object) -> object:
    if not isinstance(value, str):
        return value
    return failures.storable(value[:MAX_EVIDENCE_CHARS])


def record_sandbox(
    project_id: int,
    *,
    key: str,
    driver: str,
    level: str,
    status: str,
    attempt_id: int,
    run_id: int,
    worker: str,
    timings: dict[str, float],
    now: datetime,
    is_ready: bool = False,
) -> None:
    """Create or bring up to date the row of a box; `gone` and `failed` end it."""
    ended = status in (Sandbox.Status.GONE, Sandbox.Status.FAILED)
    values: dict[str, Any] = {"status": status, "timings": timings, "level": level}
    if is_ready:
        values["ready_at"] = now
    if ended:
        values["finished_at"] = now
    if ended and Sandbox.objects.filter(key=key).update(**values):
        return
    row = Sandbox(
        project_id=project_id,
        key=key,
        driver=driver,
        attempt_id=attempt_id,
        run_id=run_id,
        worker=worker,
        created_at=now,
        **values,
    )
    Sandbox.objects.bulk_create(
        [row], update_conflicts=True, unique_fields=["key"], update_fields=list(values)
    )


def end_sandboxes(attempt_ids: list[int], *, now: datetime) -> int:
    """The rows of attempts whose worker is gone: their boxes died with it."""
    return (
        Sandbox.objects.filter(attempt_id__in=attempt_ids)
        .exclude(status__in=[Sandbox.Status.GONE, Sandbox.Status.FAILED])
        .update(status=Sandbox.Status.FAILED, finished_at=now)
    )


def record_limit(
    project_id: int,
    *,
    layer: str,
    name: str,
    scope: str = "",
    configured: float | None,
    measured: float | None,
    unit: str,
    now: datetime,
) -> None:
    """A cap with what is configured and what was measured just now; the peak is kept."""
    limit, _ = Limit.objects.update_or_create(
        project_id=project_id,
        layer=layer,
        name=name,
        scope=scope,
        defaults={
            "configured": configured,
            "measured": measured,
            "unit": unit,
            "measured_at": now,
        },
    )
    if measured is not None and (limit.peak is None or measured > limit.peak):
        Limit.objects.filter(pk=limit.pk).update(peak=measured)

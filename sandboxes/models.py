"""Sandboxes, infrastructure failures and limits. This app knows no run: attempts are numbers to it."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from controlplane.accounts.models import Project
from controlplane.lifecycle import LifecycleModel
from sandboxes.failures import FailureClass, FailureStage


class Sandbox(LifecycleModel):
    """One box of a provider.

    requested -> starting -> ready -> leased -> stopping -> gone
    any of them -> failed
    """

    class Status(models.TextChoices):
        REQUESTED = "requested"
        STARTING = "starting"
        READY = "ready"
        LEASED = "leased"
        STOPPING = "stopping"
        GONE = "gone"
        FAILED = "failed"

    TRANSITIONS = {
        "requested": frozenset({"starting", "failed", "gone"}),
        "starting": frozenset({"ready", "leased", "failed", "gone"}),
        "ready": frozenset({"leased", "stopping", "failed", "gone"}),
        "leased": frozenset({"stopping", "failed", "gone"}),
        "stopping": frozenset({"gone", "failed"}),
        "gone": frozenset(),
        "failed": frozenset(),
    }

    project = models.ForeignKey(Project, on_delete=models.PROTECT)
    key = models.CharField(max_length=100, unique=True)
    driver = models.CharField(max_length=20)
    level = models.CharField(max_length=40, default="")
    status = models.CharField(max_length=16, choices=Status, default=Status.REQUESTED)
    attempt_id = models.BigIntegerField(null=True, db_index=True)
    run_id = models.BigIntegerField(null=True, db_index=True)
    worker = models.CharField(max_length=200, default="")
    created_at = models.DateTimeField(db_index=True)
    ready_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    timings = models.JSONField(default=dict)
    """Seconds by life-cycle stage: admit, image, start, setup, exec, verify, teardown."""

    class Meta:
        indexes = [
            models.Index(fields=["status", "-created_at"], name="sandbox_status"),
            models.Index(fields=["attempt_id", "-id"], include=["driver"], name="sandbox_attempt"),
        ]

    def __str__(self) -> str:
        return f"sandbox {self.key}"


class FailureGroup(models.Model):
    """Failures with one fingerprint."""

    project = models.ForeignKey(Project, on_delete=models.PROTECT)
    fingerprint = models.CharField(max_length=300)
    stage = models.CharField(max_length=16, choices=[(s.value, s.value) for s in FailureStage])
    kind = models.CharField(max_length=24, choices=[(k.value, k.value) for k in FailureClass])
    message = models.TextField()
    num_failures = models.IntegerField(default=0)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField(db_index=True)
    resolved_at = models.DateTimeField(null=True)
    regressed_at = models.DateTimeField(null=True)
    """Since when it is back after it had been resolved; NULL once resolved again."""
    ignored_until = models.DateTimeField(null=True)
    state_reason = models.TextField(default="", db_default="", blank=True)
    state_by = models.CharField(max_length=150, default="", db_default="", blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "fingerprint"], name="one_failure_group")
        ]

    def __str__(self) -> str:
        return self.fingerprint


class Failure(models.Model):
    """One thing that the infrastructure did."""

    project = models.ForeignKey(Project, on_delete=models.PROTECT)
    group = models.ForeignKey(FailureGroup, on_delete=models.CASCADE, related_name="failures")
    stage = models.CharField(max_length=16, choices=[(s.value, s.value) for s in FailureStage])
    kind = models.CharField(max_length=24, choices=[(k.value, k.value) for k in FailureClass])
    message = models.TextField()
    attempt_id = models.BigIntegerField(null=True, db_index=True)
    run_id = models.BigIntegerField(null=True, db_index=True)
    host = models.CharField(max_length=200, default="")
    engine = models.CharField(max_length=200, default="")
    driver = models.CharField(max_length=20, default="")
    evidence = models.JSONField(default=dict)
    is_by_policy = models.BooleanField(default=False)
    at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.stage}/{self.kind}"


class Limit(models.Model):
    """A cap of some layer with its configured and its measured value."""

    project = models.ForeignKey(Project, on_delete=models.PROTECT)
    layer = models.CharField(max_length=40)
    name = models.CharField(max_length=100)
    scope = models.CharField(max_length=200, default="")
    configured = models.FloatField(null=True)
    measured = models.FloatField(null=True)
    peak = models.FloatField(null=True)
    unit = models.CharField(max_length=20, default="")
    measured_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "layer", "name", "scope"], name="one_limit"),
            models.CheckConstraint(
                name="limit_not_negative",
                condition=Q(configured__isnull=True) | Q(configured__gte=0),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.layer}: {self.name}"

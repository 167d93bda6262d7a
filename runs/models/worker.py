from __future__ import annotations

from django.db import models


class Node(models.Model):
    """A machine that workers and engines live on."""

    hostname = models.CharField(max_length=200, unique=True)
    boot_id = models.CharField(max_length=64, default="")
    num_cpus = models.IntegerField(default=0)
    memory_bytes = models.BigIntegerField(default=0)
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.hostname


class Worker(models.Model):
    """A Celery worker process, kept alive by its heartbeat; silent for one lease TTL means lost."""

    class Kind(models.TextChoices):
        ROLLOUT = "rollout"
        TRAIN = "train"
        ENGINE = "engine"

    class Status(models.TextChoices):
        LIVE = "live"
        DRAINING = "draining"
        LOST = "lost"
        GONE = "gone"

    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="workers")
    name = models.CharField(max_length=200)
    boot_id = models.CharField(max_length=64, unique=True)
    kind = models.CharField(max_length=16, choices=Kind)
    status = models.CharField(max_length=16, choices=Status, default=Status.LIVE)
    pid = models.IntegerField()
    num_slots = models.IntegerField()
    capabilities = models.JSONField(default=dict)
    """What the probe of this worker's sandbox driver found."""
    started_at = models.DateTimeField()
    last_seen_at = models.DateTimeField(db_index=True)

    class Meta:
        indexes = [models.Index(fields=["kind", "status"], name="worker_kind_status")]

    def __str__(self) -> str:
        return f"{self.kind} worker {self.name}"

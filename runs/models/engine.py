from __future__ import annotations

from django.db import models

from controlplane.lifecycle import LifecycleModel
from runs.models.run import Run


class Engine(LifecycleModel):
    """One inference server process of a run. It takes traffic only while `serving`.

    starting -> syncing -> serving <-> paused
    any of them -> draining -> gone;  any of them -> lost
    """

    class Status(models.TextChoices):
        STARTING = "starting"
        SYNCING = "syncing"
        SERVING = "serving"
        PAUSED = "paused"
        DRAINING = "draining"
        GONE = "gone"
        LOST = "lost"

    _ENDS = frozenset({"draining", "gone", "lost"})
    TRANSITIONS = {
        "starting": frozenset({"syncing"}) | _ENDS,
        "syncing": frozenset({"serving"}) | _ENDS,
        "serving": frozenset({"paused", "syncing"}) | _ENDS,
        "paused": frozenset({"serving", "syncing"}) | _ENDS,
        "draining": frozenset({"gone", "lost"}),
        "gone": frozenset(),
        "lost": frozenset(),
    }
    LIVE = ("starting", "syncing", "serving", "paused", "draining")

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="engines")
    index = models.IntegerField()
    status = models.CharField(max_length=16, choices=Status, default=Status.STARTING)
    url = models.CharField(max_length=300, default="")
    boot_id = models.CharField(max_length=64, default="")
    pid = models.IntegerField(null=True)
    weight_version = models.IntegerField(null=True)
    """What /model_info confirmed last."""
    lease_token = models.UUIDField(null=True)
    lease_expires_at = models.DateTimeField(null=True)
    worker = models.ForeignKey("Worker", null=True, on_delete=models.SET_NULL)
    dispatched_at = models.DateTimeField(null=True)
    load = models.JSONField(default=dict)
    """Out of the last /v1/loads, under our names (runs.selectors.fleet.EngineLoadRow)."""
    failure_message = models.TextField(default="")
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    synced_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["index", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["run", "index"],
                name="one_live_engine_per_index",
                condition=models.Q(
                    status__in=["starting", "syncing", "serving", "paused", "draining"]
                ),
            )
        ]

    def __str__(self) -> str:
        return f"engine {self.index} of run {self.run_id}"

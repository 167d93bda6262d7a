from __future__ import annotations

from django.db import models

from controlplane.lifecycle import LifecycleModel
from runs.models.run import Run, Stage


class Checkpoint(LifecycleModel):
    """A trainer state that a run can go on from.

    writing -> complete -> pruned | corrupt
    """

    class Status(models.TextChoices):
        WRITING = "writing"
        COMPLETE = "complete"
        PRUNED = "pruned"
        CORRUPT = "corrupt"

    TRANSITIONS = {
        "writing": frozenset({"complete", "corrupt"}),
        "complete": frozenset({"pruned", "corrupt"}),
        "pruned": frozenset(),
        "corrupt": frozenset(),
    }

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="checkpoints")
    stage = models.ForeignKey(Stage, on_delete=models.CASCADE, related_name="checkpoints")
    step = models.IntegerField()
    """The last step (of this stage) that the state contains; an SFT stage's end is its last step."""
    resume = models.IntegerField()
    weight_version = models.IntegerField()
    status = models.CharField(max_length=16, choices=Status, default=Status.WRITING)
    blob = models.CharField(max_length=300, default="")
    num_bytes = models.BigIntegerField(default=0)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"checkpoint at step {self.step} of run {self.run_id}"


class WeightVersion(models.Model):
    """Published weights: integer, +1 for each, per run, never reused."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="weight_versions")
    version = models.IntegerField()
    parent_version = models.IntegerField(null=True)
    """The lineage: the version that this one was trained from."""
    resume = models.IntegerField()
    step = models.IntegerField()
    blob = models.CharField(max_length=300)
    """Blob prefix of the directory (HF layout, manifest.json last)."""
    published_at = models.DateTimeField()
    pruned_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "version"], name="one_weight_version")
        ]

    def __str__(self) -> str:
        return f"version {self.version} of run {self.run_id}"

from __future__ import annotations

from django.db import models

from controlplane.lifecycle import LifecycleModel
from runs.models.run import Run, Stage


class Step(LifecycleModel):
    """One optimizer step.

    collecting -> training -> publishing -> done | failed
    done -> superseded by a roll-back only
    """

    class Status(models.TextChoices):
        COLLECTING = "collecting"
        TRAINING = "training"
        PUBLISHING = "publishing"
        DONE = "done"
        FAILED = "failed"
        SUPERSEDED = "superseded"

    TRANSITIONS = {
        "collecting": frozenset({"training", "failed"}),
        "training": frozenset({"publishing", "done", "failed"}),
        "publishing": frozenset({"done", "failed"}),
        "done": frozenset({"superseded"}),
        "failed": frozenset(),
        "superseded": frozenset(),
    }

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="steps")
    stage = models.ForeignKey(Stage, on_delete=models.CASCADE, related_name="steps")
    index = models.IntegerField()
    resume = models.IntegerField()
    status = models.CharField(max_length=16, choices=Status, default=Status.COLLECTING)
    trained_version = models.IntegerField()
    """The weights at the start of the step."""
    published_version = models.IntegerField(null=True)
    num_groups = models.IntegerField(default=0)
    num_trajectories = models.IntegerField(default=0)
    reward_mean = models.FloatField(null=True)
    wait_s = models.FloatField(default=0)
    logprob_s = models.FloatField(default=0)
    update_s = models.FloatField(default=0)
    publish_s = models.FloatField(default=0)
    metrics = models.JSONField(default=dict)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["stage", "resume", "index"]
        constraints = [
            models.UniqueConstraint(fields=["stage", "resume", "index"], name="one_step_per_life")
        ]

    def __str__(self) -> str:
        return f"step {self.index} of run {self.run_id}"


class Consumption(models.Model):
    """A step trained on a trajectory. More than one row of steps that still count is a trajectory trained twice."""

    step = models.ForeignKey(Step, on_delete=models.CASCADE, related_name="consumptions")
    trajectory = models.ForeignKey(
        "Trajectory", on_delete=models.CASCADE, related_name="consumptions"
    )
    logprobs = models.CharField(max_length=300, default="", db_default="", blank=True)
    """Blob key of the trainer's own log-probs of the trained tokens, where they were kept."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["step", "trajectory"], name="consumed_once_a_step")
        ]

    def __str__(self) -> str:
        return f"{self.trajectory_id} in step {self.step_id}"

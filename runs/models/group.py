from __future__ import annotations

from django.db import models
from django.db.models import Q

from controlplane.lifecycle import LifecycleModel
from runs.models.run import Run, Stage
from runs.models.task import Task


class Group(LifecycleModel):
    """The sibling trajectories of one task: the GRPO baseline.

    open -> ready -> consumed (by a step) | scored (evaluation)
    open, ready -> dropped (with a reason)
    consumed -> ready | dropped by a roll-back only
    """

    class Status(models.TextChoices):
        OPEN = "open"
        READY = "ready"
        CONSUMED = "consumed"
        SCORED = "scored"
        DROPPED = "dropped"

    class DropReason(models.TextChoices):
        STALE = "stale"
        TOO_FEW_VALID = "too_few_valid"
        SUPERSEDED = "superseded"
        CANCELLED = "cancelled"
        ZERO_VARIANCE = "zero_variance"

    TRANSITIONS = {
        "open": frozenset({"ready", "scored", "dropped"}),
        "ready": frozenset({"consumed", "scored", "dropped"}),
        "consumed": frozenset({"ready", "dropped"}),
        "scored": frozenset(),
        "dropped": frozenset(),
    }

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="groups")
    stage = models.ForeignKey(Stage, on_delete=models.CASCADE, related_name="groups")
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="groups")
    index = models.IntegerField()
    status = models.CharField(max_length=16, choices=Status, default=Status.OPEN)
    drop_reason = models.CharField(max_length=16, choices=DropReason, default="", blank=True)
    resume = models.IntegerField()
    opened_version = models.IntegerField()
    oldest_version = models.IntegerField(null=True)
    """The oldest weights that wrote a token of a valid member; NULL until a member has finished."""
    num_members = models.IntegerField()
    num_ended = models.IntegerField(default=0)
    num_valid = models.IntegerField(null=True)
    reward_mean = models.FloatField(null=True)
    reward_std = models.FloatField(null=True)
    step = models.ForeignKey("Step", null=True, on_delete=models.SET_NULL, related_name="groups")
    opened_at = models.DateTimeField()
    ready_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["stage", "status", "index"], name="group_stage_status")]
        constraints = [
            models.UniqueConstraint(fields=["stage", "index"], name="one_group_per_index"),
            models.CheckConstraint(
                name="a_consumed_group_names_its_step",
                condition=~Q(status="consumed") | Q(step__isnull=False),
            ),
            models.CheckConstraint(
                name="a_dropped_group_says_why", condition=~Q(status="dropped") | ~Q(drop_reason="")
            ),
        ]

    def __str__(self) -> str:
        return f"group {self.pk}"

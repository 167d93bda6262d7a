from __future__ import annotations

from django.db import models
from django.db.models import Q

from controlplane.accounts.models import Project, User
from controlplane.lifecycle import LifecycleModel

TERMINAL_RUN = ["succeeded", "failed", "cancelled"]


class Run(LifecycleModel):
    """One execution of a recipe.

    draft -> queued -> running <-> paused
                       running, paused -> stopping -> cancelled
                       running -> succeeded | failed
    failed, cancelled -> queued by an explicit resume
    """

    class Status(models.TextChoices):
        DRAFT = "draft"
        QUEUED = "queued"
        RUNNING = "running"
        PAUSED = "paused"
        STOPPING = "stopping"
        SUCCEEDED = "succeeded"
        FAILED = "failed"
        CANCELLED = "cancelled"

    TRANSITIONS = {
        "draft": frozenset({"queued", "cancelled"}),
        "queued": frozenset({"running", "cancelled", "failed"}),
        "running": frozenset({"paused", "stopping", "succeeded", "failed"}),
        "paused": frozenset({"running", "stopping", "failed"}),
        "stopping": frozenset({"cancelled"}),
        "succeeded": frozenset(),
        "failed": frozenset({"queued"}),
        "cancelled": frozenset({"queued"}),
    }
    ACTIVE = ("queued", "running", "paused", "stopping")

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="runs")
    name = models.CharField(max_length=200)
    status = models.CharField(max_length=16, choices=Status, default=Status.DRAFT)
    recipe = models.JSONField()
    recipe_source = models.TextField()
    seed = models.IntegerField()
    created_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL)
    idempotency_key = models.CharField(max_length=200, null=True)
    wait_sentence = models.TextField(default="")
    """What the run waits for now, and why, in one sentence."""
    stop_reason = models.TextField(default="")
    resume = models.IntegerField(default=0)
    """Which life of the trainer this is; metric cursors are (resume, step)."""
    weight_version = models.IntegerField(default=0)
    """The newest published weights; engines converge to it."""
    next_version = models.IntegerField(default=1)
    """Never reused: after a roll-back numbers go on."""
    num_auto_resumes = models.IntegerField(default=0)
    is_demo = models.BooleanField(default=False, db_default=False)
    """Synthetic data of `manage.py seed_demo`: labelled on every page, never mistaken for a run."""
    cloned_from = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="+")
    from_checkpoint = models.ForeignKey(
        "Checkpoint", null=True, on_delete=models.SET_NULL, related_name="+"
    )
    """Where its first weights come from, instead of the recipe's model."""
    checkpoint_asked_at = models.DateTimeField(null=True)
    """Somebody wants a checkpoint at the end of the step in training; NULL once it is written."""
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    cpu_s = models.FloatField(default=0)
    """CPU seconds of workers, engines, trainer and sandboxes charged to the run."""

    class Meta:
        indexes = [models.Index(fields=["project", "-created_at"], name="run_project")]
        constraints = [
            models.CheckConstraint(
                name="run_finished_at_iff_terminal",
                condition=Q(finished_at__isnull=False, status__in=TERMINAL_RUN)
                | (Q(finished_at__isnull=True) & ~Q(status__in=TERMINAL_RUN)),
            ),
            models.UniqueConstraint(
                fields=["project", "idempotency_key"], name="one_run_per_idempotency_key"
            ),
        ]

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL_RUN

    def __str__(self) -> str:
        return f"run {self.pk}"


class Stage(LifecycleModel):
    """One part of a run, starting from the checkpoint before it.

    pending -> running -> succeeded | failed | cancelled
    pending -> skipped | cancelled;  failed | cancelled -> pending when the run is resumed
    """

    class Status(models.TextChoices):
        PENDING = "pending"
        RUNNING = "running"
        SUCCEEDED = "succeeded"
        FAILED = "failed"
        CANCELLED = "cancelled"
        SKIPPED = "skipped"

    class Kind(models.TextChoices):
        EVAL = "eval"
        SFT = "sft"
        RL = "rl"

    TRANSITIONS = {
        "pending": frozenset({"running", "skipped", "cancelled"}),
        "running": frozenset({"succeeded", "failed", "cancelled"}),
        "succeeded": frozenset(),
        "failed": frozenset({"pending"}),
        "cancelled": frozenset({"pending"}),
        "skipped": frozenset(),
    }

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="stages")
    index = models.IntegerField()
    kind = models.CharField(max_length=8, choices=Kind)
    name = models.CharField(max_length=100)
    status = models.CharField(max_length=16, choices=Status, default=Status.PENDING)
    weight_version = models.IntegerField(null=True)
    """Of an eval stage: the version all its turns must carry."""
    next_group_index = models.IntegerField(default=0)
    """Groups opened so far: task order is a seeded permutation per epoch, indexed by this."""
    num_steps_done = models.IntegerField(default=0)
    num_steps = models.IntegerField(default=0)
    progress = models.JSONField(default=dict)
    result = models.JSONField(default=dict)
    failure_message = models.TextField(default="")
    lease_token = models.UUIDField(null=True)
    lease_expires_at = models.DateTimeField(null=True)
    lease_worker = models.ForeignKey("Worker", null=True, on_delete=models.SET_NULL)
    dispatched_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["index"]
        constraints = [
            models.UniqueConstraint(fields=["run", "index"], name="one_stage_per_index"),
            models.UniqueConstraint(fields=["run", "name"], name="one_stage_per_name"),
        ]

    def __str__(self) -> str:
        return f"stage {self.name} of run {self.run_id}"

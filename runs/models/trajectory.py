from __future__ import annotations

from django.db import models
from django.db.models import Q

from controlplane.lifecycle import LifecycleModel
from runs.models.group import Group
from runs.models.run import Run, Stage
from runs.models.task import Task


class Trajectory(LifecycleModel):
    """One of a task's k samples by the policy. Its reward comes from its one completed attempt.

    open -> completed | failed (its retry budget is spent) | cancelled
    """

    class Status(models.TextChoices):
        OPEN = "open"
        COMPLETED = "completed"
        FAILED = "failed"
        CANCELLED = "cancelled"

    TRANSITIONS = {
        "open": frozenset({"completed", "failed", "cancelled"}),
        "completed": frozenset(),
        "failed": frozenset(),
        "cancelled": frozenset(),
    }

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="trajectories")
    stage = models.ForeignKey(Stage, on_delete=models.CASCADE, related_name="trajectories")
    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="trajectories")
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="trajectories")
    index = models.IntegerField()
    status = models.CharField(max_length=16, choices=Status, default=Status.OPEN)
    num_attempts = models.IntegerField(default=0)
    reward = models.FloatField(null=True)
    advantage = models.FloatField(null=True)
    stop_reason = models.CharField(max_length=20, default="", blank=True)
    num_turns = models.IntegerField(default=0)
    prompt_tokens = models.IntegerField(default=0)
    output_tokens = models.IntegerField(default=0)
    version_min = models.IntegerField(null=True)
    version_max = models.IntegerField(null=True)
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["run", "-id"], name="trajectory_run"),
            models.Index(fields=["stage", "status"], name="trajectory_stage_status"),
            models.Index(fields=["run", "finished_at"], name="trajectory_finished"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["group", "index"], name="one_member_per_index"),
            models.CheckConstraint(
                name="a_trajectory_has_a_reward_iff_completed",
                condition=Q(status="completed", reward__isnull=False)
                | (~Q(status="completed") & Q(reward__isnull=True)),
            ),
        ]

    def __str__(self) -> str:
        return f"trajectory {self.pk}"


class Attempt(LifecycleModel):
    """A try at running one trajectory. Every attempt is kept.

    queued -> starting -> running -> grading -> completed | failed | cancelled
    """

    class Status(models.TextChoices):
        QUEUED = "queued"
        STARTING = "starting"
        RUNNING = "running"
        GRADING = "grading"
        COMPLETED = "completed"
        FAILED = "failed"
        CANCELLED = "cancelled"

    class StopReason(models.TextChoices):
        SUBMITTED = "submitted"
        TURN_CAP = "turn_cap"
        TOKEN_CAP = "token_cap"  # noqa: S105 - a cap
        TURN_TOKEN_CAP = "turn_token_cap"  # noqa: S105 - a cap
        TIME_CAP = "time_cap"
        NO_ACTION = "no_action"
        LOOP = "loop"
        BROKE_SANDBOX = "broke_sandbox"
        """The agent's own commands ended its box twice: attributed to the policy, reward 0."""

    class CancelReason(models.TextChoices):
        STALE = "stale"
        GROUP_RELEASED = "group_released"
        RUN_STOPPED = "run_stopped"
        SUPERSEDED = "superseded"

    _ENDS = frozenset({"completed", "failed", "cancelled"})
    TRANSITIONS = {
        "queued": frozenset({"starting", "failed", "cancelled"}),
        "starting": frozenset({"running", "failed", "cancelled"}),
        "running": frozenset({"grading", "failed", "cancelled"}),
        "grading": _ENDS,
        "completed": frozenset(),
        "failed": frozenset(),
        "cancelled": frozenset(),
    }
    IN_FLIGHT = ("starting", "running", "grading")

    trajectory = models.ForeignKey(Trajectory, on_delete=models.CASCADE, related_name="attempts")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="attempts")
    stage = models.ForeignKey(Stage, on_delete=models.CASCADE, related_name="attempts")
    number = models.IntegerField()
    status = models.CharField(max_length=16, choices=Status, default=Status.QUEUED)
    not_before = models.DateTimeField(null=True)
    """A refusal of capacity waits until then before it is dispatched again."""
    dispatched_at = models.DateTimeField(null=True)
    lease_token = models.UUIDField(null=True)
    lease_expires_at = models.DateTimeField(null=True)
    worker = models.ForeignKey("Worker", null=True, on_delete=models.SET_NULL)
    engine = models.ForeignKey("Engine", null=True, on_delete=models.SET_NULL)
    cancel_reason = models.CharField(max_length=16, choices=CancelReason, default="", blank=True)
    """Set to ask a running attempt to end; its worker learns it with its next heartbeat."""
    stop_reason = models.CharField(max_length=20, choices=StopReason, default="", blank=True)
    reward = models.FloatField(null=True)
    is_attributed_to_policy = models.BooleanField(default=False)
    failure_stage = models.CharField(max_length=16, default="", blank=True)
    failure_class = models.CharField(max_length=24, default="", blank=True)
    failure_message = models.TextField(default="", blank=True)
    is_suspect = models.BooleanField(default=False)
    """The failure may be the agent's own doing; the second suspicion is attributed to the policy."""
    blob = models.CharField(max_length=300, default="", blank=True)
    """Blob key of tokens, mask, log-probs and versions (workers/rl/arrays.py)."""
    num_turns = models.IntegerField(default=0)
    prompt_tokens = models.IntegerField(default=0)
    output_tokens = models.IntegerField(default=0)
    version_min = models.IntegerField(null=True)
    version_max = models.IntegerField(null=True)
    timings = models.JSONField(default=dict)
    """Seconds: queue, start, setup, llm, exec, verify, teardown."""
    patch = models.TextField(default="", db_default="", blank=True)
    """Unified diff of the workspace against its base as it was graded; cut at a cap."""
    is_patch_cut = models.BooleanField(default=False, db_default=False)
    num_llm_errors = models.IntegerField(default=0, db_default=0)
    """Model calls that failed, tried again or not; the turns are those that did not."""
    grade = models.JSONField(default=dict)
    """What the verifier said: {details, output, duration_s}."""
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["status", "run", "id"],
                name="attempt_live",
                condition=Q(status__in=["queued", "starting", "running", "grading"]),
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["trajectory", "number"], name="one_attempt_number"),
            models.CheckConstraint(
                name="an_attempt_has_a_reward_iff_completed",
                condition=Q(status="completed", reward__isnull=False)
                | (~Q(status="completed") & Q(reward__isnull=True)),
            ),
            models.CheckConstraint(
                name="a_failed_attempt_names_its_failure",
                condition=~Q(status="failed") | ~Q(failure_class=""),
            ),
            models.CheckConstraint(
                name="a_completed_attempt_has_a_stop_reason",
                condition=~Q(status="completed") | ~Q(stop_reason=""),
            ),
            models.CheckConstraint(
                name="an_attempt_in_flight_has_a_lease",
                condition=~Q(status__in=["starting", "running", "grading"])
                | Q(lease_token__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number} of trajectory {self.trajectory_id}"


class Turn(models.Model):
    """One model call, its action and the observation that came back. Written by COPY, never updated."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="turns")
    index = models.IntegerField()
    started_at = models.DateTimeField()
    llm_s = models.FloatField()
    queue_s = models.FloatField(null=True)
    """Of llm_s, the wait in the engine's queue, where the engine says it."""
    exec_s = models.FloatField()
    action = models.TextField()
    command = models.TextField()
    observation = models.TextField()
    log = models.TextField()
    """The raw output; empty where it equals the observation."""
    exit_code = models.IntegerField(null=True)
    finish_reason = models.CharField(max_length=16)
    prompt_tokens = models.IntegerField()
    output_tokens = models.IntegerField()
    cached_tokens = models.IntegerField()
    version_min = models.IntegerField(null=True)
    version_max = models.IntegerField(null=True)
    is_timed_out = models.BooleanField()
    truncated_bytes = models.IntegerField()

    class Meta:
        ordering = ["index"]
        constraints = [models.UniqueConstraint(fields=["attempt", "index"], name="one_turn_index")]

    def __str__(self) -> str:
        return f"turn {self.index} of attempt {self.attempt_id}"

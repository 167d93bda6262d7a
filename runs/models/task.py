from __future__ import annotations

from django.db import models

from controlplane.accounts.models import Project


class TaskSet(models.Model):
    """A named, versioned collection of tasks; the split says what it may be used for."""

    class Split(models.TextChoices):
        TRAIN = "train"
        VALIDATION = "validation"
        HELD_OUT = "held_out"

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="task_sets")
    name = models.CharField(max_length=100)
    version = models.IntegerField()
    split = models.CharField(max_length=16, choices=Split)
    digest = models.CharField(max_length=64)
    num_tasks = models.IntegerField()
    source = models.CharField(max_length=300, default="")
    baselines = models.JSONField(default=dict)
    """Reference lines of an evaluation on this set, e.g. blind search: {name: {mean, low, high}}."""
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project", "name", "version"], name="one_task_set_version"
            )
        ]

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


class Task(models.Model):
    """A problem the policy is asked to solve: a repository in a state, an issue text, hidden tests."""

    task_set = models.ForeignKey(TaskSet, on_delete=models.CASCADE, related_name="tasks")
    key = models.CharField(max_length=200)
    repository = models.CharField(max_length=200)
    instruction = models.TextField()
    difficulty = models.CharField(max_length=40, default="")
    archive = models.CharField(max_length=300)
    """Blob key of the task directory (a tar): environment/, tests/, task.toml."""
    digest = models.CharField(max_length=64)
    setup = models.TextField(default="")
    verify_timeout_s = models.FloatField(default=60)
    quarantined_at = models.DateTimeField(null=True)
    quarantine_reason = models.TextField(default="")

    class Meta:
        ordering = ["key"]
        constraints = [models.UniqueConstraint(fields=["task_set", "key"], name="one_task_key")]

    def __str__(self) -> str:
        return self.key

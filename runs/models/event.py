from __future__ import annotations

from django.db import models

from runs.models.run import Run


class Event(models.Model):
    """One line of a run's event feed: every automatic move writes a sentence."""

    class Level(models.TextChoices):
        INFO = "info"
        WARNING = "warning"
        ERROR = "error"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField()
    level = models.CharField(max_length=8, choices=Level, default=Level.INFO)
    kind = models.CharField(max_length=60)
    sentence = models.TextField()
    data = models.JSONField(default=dict)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["run", "-id"], name="event_run")]

    def __str__(self) -> str:
        return self.sentence

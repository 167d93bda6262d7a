from __future__ import annotations

from django.db import models

from runs.models.run import Run


class MetricPoint(models.Model):
    """One point of a curve. NaN and infinities are stored as they are (double precision knows them)."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="metric_points")
    name = models.CharField(max_length=100)
    resume = models.IntegerField()
    step = models.IntegerField()
    value = models.FloatField()
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "name", "resume", "step"], name="one_metric_point"
            )
        ]

    def __str__(self) -> str:
        return f"{self.name}[{self.step}] = {self.value}"

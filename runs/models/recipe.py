from __future__ import annotations

from django.db import models

from controlplane.accounts.models import Project


class Recipe(models.Model):
    """A stored recipe: the text that a person edits. A run keeps its own copy."""

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="recipes")
    name = models.CharField(max_length=100)
    source = models.TextField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="one_recipe_name")]

    def __str__(self) -> str:
        return self.name

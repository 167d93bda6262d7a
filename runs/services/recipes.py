"""Stored recipes."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from controlplane.accounts.access import Actor, require
from controlplane.accounts.models import Project, Role
from runs.models import Recipe
from runs.recipe import load


@transaction.atomic
def save_recipe(actor: Actor, project: Project, *, name: str, source: str, now: datetime) -> Recipe:
    """Create or replace the project's recipe of this name. Raises Invalid, Forbidden."""
    require(actor, project.pk, Role.OPERATOR)
    load(source)
    recipe, _ = Recipe.objects.update_or_create(
        project=project, name=name, defaults={"source": source, "updated_at": now}
    )
    return recipe

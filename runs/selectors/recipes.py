"""Stored recipes as the actor may see them."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Any

from django.db.models import F
from typing_extensions import TypedDict

from controlplane.accounts.access import Actor, visible_projects
from controlplane.errors import NotFound
from controlplane.pages import Rows
from runs import recipe as schema
from runs.models import Recipe, Run


class StoredRecipeRow(TypedDict):
    """The text that a person edits. A run keeps its own copy."""

    id: int
    project: str
    name: str
    source: str
    updated_at: datetime


def recipes(actor: Actor, *, project: str | None = None) -> Rows[StoredRecipeRow]:
    query = Recipe.objects.filter(project__in=visible_projects(actor))
    if project:
        query = query.filter(project__slug=project)
    fields = ("id", "name", "source", "updated_at")
    return Rows(query.values(*fields, project_slug=F("project__slug")), _recipe_rows)


def _recipe_rows(rows: list[dict[str, Any]]) -> list[StoredRecipeRow]:
    for row in rows:
        row["project"] = row.pop("project_slug")
    return rows  # type: ignore[return-value]


def recipe_named(actor: Actor, name: str, *, project: str | None = None) -> StoredRecipeRow:
    """Raises NotFound."""
    found = recipes(actor, project=project)
    rows = found.shape(list(found.query.filter(name=name).order_by("id")[:1]))
    if not rows:
        raise NotFound(f"There is no recipe {name} in a project of yours.")
    return rows[0]


@lru_cache(maxsize=256)
def recipe_of(run_id: int) -> schema.Recipe:
    """The recipe that the run was launched with, which never changes after. Raises Run.DoesNotExist."""
    return schema.parse(Run.objects.values_list("recipe", flat=True).get(pk=run_id))

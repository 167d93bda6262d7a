"""Projects, the actor and their tokens."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from django.db.models import F, QuerySet
from typing_extensions import TypeAliasType, TypedDict

from controlplane.accounts import models
from controlplane.accounts.access import Actor, lower_role, presented_token, visible_projects
from controlplane.accounts.models import ApiToken, Membership, Project, User
from controlplane.errors import Invalid, NotFound
from controlplane.pages import Rows

Role = TypeAliasType("Role", Literal["viewer", "operator", "admin"])


class ProjectRow(TypedDict):
    """A project and what the actor may do in it."""

    id: int
    slug: str
    name: str
    role: Role
    created_at: datetime


class UserRow(TypedDict):
    id: int
    username: str
    is_superuser: bool


class MeRow(TypedDict):
    """Who asks, where they may do what, and the token that a browser sends as X-CSRFToken."""

    user: UserRow
    projects: list[ProjectRow]
    csrf: str


class TokenRow(TypedDict):
    """An API token without its secret."""

    id: int
    name: str
    project: str
    role: Role
    prefix: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None


_PROJECT = ["id", "slug", "name", "created_at"]


def projects(actor: Actor) -> Rows[ProjectRow]:
    query: QuerySet[Any, dict[str, Any]] = visible_projects(actor).values(*_PROJECT)

    def with_roles(rows: list[dict[str, Any]]) -> list[ProjectRow]:
        roles = _roles(actor)
        return [
            ProjectRow(**row, role=roles.get(row["id"], models.Role.ADMIN.value))  # type: ignore[typeddict-item]
            for row in rows
        ]

    return Rows(query, with_roles, key="id")


def _roles(actor: Actor) -> dict[int, str]:
    """By project; nobody but a superuser sees a project that is missing here, and is its admin."""
    if not isinstance(actor, User):
        return {}
    roles: dict[int, str] = {}
    if not actor.is_superuser:
        roles = dict(Membership.objects.filter(user=actor).values_list("project_id", "role"))
    token = presented_token(actor)
    if token is not None:
        held = roles.get(token.project_id, models.Role.ADMIN.value)
        roles[token.project_id] = lower_role(held, token.role)
    return roles


def project_named(actor: Actor, slug: str | None) -> Project:
    """The project that a request means: the named one, or the only one the actor is in.

    Raises NotFound; Invalid when it must be named.
    """
    visible = visible_projects(actor)
    if slug is not None:
        found = visible.filter(slug=slug).first()
        if found is None:
            raise NotFound(f"There is no project {slug} of yours.")
        return found
    few = list(visible.order_by("id")[:2])
    if not few:
        raise NotFound("You are in no project yet; ask an admin to add you to one.")
    if len(few) > 1:
        raise Invalid("You are in several projects: say which one.", code="project_needed")
    return few[0]


def tokens(actor: Actor) -> Rows[TokenRow]:
    """The actor's own, newest first, revoked ones too."""
    owner = actor if isinstance(actor, User) else None
    fields = [name for name in TokenRow.__annotations__ if name != "project"]
    query = ApiToken.objects.filter(user=owner).values(*fields, project_slug=F("project__slug"))

    def shape(rows: list[dict[str, Any]]) -> list[TokenRow]:
        return [TokenRow(**{**_without(row), "project": row["project_slug"]}) for row in rows]  # type: ignore[typeddict-item]

    return Rows(query, shape)


def _without(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "project_slug"}

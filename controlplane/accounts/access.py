"""The one permission check: what a user's role in a project lets them do."""

from __future__ import annotations

from django.contrib.auth.models import AnonymousUser
from django.db.models import QuerySet

from controlplane.accounts.models import ApiToken, Membership, Project, Role, User
from controlplane.errors import Forbidden, NotFound

Actor = User | AnonymousUser

_RANK = {Role.VIEWER.value: 1, Role.OPERATOR.value: 2, Role.ADMIN.value: 3}


def role_in(actor: Actor, project_id: int) -> str | None:
    """The actor's role in a project; a request by token is capped by the token's project and role."""
    if not isinstance(actor, User) or not actor.is_active:
        return None
    if actor.is_superuser:
        role: str | None = Role.ADMIN.value
    else:
        role = (
            Membership.objects.filter(user=actor, project_id=project_id)
            .values_list("role", flat=True)
            .first()
        )
    token = presented_token(actor)
    if role is None or token is None:
        return role
    if token.project_id != project_id:
        return None
    return lower_role(role, token.role)


def lower_role(one: str, other: str) -> str:
    return min(one, other, key=_RANK.__getitem__)


def presented_token(actor: User) -> ApiToken | None:
    """The API token that this request came with, if it did."""
    return getattr(actor, "presented_token", None)


def require(actor: Actor, project_id: int, role: Role) -> None:
    """Raises NotFound when the actor may not know of the project, Forbidden when the role is too low."""
    held = role_in(actor, project_id)
    if held is None:
        raise NotFound("There is no such thing in a project of yours.")
    if _RANK[held] < _RANK[role.value]:
        raise Forbidden(f"This needs the role {role.value} in the project; yours is {held}.")


def require_anywhere(actor: Actor, role: Role) -> None:
    """For machines, which belong to no project: the role in some project. Raises NotFound, Forbidden."""
    held = [role_in(actor, pk) for pk in visible_projects(actor).values_list("pk", flat=True)]
    best = max((one for one in held if one), key=_RANK.__getitem__, default=None)
    if best is None:
        raise NotFound("You are in no project.")
    if _RANK[best] < _RANK[role.value]:
        raise Forbidden(f"This needs the role {role.value} in a project; yours is {best}.")


def visible_projects(actor: Actor) -> QuerySet[Project]:
    """The projects that the actor may read."""
    if not isinstance(actor, User) or not actor.is_active:
        return Project.objects.none()
    projects = Project.objects.all()
    if not actor.is_superuser:
        projects = projects.filter(memberships__user=actor)
    token = presented_token(actor)
    return projects.filter(pk=token.project_id) if token else projects

"""Finding task sets by the names that recipes use."""

from __future__ import annotations

from django.db.models import QuerySet

from controlplane.accounts.models import Project
from controlplane.errors import NotFound
from runs.models import Task, TaskSet


def task_set_named(project: Project, reference: str) -> TaskSet:
    """`name` is its latest version, `name@3` a fixed one. Raises NotFound."""
    name, _, version = reference.partition("@")
    sets = TaskSet.objects.filter(project=project, name=name)
    if version:
        sets = sets.filter(version=int(version)) if version.isdecimal() else sets.none()
    found = sets.order_by("-version").first()
    if found is None:
        raise NotFound(
            f"There is no task set {reference} in project {project.slug}; import it first "
            "(`manage.py import_tasks`)."
        )
    return found


def usable_tasks(task_set: TaskSet) -> QuerySet[Task]:
    """Its tasks that are not in quarantine, in a fixed order."""
    return task_set.tasks.filter(quarantined_at__isnull=True).order_by("key")

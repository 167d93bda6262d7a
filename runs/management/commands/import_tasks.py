"""`manage.py import_tasks DIR --name NAME --split train`: a folder of Harbor task directories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from controlplane.accounts.models import Project
from controlplane.accounts.services.users import DEFAULT_PROJECT, ensure_first_admin
from controlplane.blobs import BlobStore
from controlplane.errors import Invalid
from runs.models import TaskSet
from runs.services.task_sets import import_task_set


class Command(BaseCommand):
    help = "Import task directories as a new version of a task set."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("directory", type=Path)
        parser.add_argument("--name", required=True)
        parser.add_argument("--split", required=True, choices=TaskSet.Split.values)
        parser.add_argument("--project", default=DEFAULT_PROJECT)

    def handle(self, *_: Any, **options: Any) -> None:
        ensure_first_admin(now=timezone.now())
        project = Project.objects.filter(slug=options["project"]).first()
        if project is None:
            raise CommandError(f"There is no project {options['project']}.")
        if not options["directory"].is_dir():
            raise CommandError(f"{options['directory']} is not a folder.")
        try:
            task_set = import_task_set(
                project,
                BlobStore(settings.BLOB_URL),
                name=options["name"],
                split=options["split"],
                directory=options["directory"],
                now=timezone.now(),
                source=str(options["directory"]),
            )
        except Invalid as error:
            lines = [f"  {field.pointer}: {field.message}" for field in error.errors]
            raise CommandError("\n".join([error.message, *lines])) from error
        self.stdout.write(f"{task_set}: {task_set.num_tasks} tasks")

"""`manage.py create_token NAME`: an API token of the first admin, printed once."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from controlplane.accounts.models import Project, Role
from controlplane.accounts.services.tokens import issue_token
from controlplane.accounts.services.users import DEFAULT_PROJECT, ensure_first_admin


class Command(BaseCommand):
    help = "Print a new API token; only its hash is kept."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--role", choices=Role.values, default=Role.OPERATOR.value)
        parser.add_argument("--project", default=DEFAULT_PROJECT)

    def handle(self, *_: Any, **options: Any) -> None:
        admin = ensure_first_admin(now=timezone.now())
        project = Project.objects.filter(slug=options["project"]).first()
        if project is None:
            raise CommandError(f"There is no project {options['project']}.")
        role = Role(options["role"])
        issued = issue_token(admin, project, name=options["name"], role=role, now=timezone.now())
        self.stdout.write(issued[1])

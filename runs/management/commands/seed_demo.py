"""`manage.py seed_demo`: synthetic finished runs, labelled as such, so that every page has something to show."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from controlplane.accounts.models import Project
from controlplane.accounts.services.users import ensure_first_admin
from controlplane.blobs import BlobStore
from runs.demo_data.seed import seed


class Command(BaseCommand):
    help = "Write two synthetic, labelled runs: demo-145 (the article's) and demo-60, which it is a clone of."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--scale", type=float, default=1.0, help="1: 145 steps; 0.02: the least"
        )
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--project", default="default", help="slug of the project")
        parser.add_argument("--again", action="store_true", help="replace what is there")

    def handle(self, *_: Any, **options: Any) -> None:
        ensure_first_admin(now=timezone.now())
        project = Project.objects.filter(slug=options["project"]).first()
        if project is None:
            raise CommandError(f"There is no project {options['project']}.")
        if not 0 < options["scale"] <= 4:
            raise CommandError("--scale must be above 0 and at most 4.")
        began = time.monotonic()
        seeded = seed(
            project,
            BlobStore(settings.BLOB_URL),
            Path(settings.VAR_DIR) / "demo" / "Qwen3-30B-A3B-Instruct",
            scale=options["scale"],
            seed=options["seed"],
            now=timezone.now(),
            again=options["again"],
            say=self.stdout.write,
        )
        main = seeded.runs[-1]
        if seeded.is_new:
            self.stdout.write(f"Done in {time.monotonic() - began:.0f} s.")
        else:
            self.stdout.write("The demo runs are there already; --again replaces them.")
        self.stdout.write(f"Open {settings.BASE_URL}/runs/{main.pk}/overview")

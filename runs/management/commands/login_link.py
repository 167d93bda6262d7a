"""`manage.py login_link`: one more one-time link for the first admin."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.utils import timezone

from controlplane.accounts.services.login_links import create_login_link
from controlplane.accounts.services.users import ensure_first_admin
from controlplane.up.lock import running


class Command(BaseCommand):
    help = "Print a link that signs the first admin in, once."

    def handle(self, *_: Any, **__: Any) -> None:
        admin = ensure_first_admin(now=timezone.now())
        here = running(settings.VAR_DIR)
        base = here.url if here else settings.BASE_URL
        self.stdout.write(base + create_login_link(admin, now=timezone.now()))

"""`manage.py demo`: the stack, the miniature recipe, its table; then the dashboard until Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from controlplane.errors import DomainError
from runs.demo import Demo


class Command(BaseCommand):
    help = "Run the miniature recipe on this machine and show it."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--seed", type=int, default=1)
        parser.add_argument("--exit", action="store_true", help="stop the stack after the table")

    def handle(self, *_: Any, **options: Any) -> None:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            status = Demo(seed=options["seed"]).run(stay=not options["exit"])
        except KeyboardInterrupt:
            status = 130
        except DomainError as error:
            self.stderr.write(error.message)
            for field in error.errors:
                self.stderr.write(f"  {field.pointer}: {field.message}")
            status = 1
        except subprocess.CalledProcessError as error:
            self.stderr.write(f"`{' '.join(map(str, error.cmd))}` failed with {error.returncode}.")
            status = 1
        sys.exit(status)

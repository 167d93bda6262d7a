#!/usr/bin/env python
"""Django's command line with Longtail's settings; `up` runs before and without Django."""

import os
import sys

from controlplane.up import environment, stack
from controlplane.up.errors import CannotStart

if __name__ == "__main__":
    command = sys.argv[1] if len(sys.argv) > 1 else "help"
    if command == "up":
        sys.exit(stack.main(sys.argv[2:]))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    try:
        environment.fill(os.environ, is_first=command == "demo")
    except CannotStart as error:
        sys.exit(str(error))
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)

#!/usr/bin/env python
"""Django's command line with Longtail's settings; `up` runs before and without Django."""

import os
import sys

from controlplane.up import environment, stack

if __name__ == "__main__":
    if sys.argv[1:2] == ["up"]:
        sys.exit(stack.main(sys.argv[2:]))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    environment.fill(os.environ)
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)

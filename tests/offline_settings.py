"""Settings for what only reads the code: mypy's Django plugin, migration check, API schema."""

import os

os.environ.setdefault("DATABASE_URL", "postgresql://")
os.environ.setdefault("REDIS_URL", "redis://")
os.environ.setdefault("LONGTAIL_SECRET_KEY", "offline")

from controlplane.settings import *  # noqa: F403

# No connection is attempted: the pool would wait half a minute for one.
DATABASES = {"default": {"ENGINE": "django.db.backends.dummy"}}

"""The settings module as mypy's Django plugin imports it: nothing is connected to."""

import os

os.environ.setdefault("DATABASE_URL", "postgresql://")
os.environ.setdefault("REDIS_URL", "redis://")
os.environ.setdefault("LONGTAIL_SECRET_KEY", "mypy")

from controlplane.settings import *  # noqa: F403

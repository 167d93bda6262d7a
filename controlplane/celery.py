"""The Celery application: transport only (PostgreSQL is the truth)."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

app = Celery("longtail")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.imports = (
    "runs.jobs",
    "workers.jobs.rollout",
    "workers.jobs.train",
    "workers.jobs.engine",
)

"""The Django project: plumbing that the apps import, and the wiring that nothing imports."""

from controlplane.celery import app as celery_app

__all__ = ["celery_app"]

"""Celery entry points of the data plane: take a lease, do the work, report through services."""

"""Celery entry points of the control queue."""

from __future__ import annotations

import time

from celery import shared_task
from django.db import OperationalError
from django.utils import timezone

from controlplane.queue import end_passes, take_pokes
from runs import reaper, scheduler
from runs.services.limits import measure_limits

MIN_GAP_S = 0.2


@shared_task(ignore_result=True)
def schedule() -> None:
    """Passes until nobody has poked during the last one; pokes of the meantime share a pass."""
    try:
        while True:
            began = time.monotonic()
            take_pokes()
            scheduler.run_pass()
            time.sleep(max(0.0, MIN_GAP_S - (time.monotonic() - began)))
            if not take_pokes():
                return
    finally:
        end_passes()


@shared_task(ignore_result=True)
def reap() -> None:
    try:
        reaper.reap(now=timezone.now())
    except OperationalError:
        reaper.reset()
        raise


@shared_task(ignore_result=True)
def measure() -> None:
    measure_limits(now=timezone.now())

"""The only way to start a job: a dotted path and ids, sent on commit; a lost message is harmless.

The scheduler is level-triggered and dispatches again what nobody claimed, so a broker outage delays
work and never loses it.
"""

from __future__ import annotations

import logging

from celery import current_app
from django.db import transaction

log = logging.getLogger(__name__)


def enqueue(path: str, *args: int | str, expires_s: float | None = None) -> None:
    """Send the job at dotted `path` with ids once the present transaction commits."""

    def send() -> None:
        try:
            current_app.send_task(path, args=args, expires=expires_s, retry=False)
        except Exception as error:
            log.warning("could not enqueue %s%s: %s", path, args, error)

    transaction.on_commit(send, robust=True)

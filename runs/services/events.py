"""The event feed: every automatic move writes a sentence."""

from __future__ import annotations

from datetime import datetime

from controlplane.live import publish
from runs.events import EventAdded, run_topic
from runs.models import Event, Run


def say(
    run: Run,
    kind: str,
    sentence: str,
    *,
    now: datetime,
    level: str = Event.Level.INFO,
    data: dict[str, object] | None = None,
) -> Event:
    """Add one line to the run's feed and tell its readers."""
    event = Event.objects.create(
        run=run, at=now, level=level, kind=kind, sentence=sentence, data=data or {}
    )
    publish(
        run_topic(run.project_id, run.pk),
        EventAdded(run=run.pk, at=now, level=level, sentence=sentence),
    )
    return event

"""Metric points: one cursor (resume, step) a run, one writer a stage."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.db import connection

from controlplane.live import publish
from runs.events import MetricPointData, MetricsAdded, run_topic
from runs.models import Run


def record_metrics(
    run: Run, values: Mapping[str, float], *, step: int, resume: int | None = None, now: datetime
) -> None:
    """One point per name at (resume, step); a second report of a point replaces it."""
    life = run.resume if resume is None else resume
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO runs_metricpoint (run_id, name, resume, step, value, at)"
            " VALUES (%s, %s, %s, %s, %s, %s)"
            " ON CONFLICT (run_id, name, resume, step) DO UPDATE SET value = excluded.value,"
            " at = excluded.at",
            [(run.pk, name, life, step, float(value), now) for name, value in values.items()],
        )
    publish(
        run_topic(run.project_id, run.pk),
        MetricsAdded(
            run=run.pk,
            points=[
                MetricPointData(name=name, resume=life, step=step, value=float(value), at=now)
                for name, value in values.items()
            ],
        ),
    )

"""What PostgreSQL holds for a live topic: small integers that differ whenever a client has missed something.

A cursor is a count or a stamp (a sum of hashes of ids and statuses), never a sequence: ids are not in
commit order, so "the highest id I saw" would hide a row that committed late. One query a topic.
"""

from __future__ import annotations

import re

from django.db import connection

from controlplane.accounts.access import Actor, role_in
from runs.models import Run, Trajectory

_TOPIC = re.compile(r"p(\d{1,18})\.(runs|fleet|run|trajectory)(?:\.(\d{1,18}))?")

_RUNS = """
SELECT count(*) AS runs, coalesce(sum(hashtext(id || status || wait_sentence)), 0) AS statuses
FROM runs_run WHERE project_id = %(project)s
"""
_RUN = """
SELECT
  hashtext(run.status || run.wait_sentence) AS run,
  run.resume, run.weight_version,
  (SELECT coalesce(sum(hashtext(id || status || num_steps_done || progress::text || result::text)), 0)
     FROM runs_stage WHERE run_id = run.id) AS stages,
  (SELECT coalesce(sum(hashtext(id || status)), 0) FROM runs_step WHERE run_id = run.id) AS steps,
  (SELECT coalesce(sum(hashtext(id || status)), 0) FROM runs_group WHERE run_id = run.id) AS groups,
  (SELECT count(*) FROM runs_metricpoint WHERE run_id = run.id) AS metrics,
  (SELECT count(*) FROM runs_event WHERE run_id = run.id) AS events,
  (SELECT count(*) FROM runs_trajectory WHERE run_id = run.id) AS trajectories,
  (SELECT count(*) FROM runs_trajectory WHERE run_id = run.id AND finished_at IS NOT NULL) AS finished,
  (SELECT coalesce(sum(hashtext(id || status)), 0) FROM runs_attempt
     WHERE run_id = run.id AND status IN ('queued', 'starting', 'running', 'grading')) AS attempts,
  (SELECT coalesce(sum(hashtext(id || status || coalesce(weight_version, -1))), 0)
     FROM runs_engine WHERE run_id = run.id) AS engines
FROM runs_run AS run WHERE run.id = %(id)s AND run.project_id = %(project)s
"""
_TRAJECTORY = """
SELECT
  hashtext(trajectory.status) AS trajectory,
  (SELECT coalesce(sum(hashtext(id || status)), 0)
     FROM runs_attempt WHERE trajectory_id = trajectory.id) AS attempts,
  (SELECT count(*) FROM runs_turn WHERE attempt_id IN
     (SELECT id FROM runs_attempt WHERE trajectory_id = trajectory.id)) AS turns
FROM runs_trajectory AS trajectory WHERE trajectory.id = %(id)s
"""
# Heartbeats and loads change all the time: they count in steps of 15 and 10 seconds.
_FLEET = """
SELECT
  (SELECT coalesce(sum(hashtext(id || status)), 0)
     + coalesce(floor(extract(epoch FROM max(last_seen_at)) / 15), 0) FROM runs_worker) AS workers,
  (SELECT coalesce(sum(hashtext(engine.id || engine.status || coalesce(engine.weight_version, -1))), 0)
     + coalesce(floor(extract(epoch FROM max(engine.lease_expires_at)) / 10), 0)
     FROM runs_engine AS engine JOIN runs_run AS run ON run.id = engine.run_id
     WHERE run.project_id = %(project)s) AS engines,
  (SELECT coalesce(max(id), 0) FROM sandboxes_sandbox WHERE project_id = %(project)s) AS sandboxes,
  (SELECT coalesce(sum(hashtext(id || status)), 0) FROM sandboxes_sandbox
     WHERE project_id = %(project)s AND status NOT IN ('gone', 'failed')) AS sandboxes_live,
  (SELECT coalesce(sum(hashtext(concat_ws(' ', id, num_failures, resolved_at, ignored_until))), 0)
     FROM sandboxes_failuregroup WHERE project_id = %(project)s) AS failures,
  (SELECT coalesce(sum(hashtext(concat_ws(' ', id, dispatched_at))), 0) FROM runs_attempt
     WHERE status = 'queued') AS queues,
  (SELECT coalesce(floor(extract(epoch FROM max(measured_at))), 0) FROM sandboxes_limit
     WHERE project_id = %(project)s) AS limits
"""
_QUERIES = {"runs": _RUNS, "run": _RUN, "trajectory": _TRAJECTORY, "fleet": _FLEET}


def parse_topic(topic: str) -> tuple[int, str, int | None] | None:
    """(project, kind, id), or None for what is no topic."""
    match = _TOPIC.fullmatch(topic)
    if match is None:
        return None
    project, kind, number = match.groups()
    if (kind in ("run", "trajectory")) != (number is not None):
        return None
    return int(project), kind, int(number) if number is not None else None


def may_follow(actor: Actor, topic: str) -> bool:
    """The topic exists, and its project is the actor's to see."""
    parts = parse_topic(topic)
    if parts is None or role_in(actor, parts[0]) is None:
        return False
    project, kind, number = parts
    if number is None:
        return True
    if kind == "run":
        return Run.objects.filter(pk=number, project=project).exists()
    return Trajectory.objects.filter(pk=number, run__project=project).exists()


def cursors(topic: str) -> dict[str, int]:
    """The cursors of a topic; empty when what it was about is gone."""
    parts = parse_topic(topic)
    if parts is None:
        return {}
    project, kind, number = parts
    with connection.cursor() as cursor:
        cursor.execute(_QUERIES[kind], {"project": project, "id": number})
        row = cursor.fetchone()
        names = [column.name for column in cursor.description or []]
    return {name: int(value) for name, value in zip(names, row, strict=True)} if row else {}

"""Seeding and removing the demo runs of a project, each in one transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from django.db import connection, transaction

from controlplane.accounts.models import Project
from controlplane.blobs import BlobStore
from runs.demo_data.context import NODE_PREFIX, Context
from runs.demo_data.plan import Plan
from runs.demo_data.repositories import tasks_of
from runs.demo_data.rows import TokenStore, Writer
from runs.demo_data.shape import (
    HELD_OUT_SET,
    NUM_HELD_OUT_TASKS,
    NUM_TRAIN_TASKS,
    TRAIN_SET,
    main_shape,
    other_shape,
    recipe_source,
)
from runs.demo_data.tokens import has_tokenizers, write_tokenizer
from runs.models import Group, Node, Run, Task, TaskSet, Worker
from sandboxes.models import Failure, FailureGroup, Limit
from sandboxes.services import record_limit

LIMIT_SCOPE = "demo"
SOURCE = "manage.py seed_demo"
ENDED_BEFORE = timedelta(minutes=90)
"""The large run ended so long ago; the other one three days before it."""

TABLES = (
    "runs_run",
    "runs_group",
    "runs_trajectory",
    "runs_attempt",
    "runs_turn",
    "runs_step",
    "runs_consumption",
    "runs_metricpoint",
    "runs_event",
    "runs_task",
    "sandboxes_sandbox",
    "sandboxes_failure",
)

_LIMITS = (
    # layer, name, configured, then what was measured last and at its worst, unit
    ("docker", "networks on a machine", 31, 31, 31, "networks"),
    ("registry", "image pulls of the cluster", 100, 97, 100, "1/h"),
    ("sandbox", "e2b sandboxes at a time", 400, 0, 384, "sandboxes"),
    ("sandbox", "e2b starts at a time", None, 3, 41, "starts"),
    ("agent", "connections of the agent process", 100, 100, 100, "connections"),
    ("agent", "cores for all agent requests", 1, 0.98, 1.0, "cores"),
    ("engine", "running requests of an engine", 16, 0, 16, "requests"),
    ("engine", "KV cache of an engine", 1_500_000, 61_000, 345_000, "tokens"),
    ("postgres", "connections", 100, 34, 61, "connections"),
)

_STATES = (
    # part of the message, what happened to its group since, and why
    ("no token within", "resolved", "The engines' context is capped at 64K: no request starves."),
    ("the sandbox is gone", "regressed", ""),
    ("toomanyrequests", "ignored", "The registry's quota is raised next week."),
    ("has no manifest", "resolved", "The images were built again for linux/amd64."),
)


@dataclass(frozen=True)
class Seeded:
    runs: list[Run]
    is_new: bool


def demo_runs(project: Project) -> list[Run]:
    return list(Run.objects.filter(project=project, is_demo=True).order_by("id"))


def seed(
    project: Project,
    store: BlobStore,
    model_dir: Path,
    *,
    scale: float,
    seed: int,
    now: datetime,
    again: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Seeded:
    """Both demo runs, or those that are there; `again` replaces them. All or nothing.

    model_dir: where the vocabulary of their tokens is kept.
    """
    known = demo_runs(project)
    if known and not again:
        return Seeded(known, is_new=False)
    with transaction.atomic():
        if known:
            say(f"Removing {len(known)} demo runs ...")
            remove(project, store)
        runs = _seed(project, store, model_dir, scale=scale, seed=seed, now=now, say=say)
    if not connection.in_atomic_block:
        say("Vacuuming ...")
        with connection.cursor() as cursor:
            cursor.execute(f"VACUUM (ANALYZE) {', '.join(TABLES)}")
    return Seeded(runs, is_new=True)


def _seed(
    project: Project,
    store: BlobStore,
    model_dir: Path,
    *,
    scale: float,
    seed: int,
    now: datetime,
    say: Callable[[str], None],
) -> list[Run]:
    shapes = other_shape(scale), main_shape(scale)
    plans = [Plan(shape, seed) for shape in shapes]
    main_began = now.replace(second=0, microsecond=0) - ENDED_BEFORE - _length(plans[1])
    began = [main_began - timedelta(days=3), main_began]
    task_rows = _tasks(project, store, now=began[0] - timedelta(days=2))
    tokens = None
    if has_tokenizers():
        tokens = TokenStore(store, write_tokenizer(model_dir))
    else:
        say("No tokens are written: the tokenizers package is not here.")
    runs: list[Run] = []
    for shape, plan, start in zip(shapes, plans, began, strict=True):
        say(f"Run {shape.name}: {shape.num_steps} steps, {len(plan.attempts)} attempts ...")
        source = recipe_source(shape, str(model_dir))
        context = Context(project, shape, plan, start, seed)
        writer = Writer(context, source=source, tokens=tokens, say=say)
        runs.append(writer.write(task_rows, cloned_from=runs[-1] if runs else None))
        _quarantine(task_rows["train"], plan, start)
    _set_states(project, runs, now=now)
    _limits(project, now=now - ENDED_BEFORE)
    return runs


def _length(plan: Plan) -> timedelta:
    return timedelta(seconds=plan.finished_at)


def _tasks(project: Project, store: BlobStore, *, now: datetime) -> dict[str, list[Task]]:
    archive = f"p{project.pk}/tasks/demo.tar"
    store.put(archive, b"\0" * 10_240)  # an empty tar
    return {
        split: _task_set(project, name, split, num, archive, now=now)
        for name, split, num in (
            (TRAIN_SET, "train", NUM_TRAIN_TASKS),
            (HELD_OUT_SET, "held_out", NUM_HELD_OUT_TASKS),
        )
    }


def _task_set(
    project: Project, name: str, split: str, num: int, archive: str, *, now: datetime
) -> list[Task]:
    """The tasks in the order of their plan."""
    tasks = tasks_of(split, num)
    digest = hashlib.sha256("".join(task.digest for task in tasks).encode()).hexdigest()
    task_set, is_new = TaskSet.objects.get_or_create(
        project=project,
        name=name,
        version=1,
        defaults={
            "split": split,
            "digest": digest,
            "num_tasks": num,
            "source": SOURCE,
            "created_at": now,
        },
    )
    if is_new:
        Task.objects.bulk_create(
            Task(
                task_set=task_set,
                key=task.key,
                repository=task.repository.name,
                instruction=task.instruction,
                difficulty=task.difficulty,
                archive=archive,
                digest=task.digest,
                verify_timeout_s=600,
            )
            for task in tasks
        )
    by_key = {task.key: task for task in task_set.tasks.all()}
    return [by_key[task.key] for task in tasks]


def _quarantine(rows: list[Task], plan: Plan, began: datetime) -> None:
    for place, at in plan.quarantined.items():
        reason = "3 attempts failed because of the task: the verifier wrote no reward"
        Task.objects.filter(pk=rows[place].pk).update(
            quarantined_at=began + timedelta(seconds=at), quarantine_reason=reason
        )


def _set_states(project: Project, runs: list[Run], *, now: datetime) -> None:
    """What somebody decided about groups of failures; only of those that no other run has a part in."""
    ids = [run.pk for run in runs]
    groups = FailureGroup.objects.filter(project=project, failures__run_id__in=ids).distinct()
    own = list(
        groups.exclude(failures__in=Failure.objects.exclude(run_id__in=ids)).order_by("last_at")
    )
    for part, state, reason in _STATES:
        if len(own) < 2:
            return
        group = next((g for g in own if part in g.message), own[0])
        own.remove(group)
        changes: dict[str, Any] = {"state_reason": reason, "state_by": "maria"}
        if state == "resolved":
            changes["resolved_at"] = group.last_at + timedelta(minutes=40)
        elif state == "regressed":
            changes["resolved_at"] = group.first_at + (group.last_at - group.first_at) / 2
            changes["regressed_at"] = group.last_at - (group.last_at - group.first_at) / 3
        else:
            changes["ignored_until"] = now + timedelta(days=14)
        FailureGroup.objects.filter(pk=group.pk).update(**changes)


def _limits(project: Project, *, now: datetime) -> None:
    for layer, name, configured, measured, peak, unit in _LIMITS:
        for value in (peak, measured):
            record_limit(
                project.pk,
                layer=layer,
                name=name,
                scope=LIMIT_SCOPE,
                configured=configured,
                measured=value,
                unit=unit,
                now=now,
            )


@transaction.atomic
def remove(project: Project, store: BlobStore) -> None:
    """Every demo run of the project with all that hangs on it; other runs keep what they have."""
    ids = [run.pk for run in demo_runs(project)]
    touched = list(
        FailureGroup.objects.filter(failures__run_id__in=ids)
        .distinct()
        .values_list("pk", flat=True)
    )
    with connection.cursor() as cursor:
        for statement in _DELETES:
            cursor.execute(statement, [ids])
    Run.objects.filter(pk__in=ids).delete()
    for pk in ids:
        transaction.on_commit(partial(store.delete, f"p{project.pk}/runs/{pk}"))
    for group in FailureGroup.objects.filter(pk__in=touched):
        group.num_failures = group.failures.count()
        if group.num_failures:
            group.save(update_fields=["num_failures"])
        else:
            group.delete()
    Limit.objects.filter(project=project, scope=LIMIT_SCOPE).delete()
    Worker.objects.filter(boot_id__in=_boot_ids(ids)).delete()
    Node.objects.filter(hostname__startswith=NODE_PREFIX, workers__isnull=True).delete()
    for task_set in TaskSet.objects.filter(project=project, source=SOURCE):
        if not Group.objects.filter(task__task_set=task_set).exists():
            task_set.delete()


def _boot_ids(run_ids: list[int]) -> list[str]:
    return [
        boot_id
        for boot_id in Worker.objects.filter(boot_id__startswith=NODE_PREFIX).values_list(
            "boot_id", flat=True
        )
        if boot_id.split("-")[1] in {str(pk) for pk in run_ids}
    ]


# By hand and in this order: Django would first set the step of consumed groups to NULL, which a constraint forbids.
_DELETES = (
    "DELETE FROM runs_turn WHERE attempt_id IN (SELECT id FROM runs_attempt WHERE run_id = ANY(%s))",
    "DELETE FROM runs_consumption WHERE step_id IN (SELECT id FROM runs_step WHERE run_id = ANY(%s))",
    "DELETE FROM sandboxes_failure WHERE run_id = ANY(%s)",
    "DELETE FROM sandboxes_sandbox WHERE run_id = ANY(%s)",
    "DELETE FROM runs_attempt WHERE run_id = ANY(%s)",
    "DELETE FROM runs_trajectory WHERE run_id = ANY(%s)",
    "DELETE FROM runs_group WHERE run_id = ANY(%s)",
    "DELETE FROM runs_step WHERE run_id = ANY(%s)",
)

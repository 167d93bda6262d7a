"""Task sets: Harbor task directories become rows and one archive a task; a bad task goes into quarantine."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from django.db import transaction

from controlplane.accounts.access import Actor, require
from controlplane.accounts.audit import record_audit
from controlplane.accounts.models import Project, Role
from controlplane.blobs import BlobStore
from controlplane.errors import Conflict, FieldError, Invalid, NotFound
from runs.models import Attempt, Task, TaskSet

_KEY = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,150}$")
_MAX_TASK_BYTES = 64 * 2**20


@dataclass(frozen=True)
class TaskDirectory:
    """A Harbor task directory (schema 1.4), read and checked."""

    key: str
    repository: str
    instruction: str
    difficulty: str
    setup: str
    verify_timeout_s: float
    archive: bytes
    digest: str


def read_task(directory: Path) -> TaskDirectory:
    """Raises Invalid with what is missing and where."""
    if not _KEY.match(directory.name):
        raise Invalid(f"{directory.name!r} cannot name a task: use letters, digits, dot, dash.")
    for name in ("instruction.md", "task.toml", "environment/workspace", "tests/test.sh"):
        if not (directory / name).exists():
            raise Invalid(f"{directory.name}: {name} is missing (a Harbor task has one).")
    try:
        spec = tomllib.loads((directory / "task.toml").read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"{directory.name}/task.toml: {error}") from error
    metadata: dict[str, Any] = spec.get("metadata", {})
    repository = metadata.get("repository")
    if not isinstance(repository, str) or not repository:
        raise Invalid(
            f"{directory.name}/task.toml: [metadata] repository is missing; without it the split "
            "cannot be checked for contamination."
        )
    archive = _archive(directory)
    return TaskDirectory(
        key=directory.name,
        repository=repository,
        instruction=(directory / "instruction.md").read_text(),
        difficulty=str(metadata.get("difficulty", "")),
        setup=str(metadata.get("longtail", {}).get("setup", "")),
        verify_timeout_s=float(spec.get("verifier", {}).get("timeout_sec", 600.0)),
        archive=archive,
        digest=hashlib.sha256(archive).hexdigest(),
    )


def _archive(directory: Path) -> bytes:
    """A deterministic tar of the directory: same files, same bytes. Links and devices are refused."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(directory.rglob("*")):
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise Invalid(
                    f"{directory.name}: {path.relative_to(directory)} is not a plain file."
                )
            info = tar.gettarinfo(str(path), arcname=path.relative_to(directory).as_posix())
            info.mtime, info.uid, info.gid, info.uname, info.gname = 0, 0, 0, "", ""
            info.mode = 0o755 if path.is_dir() or info.mode & 0o100 else 0o644
            if path.is_dir():
                tar.addfile(info)
            else:
                with path.open("rb") as handle:
                    tar.addfile(info, handle)
            if buffer.tell() > _MAX_TASK_BYTES:
                raise Invalid(f"{directory.name} is larger than {_MAX_TASK_BYTES // 2**20} MiB.")
    return buffer.getvalue()


def import_task_set(
    project: Project,
    store: BlobStore,
    *,
    name: str,
    split: str,
    directory: Path,
    now: datetime,
    source: str = "",
    baselines: Mapping[str, object] | None = None,
) -> TaskSet:
    """A new version of the named set; the same content again is the version that is there.

    Raises Invalid with every wrong task named; then nothing is imported.
    """
    tasks, problems = [], []
    for path in sorted(p for p in directory.iterdir() if p.is_dir()):
        try:
            tasks.append(read_task(path))
        except Invalid as error:
            problems.append(FieldError(f"/{path.name}", error.message))
    if problems:
        raise Invalid(
            f"{len(problems)} of the tasks cannot be imported.",
            code="tasks_invalid",
            errors=problems,
        )
    if not tasks:
        raise Invalid(f"{directory} holds no task directories.")
    digest = hashlib.sha256("".join(task.digest for task in tasks).encode()).hexdigest()
    known = TaskSet.objects.filter(project=project, name=name).order_by("-version").first()
    if known is not None and known.digest == digest and known.split == split:
        return known
    keys = []
    for task in tasks:
        key = f"p{project.pk}/tasks/{task.digest}.tar"
        store.put(key, task.archive)
        keys.append(key)
    with transaction.atomic():
        task_set = TaskSet.objects.create(
            project=project,
            name=name,
            version=known.version + 1 if known else 1,
            split=split,
            digest=digest,
            num_tasks=len(tasks),
            source=source,
            baselines=dict(baselines or {}),
            created_at=now,
        )
        Task.objects.bulk_create(
            Task(
                task_set=task_set,
                key=task.key,
                repository=task.repository,
                instruction=task.instruction,
                difficulty=task.difficulty,
                archive=key,
                digest=task.digest,
                setup=task.setup,
                verify_timeout_s=task.verify_timeout_s,
            )
            for task, key in zip(tasks, keys, strict=True)
        )
    return task_set


MAX_DEFECTS = 3


def count_defect(task: Task, message: str, *, now: datetime) -> bool:
    """The task itself failed an attempt; from the third time on it is in quarantine. True when it just went."""
    num = Attempt.objects.filter(trajectory__task=task, failure_class="task_defect").count()
    if num < MAX_DEFECTS:
        return False
    reason = f"{num} attempts failed because of the task: {message}"
    return bool(
        Task.objects.filter(pk=task.pk, quarantined_at__isnull=True).update(
            quarantined_at=now, quarantine_reason=reason[:2000]
        )
    )


@transaction.atomic
def quarantine_task(task_id: int, *, actor: Actor, reason: str, now: datetime) -> None:
    """No group is opened on it any more; those that are open go on. Raises NotFound, Forbidden, Conflict."""
    task = _locked(task_id, actor)
    if task.quarantined_at is not None:
        raise Conflict(f"Task {task.key} is in quarantine already: {task.quarantine_reason}")
    _set_quarantine(task, "task.quarantine", actor, reason, now, quarantined_at=now)


@transaction.atomic
def release_task(task_id: int, *, actor: Actor, reason: str, now: datetime) -> None:
    """Out of quarantine: groups are opened on it again. Raises NotFound, Forbidden, Conflict."""
    task = _locked(task_id, actor)
    if task.quarantined_at is None:
        raise Conflict(f"Task {task.key} is not in quarantine.")
    _set_quarantine(task, "task.release", actor, reason, now, quarantined_at=None)


def _locked(task_id: int, actor: Actor) -> Task:
    task = (
        Task.objects.select_for_update(of=("self",), no_key=True)
        .select_related("task_set__project")
        .filter(pk=task_id)
        .first()
    )
    if task is None:
        raise NotFound(f"There is no task {task_id}.")
    require(actor, task.task_set.project_id, Role.OPERATOR)
    return task


def _set_quarantine(
    task: Task,
    action: str,
    actor: Actor,
    reason: str,
    now: datetime,
    *,
    quarantined_at: datetime | None,
) -> None:
    was = task.quarantine_reason
    task.quarantined_at = quarantined_at
    task.quarantine_reason = f"{reason} ({actor})" if quarantined_at else ""
    task.save(update_fields=["quarantined_at", "quarantine_reason"])
    details: dict[str, object] = {"reason": reason, "task": task.key}
    if was:
        details["was"] = was
    record_audit(actor, action, task, project=task.task_set.project, now=now, details=details)

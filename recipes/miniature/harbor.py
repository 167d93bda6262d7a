"""Writes a task as a Harbor task directory (schema 1.4); `harbor/` holds tools and grader."""

from __future__ import annotations

import shutil
from hashlib import sha256
from pathlib import Path

from recipes.miniature.tasks import Task

_TEMPLATE = Path(__file__).parent / "harbor"
_SEPARATOR = "\0"
"""Between the values in the digest of `expected.txt`, as in `harbor/tests/grade.py`."""


def write_task(task: Task, directory: Path) -> None:
    """instruction.md, task.toml, environment/, tests/ and solution/, in a new directory."""
    shutil.copytree(_TEMPLATE, directory)
    repository = task.repository
    workspace = directory / "environment" / "workspace"
    visible = zip(repository.calls, repository.expected, strict=True)
    calls = [*repository.calls, *repository.hidden_calls]
    values = [*repository.expected, *repository.hidden_expected]
    files = {
        directory / "instruction.md": task.instruction,
        directory / "task.toml": _task_toml(task),
        directory
        / "solution"
        / "solve.sh": f"#!/bin/bash\n. .tools/setup.sh\ntry {task.fix + 1}\n",
        directory / "tests" / "calls.txt": "\n".join(calls) + "\n",
        directory / "tests" / "expected.txt": "\n".join([digest(values), *repository.expected])
        + "\n",
        workspace / "m.py": task.source,
        workspace / "tests.txt": "\n".join(f"{call} -> {value}" for call, value in visible) + "\n",
        workspace / ".tools" / "original.py": task.source,
        workspace / ".tools" / "listing.txt": task.listing + "\n",
        workspace / ".tools" / "edits.txt": "".join(
            f"{e.line} {e.column} {e.old} {e.new}\n" for e in task.candidates
        ),
    }
    for path, text in files.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def digest(values: list[str]) -> str:
    """What `grade.py` compares: SHA-256 over all values; the tests hold no hidden value."""
    return sha256(_SEPARATOR.join(values).encode()).hexdigest()


def _task_toml(task: Task) -> str:
    repository = task.repository
    return f"""schema_version = "1.4"

[task]
name = "miniature/{task.key}"
version = "1.0.0"
description = "Repair a one-token bug in {task.function}"

[metadata]
repository = "{repository.name}"
family = "{repository.family}"
difficulty = "{len(task.candidates)} candidates"

[metadata.longtail]
setup = ". .tools/setup.sh"

[verifier]
timeout_sec = 20.0

[agent]
timeout_sec = 300.0

[environment]
build_timeout_sec = 300.0
"""

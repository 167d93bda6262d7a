"""Checkpoints and weights on disk: a directory is either complete and verifiable, or not there.

    .step-40.partial/  files, fsync ─ manifest.json last, fsync ─ rename ─> step-40/ ─ fsync parent

Invariants: `target` never exists half-written, whenever the process is killed (a `.partial` left
behind is removed by the next try); `verify` accepts exactly what `publish` wrote. Standard library
only: the owner of a trainer verifies its output without torch.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"


class CorruptDirectory(ValueError):
    """The directory is not what its manifest says, or has none."""


def publish(target: Path, write: Callable[[Path], None], **facts: Any) -> dict[str, Any]:
    """Fills a directory by `write(partial)` and moves it to `target`, replacing an older one.

    Returns the manifest: facts plus {"files": {relative name: {"bytes", "sha256"}}}. Raises OSError
    (disk full ...) and whatever write raises; `target` is then as before.
    """
    target = target.absolute()
    partial = target.with_name(f".{target.name}.partial")
    replaced = target.with_name(f".{target.name}.replaced")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        write(partial)
        files = {str(f.relative_to(partial)): f for f in sorted(partial.rglob("*")) if f.is_file()}
        manifest = {**facts, "files": {name: _seal(file) for name, file in files.items()}}
        (partial / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
        _seal(partial / MANIFEST)
        for directory in (*(d for d in partial.rglob("*") if d.is_dir()), partial):
            _sync(directory)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    # rename cannot replace a directory with files in it: for a moment there is none, never half
    shutil.rmtree(replaced, ignore_errors=True)
    if target.exists():
        target.rename(replaced)
    partial.rename(target)
    _sync(target.parent)
    shutil.rmtree(replaced, ignore_errors=True)
    return manifest


def verify(directory: Path) -> dict[str, Any]:
    """The manifest of a directory whose files are all as written; else raises CorruptDirectory."""
    try:
        manifest = json.loads((directory / MANIFEST).read_text())
        files = dict(manifest["files"])
    except FileNotFoundError as error:
        raise CorruptDirectory(f"{directory} is not complete: it has no {MANIFEST}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptDirectory(f"{directory} is corrupt: {MANIFEST} cannot be read") from error
    for name, expected in files.items():
        file = directory / name
        if not file.is_file():
            raise CorruptDirectory(f"{directory} is corrupt: {name} is missing")
        if file.stat().st_size != expected["bytes"]:
            raise CorruptDirectory(
                f"{directory} is corrupt: {name} has {file.stat().st_size} bytes,"
                f" its manifest says {expected['bytes']}"
            )
        if _sha256(file) != expected["sha256"]:
            raise CorruptDirectory(f"{directory} is corrupt: the content of {name} has changed")
    return dict(manifest)


def _seal(file: Path) -> dict[str, Any]:
    _sync(file)
    return {"bytes": file.stat().st_size, "sha256": _sha256(file)}


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""The blob store: an fsspec URL, a folder by default, s3:// in production. No Django here.

A blob is written under a fresh key and never changed: locally tmp + fsync + rename, elsewhere one upload.
A directory is published by writing `manifest.json` (sizes and sha256) last. Readers trust only keys that a
row names, and a directory only if every file agrees with its manifest.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import cast

import fsspec

MANIFEST = "manifest.json"


class BlobCorrupt(Exception):
    """A file is missing or differs from the manifest that its directory was published with."""


def fresh_key(prefix: str, suffix: str = "") -> str:
    """A key that nobody has used: `prefix/<random><suffix>`."""
    return f"{prefix}/{uuid.uuid4().hex}{suffix}"


def verify_manifest(directory: Path) -> None:
    """Raises BlobCorrupt unless every file of the manifest is there, whole."""
    try:
        files = json.loads((directory / MANIFEST).read_bytes())["files"]
    except (OSError, ValueError, KeyError) as error:
        raise BlobCorrupt(f"{directory} has no readable manifest.json") from error
    for name, entry in files.items():
        path = directory / name
        if not path.is_file() or path.stat().st_size != entry["bytes"]:
            raise BlobCorrupt(f"{name} is missing or cut short")
        with path.open("rb") as handle:
            if hashlib.file_digest(handle, "sha256").hexdigest() != entry["sha256"]:
                raise BlobCorrupt(f"{name} does not match its checksum")


def _write_durably(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


class BlobStore:
    """Keys below one URL. Thread-safe."""

    def __init__(self, url: str) -> None:
        self.base = url.rstrip("/")
        self.fs, self._root = fsspec.core.url_to_fs(self.base)
        self.is_local = self.base.startswith("file://") or "://" not in self.base

    def url(self, key: str) -> str:
        """What a process without this store opens with fsspec."""
        return f"{self.base}/{key}"

    def put(self, key: str, data: bytes) -> None:
        if self.is_local:
            _write_durably(Path(self._root) / key, data)
        else:
            self.fs.pipe_file(f"{self._root}/{key}", data)

    def get(self, key: str) -> bytes:
        """Raises FileNotFoundError."""
        return cast("bytes", self.fs.cat_file(f"{self._root}/{key}"))

    def put_directory(self, prefix: str, source: Path) -> int:
        """Publish a local directory that has a manifest; returns its bytes."""
        verify_manifest(source)
        files = sorted(p for p in source.rglob("*") if p.is_file())
        files.sort(key=lambda path: path.name == MANIFEST)
        if self.is_local:
            target = Path(self._root) / prefix
            target.parent.mkdir(parents=True, exist_ok=True)
            staging = target.with_name(f".tmp-{uuid.uuid4().hex}")
            shutil.copytree(source, staging)
            staging.replace(target)
        else:
            for path in files:
                self.fs.put_file(str(path), f"{self._root}/{prefix}/{path.relative_to(source)}")
        return sum(path.stat().st_size for path in files)

    def get_directory(self, prefix: str, target: Path) -> Path:
        """Materialise a published directory at `target` (tmp, verify, rename); a verified one is kept.

        Raises BlobCorrupt, FileNotFoundError.
        """
        if (target / MANIFEST).exists():
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(dir=target.parent, prefix=".tmp-"))
        try:
            self.fs.get(f"{self._root}/{prefix}/", f"{staging}/", recursive=True)
            verify_manifest(staging)
            try:
                staging.replace(target)
            except OSError:
                # another process of this node was first; its copy passed the same check
                if not (target / MANIFEST).exists():
                    raise
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        return target

    def delete(self, key: str) -> None:
        """Remove a blob or a directory; what is gone is gone."""
        path = f"{self._root}/{key}"
        if self.fs.exists(path):
            self.fs.rm(path, recursive=True)

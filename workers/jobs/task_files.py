"""Task archives of the blob store, materialised once a node for the sandboxes to stand on."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from controlplane.blobs import BlobStore
from sandboxes.failures import Failure, FailureClass, FailureStage


@dataclass(frozen=True)
class TaskFiles:
    workspace: Path
    """environment/workspace of the task: the lower layer of every sandbox of it."""
    tests: dict[str, bytes]
    """tests/ of the task, kept in this process: the agent's box never holds them before grading."""
    solution: dict[str, bytes]
    """solution/ of the task: only a box of its own ever sees it."""


class TaskCache:
    """Thread-safe by rename; owner is the sandboxes' uid, so that overlays may be written to."""

    def __init__(self, store: BlobStore, root: Path, owner: tuple[int, int] | None) -> None:
        self._store, self._root, self._owner = store, root / "tasks", owner
        self._root.mkdir(parents=True, exist_ok=True)
        self._root.chmod(0o755)
        self._known = lru_cache(maxsize=4096)(self._files)

    def files(self, archive: str, digest: str) -> TaskFiles:
        """Raises Failure(image, image_error): the archive is gone or not what the row promised."""
        files = self._known(archive, digest)
        if not files.workspace.is_dir():  # somebody cleaned up
            self._known.cache_clear()
            files = self._known(archive, digest)
        return files

    def _files(self, archive: str, digest: str) -> TaskFiles:
        try:
            data = self._store.get(archive)
        except OSError as error:
            raise Failure(FailureStage.IMAGE, FailureClass.IMAGE_ERROR, str(error)) from error
        if hashlib.sha256(data).hexdigest() != digest:
            raise Failure(
                FailureStage.IMAGE, FailureClass.IMAGE_ERROR, f"{archive} is not what was imported"
            )
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            tests, solution = _folder(tar, "tests/"), _folder(tar, "solution/")
            target = self._root / digest
            if not target.exists():
                self._extract(tar, target)
        return TaskFiles(target, tests, solution)

    def _extract(self, tar: tarfile.TarFile, target: Path) -> None:
        prefix = "environment/workspace"
        staging = Path(tempfile.mkdtemp(dir=self._root, prefix=".tmp-"))
        try:
            staging.chmod(0o755)
            members = [m for m in tar.getmembers() if m.name.startswith(prefix + "/")]
            tar.extractall(staging, members=members, filter="data")
            workspace = staging / prefix
            workspace.mkdir(parents=True, exist_ok=True)
            if self._owner is not None:
                for path in [workspace, *workspace.rglob("*")]:
                    os.chown(path, *self._owner, follow_symlinks=False)
            try:
                workspace.rename(target)
            except OSError:
                if not target.exists():  # else another process of this node was first
                    raise
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _folder(tar: tarfile.TarFile, prefix: str) -> dict[str, bytes]:
    """Path below `prefix` to content, of its plain files."""
    files = {}
    for member in tar.getmembers():
        if member.isfile() and member.name.startswith(prefix):
            handle = tar.extractfile(member)
            assert handle is not None
            files[member.name.removeprefix(prefix)] = handle.read()
    return files

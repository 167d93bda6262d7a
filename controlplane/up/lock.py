"""One supervisor per var/: up.lock is held by the running one, up.json says which that is."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from controlplane.up.errors import CannotStart


@dataclass(frozen=True)
class Running:
    """What a running supervisor says of itself."""

    pid: int
    url: str
    is_ready: bool = False

    def write(self, var: Path) -> None:
        half = var / f"up.json.{self.pid}"
        half.write_text(json.dumps(asdict(self)))
        half.rename(var / "up.json")


def running(var: Path) -> Running | None:
    """The supervisor that runs on `var`, or None."""
    try:
        with (var / "up.lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return None
    except BlockingIOError:
        return Running(**json.loads((var / "up.json").read_text()))
    return None


@contextmanager
def only_one(var: Path, me: Running) -> Iterator[None]:
    """Hold `var` for this process; the kernel lets go when it dies.

    Raises CannotStart: another supervisor runs here.
    """
    with (var / "up.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = Running(**json.loads((var / "up.json").read_text()))
            raise CannotStart(
                f"Longtail already runs here: process {other.pid}, {other.url} . Stop it with "
                f"Ctrl-C in its terminal or `kill {other.pid}`."
            ) from None
        me.write(var)
        try:
            yield
        finally:
            (var / "up.json").unlink(missing_ok=True)

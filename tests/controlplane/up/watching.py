"""Watching processes from outside: what they say, and which are left."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

PATIENCE_S = 60


class Lines:
    """What a process printed so far, and a wait for more."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.seen: list[str] = []

    def until(self, text: str) -> None:
        """Read on to the line that holds `text`."""
        assert self.process.stdout
        for line in self.process.stdout:
            self.seen.append(line.strip())
            if text in line:
                return
        pytest.fail(f"{text!r} was never said, only {self.seen}")


def processes_of(marker: str) -> list[int]:
    """Pids of the other processes whose command line holds `marker`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if marker.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether `condition` came true while a patient person waits."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False

"""Fixtures of the tests of `up`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controlplane.up.environment import ROOT
from tests.controlplane.up.watching import Lines


@pytest.fixture
def entered_by_all() -> Iterator[Path]:
    """A directory that every account can enter; pytest's own are 0700, again and again."""
    with tempfile.TemporaryDirectory(prefix="longtail-test-") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@pytest.fixture
def launch() -> Iterator[Callable[..., Lines]]:
    """Start a Python process in the repository and read what it prints; killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str, env: dict[str, str] | None = None) -> Lines:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return Lines(process)

    yield start
    for process in started:
        process.kill()
        process.wait()

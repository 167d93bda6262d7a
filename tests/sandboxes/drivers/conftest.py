"""Real boxes on this machine. Without bubblewrap they are skipped; with it a probe that fails is a failure."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandboxes.drivers.base import SandboxSpec
from sandboxes.drivers.box import LocalSandbox
from sandboxes.drivers.local import UID, LocalDriver

SECRET = "the-database-password"

Start = Callable[..., LocalSandbox]


def give_to_sandboxes(directory: Path) -> None:
    for path in (directory, *directory.rglob("*")):
        if os.geteuid() == 0:
            os.chown(path, UID, UID)


@pytest.fixture(scope="session")
def template() -> Iterator[Path]:
    """A task's directory, reachable for the sandboxes' uid (pytest's own directories are not)."""
    root = Path(tempfile.mkdtemp(prefix="longtail-test-"))
    root.chmod(0o755)
    directory = root / "a, template: with odd name"
    (directory / "package" / "inner").mkdir(parents=True)
    (directory / "package" / "module.py").write_text("value = 1\n")
    (directory / "package" / "inner" / "deep.py").write_text("value = 2\n")
    (directory / "README").write_text("read me\n")
    give_to_sandboxes(directory)
    yield directory
    shutil.rmtree(root)


@pytest.fixture(scope="session")
def driver(template: Path) -> Iterator[LocalDriver]:
    os.environ["LONGTAIL_TEST_SECRET"] = SECRET
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    driver = LocalDriver()
    assert driver.probe().missing == ()
    yield driver
    driver.close()
    del os.environ["LONGTAIL_TEST_SECRET"]


@pytest.fixture
def start(driver: LocalDriver, template: Path) -> Iterator[Start]:
    started: list[LocalSandbox] = []
    numbers = itertools.count()

    def start(**fields: Any) -> LocalSandbox:
        fields = {"key": f"attempt-{next(numbers)}", "template": template, **fields}
        started.append(driver.start(SandboxSpec(**fields)))
        return started[-1]

    yield start
    for sandbox in started:
        sandbox.close()


@pytest.fixture
def sandbox(start: Start) -> LocalSandbox:
    return start()


_of_others: set[int] = set()


@pytest.fixture(scope="package", autouse=True)
def others() -> None:
    """What other tests of this session left running (its PostgreSQL, its Valkey) is none of a box's."""
    _of_others.update(pid for pid in processes_below(os.getpid()) if not is_spawner(pid))


def is_spawner(pid: int) -> bool:
    try:
        return b"drivers.spawner" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def processes_below(pid: int) -> list[int]:
    """All descendants of a process of this machine, but for those of other tests' processes."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parent = int(stat[stat.rindex(")") + 2 :].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        below = [child for child in children.get(todo.pop(), []) if child not in _of_others]
        found += below
        todo += below
    return found


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat[stat.rindex(")") + 2] not in "ZX"


def wait_until_gone(pids: list[int]) -> list[int]:
    deadline = time.monotonic() + 10
    while (alive := [pid for pid in pids if is_alive(pid)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return alive

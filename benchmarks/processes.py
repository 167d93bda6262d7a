"""CPU time and memory of everything this process started, split by part, the dead included.

    benchmark (child subreaper)
    ├── manage.py up ── postgres · valkey · web · control · rolloutN ── spawner ── sandboxes
    └── scripted engine                                                     (not the product's)

CPU of a part = user + system time of its living processes and of the children they have waited for
(fields 14 to 17 of /proc/PID/stat): a child that ends moves its time into its parent's, so nothing
is counted twice and a thousand dead sandboxes are still there. A process whose parent died before
it comes to us, as subreaper, and is counted as `orphans` once it has ended.
"""

from __future__ import annotations

import ctypes
import os
import resource
import threading
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PR_SET_CHILD_SUBREAPER = 36

# The first part whose words are all in the command line; without one, what its parent is.
PARTS = (
    ("postgres", ("postgres",)),
    ("valkey", ("valkey",)),
    ("web", ("uvicorn",)),
    ("beat", ("celery", " beat ")),
    ("control", ("celery", "-n control@")),
    ("rollout", ("celery", "-n rollout")),
    ("train", ("celery", "-n train@")),
    ("engine", ("celery", "-n engine@")),
    ("spawner", ("drivers.spawner",)),
    ("scripted engine", ("scripted_engine.py",)),
    ("up", ("manage.py up ",)),
)


@dataclass(frozen=True)
class Sample:
    """cpu_s by part since the parts began; pss_mb is shared memory counted once."""

    cpu_s: dict[str, float]
    pss_mb: dict[str, float]


def become_subreaper() -> None:
    """Descendants whose parents die come to this process. Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def reap_orphans(own_children: Iterable[int]) -> None:
    """Wait for the dead that are not ours to wait for, so that their time is counted."""
    mine = set(own_children)
    for pid in _children_of()[os.getpid()]:
        if pid not in mine:
            os.waitpid(pid, os.WNOHANG)


def sample(*, with_memory: bool = False) -> Sample:
    """The parts as they are now. Memory costs a walk of every page table: not too often."""
    cpu_s: dict[str, float] = defaultdict(float)
    pss_mb: dict[str, float] = defaultdict(float)
    children = _children_of()
    waiting = [(pid, "other") for pid in children[os.getpid()]]
    while waiting:
        pid, inherited = waiting.pop()
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (OSError, UnicodeDecodeError):
            continue
        part = _part_of(command, inherited)
        below = "sandboxes" if part == "spawner" else part
        cpu_s[part] += sum(map(int, fields[11:13])) * TICK_S
        cpu_s[below] += sum(map(int, fields[13:15])) * TICK_S
        if with_memory:
            pss_mb[part] += _pss_mb(pid)
        waiting += [(child, below) for child in children[pid]]
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s["orphans"] = ended.ru_utime + ended.ru_stime
    return Sample(dict(cpu_s), dict(pss_mb))


class PeakMemory:
    """Within it, the largest sum of all parts but the scripted engine, looked at every 10 s."""

    def __init__(self) -> None:
        self.peak_mb = 0.0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._is_over.wait(10):
            now = sample(with_memory=True).pss_mb
            now.pop("scripted engine", None)
            self.peak_mb = max(self.peak_mb, sum(now.values()))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._is_over.set()
        self._thread.join()


def _part_of(command: str, inherited: str) -> str:
    if inherited == "sandboxes":  # what runs in a sandbox is not asked who it is
        return inherited
    for part, words in PARTS:
        if all(word in command for word in words):
            return part
    return inherited


def _children_of() -> dict[int, list[int]]:
    children: dict[int, list[int]] = defaultdict(list)
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                fields = Path(f"/proc/{entry.name}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children[int(fields[1])].append(int(entry.name))
    return children


def _pss_mb(pid: int) -> float:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0

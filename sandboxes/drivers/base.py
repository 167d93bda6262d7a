"""The sandbox driver: one Protocol, three providers (local, docker, e2b). No Django here.

Every method that can fail raises `sandboxes.failures.Failure` with its stage and class. A command that
hits its own time or output cap is an observation (`ExecResult.timed_out`, `.truncated_bytes`), not a failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class SandboxSpec:
    """What one attempt asks of a provider. Sizes in bytes, times in seconds."""

    key: str
    """Idempotency key and label: `attempt-{id}`. A provider that finds it again returns or reclaims that box."""
    template: Path
    """The task's environment directory, already on this machine (local driver: the overlay's lower layer)."""
    workdir: str = "/workspace"
    setup: str = ""
    """Prepares the kept shell before the agent's first command, and again the shell that replaces it if it ends or
    is stopped; not the shells after kill_processes(). So it must bear repetition."""
    env: Mapping[str, str] = field(default_factory=dict)
    memory_bytes: int = 512 * 2**20
    disk_bytes: int = 64 * 2**20
    max_files: int = 20_000
    max_processes: int = 64
    network: bool = False
    start_timeout_s: float = 30.0
    setup_timeout_s: float = 30.0
    lifetime_s: float = 3600.0


@dataclass(frozen=True)
class ExecResult:
    """One command's end. Output is stdout and stderr as the terminal would show them, UTF-8 with replacement."""

    output: str
    exit_code: int
    """124 when timed out (the whole process tree of the command was killed)."""
    duration_s: float
    timed_out: bool = False
    truncated_bytes: int = 0
    """Bytes dropped from the middle of the output; the output says so itself, too."""


@dataclass(frozen=True)
class Capabilities:
    """What a probe of the provider found on this machine; shown on every trajectory and on /limits."""

    driver: str
    level: str
    """`bwrap+cgroup`, `bwrap+rlimits`, `unsafe`, `docker`, `e2b` ..."""
    features: Mapping[str, bool]
    missing: tuple[str, ...] = ()
    """Sentences: what is absent and the command that brings it. Not empty and level not unsafe: refuse to start."""


class Sandbox(Protocol):
    """One isolated box with one kept shell. Used by one thread at a time."""

    id: str
    timings: dict[str, float]
    """Seconds by life-cycle stage: start, setup, exec, verify, teardown."""

    def exec(self, command: str, *, timeout_s: float, max_output_bytes: int = 16_384) -> ExecResult:
        """Run text as one command of the kept shell: cwd, variables and background jobs persist between calls.

        Raises Failure(exec, lost|transport|oom|disk_full). NUL bytes are an observation (exit code 126).
        """
        ...

    def kill_processes(self) -> None:
        """End every process the agent left, keep workdir. The next exec gets a new shell, without its state."""
        ...

    def write_files(
        self, files: Mapping[str, bytes], *, root: str, executable: bool = False
    ) -> None:
        """Replace directory `root` by exactly these files (relative path to content)."""
        ...

    def read_file(self, path: str, *, max_bytes: int) -> bytes | None:
        """The content of a regular file (never a link's target), None if there is none; raises Failure if larger."""
        ...

    def changes(self, *, max_bytes: int) -> bytes | None:
        """A tar of what differs from the template under workdir (whiteouts as `.wh.NAME`); None if larger."""
        ...

    def close(self) -> None:
        """End the box and everything in it; never raises for a box that is gone."""
        ...


class Driver(Protocol):
    """A provider on this machine. Thread-safe: many attempts start and end boxes at once."""

    name: str

    def probe(self) -> Capabilities: ...

    def start(self, spec: SandboxSpec) -> Sandbox:
        """A ready box with `spec.setup` done. Raises Failure(start|setup, capacity|boot_fail|start_timeout|...)."""
        ...

    def reclaim(self, keys: list[str]) -> list[str]:
        """Remove boxes of earlier lives with these keys; returns those that were found and removed."""
        ...

    def close(self) -> None:
        """End all boxes of this driver."""
        ...

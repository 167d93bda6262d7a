"""What the infrastructure did: a catalogue of failures with messages and evidence as they are reported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sandboxes.failures import FailureClass as Kind
from sandboxes.failures import FailureStage as Stage


@dataclass(frozen=True)
class Fault:
    """One way to fail. at: how far through its turns an attempt is then (0: before the first)."""

    stage: Stage
    kind: Kind
    message: str
    weight: float
    at: tuple[float, float] = (0.0, 0.0)
    drivers: tuple[str, ...] = ("docker", "e2b")
    by_policy: bool = False
    log: tuple[str, ...] = ()
    days: tuple[float, float] = (0.0, 1.0)
    """Between which shares of the run it happens."""


DOCKER, E2B = ("docker",), ("e2b",)

CATALOGUE: tuple[Fault, ...] = (
    Fault(
        Stage.START,
        Kind.CAPACITY,
        "all predefined address pools have been fully subnetted (31 networks on the machine)",
        6,
        drivers=DOCKER,
        log=(
            "docker network create longtail-{id}",
            "Error response from daemon: all predefined address pools have been fully subnetted",
        ),
    ),
    Fault(
        Stage.IMAGE,
        Kind.RATE_LIMIT,
        "toomanyrequests: 100 pulls an hour for the whole cluster; try again in 41 s",
        4,
        drivers=DOCKER,
        log=(
            "docker pull registry.demo/swe/{repository}:{id}",
            "toomanyrequests: You have reached your pull rate limit.",
        ),
    ),
    Fault(
        Stage.IMAGE,
        Kind.IMAGE_ERROR,
        "image registry.demo/swe/{repository} has no manifest for linux/amd64",
        1,
        log=(
            "resolving registry.demo/swe/{repository}",
            "no match for platform in manifest: not found",
        ),
    ),
    Fault(
        Stage.START,
        Kind.START_TIMEOUT,
        "the sandbox was not ready within 60 s",
        5,
        log=(
            "POST /sandboxes template=swe-{repository}",
            "201 Created sandbox={id}",
            "envd: waiting for health ... 15 s",
            "envd: waiting for health ... 30 s",
            "envd: waiting for health ... 60 s",
            "deadline exceeded: sandbox {id} is not healthy",
        ),
    ),
    Fault(
        Stage.START,
        Kind.BOOT_FAIL,
        "envd did not answer after the boot: connection refused",
        2,
        drivers=E2B,
        log=(
            "firecracker: boot ok 118 ms",
            "envd: dial tcp 10.0.3.7:49983: connect: connection refused",
        ),
    ),
    Fault(
        Stage.SETUP,
        Kind.TRANSPORT,
        "the agent could not be installed: stream closed by the peer",
        2,
        log=(
            "uv pip install mini-swe-agent==2.4",
            "Resolved 41 packages in 812ms",
            "error: stream closed because of a broken pipe",
        ),
    ),
    Fault(
        Stage.INFER,
        Kind.INFER_INFRA,
        "the engine answered 503: no token within 600 s",
        4,
        at=(0.1, 0.95),
        log=(
            "POST /v1/chat/completions engine={engine}",
            "503 Service Unavailable: request waited in the queue until its time limit",
        ),
        days=(0.0, 0.55),
    ),
    Fault(
        Stage.INFER,
        Kind.INFER_INFRA,
        "connection to the engine was reset in the middle of an answer",
        3,
        at=(0.1, 0.95),
        log=("POST /v1/chat/completions engine={engine}", "ConnectionResetError: [Errno 104]"),
    ),
    Fault(
        Stage.EXEC,
        Kind.LOST,
        "the sandbox is gone: 404 from the provider",
        5,
        at=(0.15, 0.95),
        drivers=E2B,
        log=("POST /sandboxes/{id}/exec", "404 Not Found: sandbox {id} not found"),
    ),
    Fault(
        Stage.EXEC,
        Kind.OOM,
        "the box hit its memory limit of 4096 MB",
        0.8,
        at=(0.3, 0.9),
        by_policy=True,
        log=(
            "$ python -m pytest -n auto",
            "oom-kill: constraint=CONSTRAINT_MEMCG task=python3 pid=812 anon-rss:3871232kB",
            "Killed",
        ),
    ),
    Fault(
        Stage.EXEC,
        Kind.DISK_FULL,
        "no space left on device in /workspace",
        0.4,
        at=(0.3, 0.9),
        by_policy=True,
        log=("$ yes > /workspace/out.log", "yes: standard output: No space left on device"),
    ),
    Fault(
        Stage.COLLECT,
        Kind.TRANSPORT,
        "reading the patch timed out after 30 s",
        1,
        at=(1.0, 1.0),
        log=("GET /files?path=/workspace/.git", "context deadline exceeded"),
        days=(0.0, 0.3),
    ),
    Fault(
        Stage.VERIFY,
        Kind.VERIFY_TIMEOUT,
        "no verdict within 600 s",
        3,
        at=(1.0, 1.0),
        log=(
            "bash /tests/test.sh",
            "tests/test_core.py ......................",
            "tests/test_slow.py ..",
            "[stopped after 600 s]",
        ),
    ),
    Fault(
        Stage.VERIFY,
        Kind.VERIFY_INFRA,
        "a signal ended the verifier",
        2,
        at=(1.0, 1.0),
        log=("bash /tests/test.sh", "Terminated", "exit 143"),
    ),
    Fault(
        Stage.INGEST,
        Kind.UNKNOWN,
        "its turns could not be written: OperationalError",
        0.5,
        at=(0.2, 1.0),
        log=("COPY runs_turn ...", "server closed the connection unexpectedly"),
        days=(0.5, 1.0),
    ),
)

ENGINE_LOST = Fault(
    Stage.INFER,
    Kind.INFER_INFRA,
    "the engine is gone: connection refused",
    0,
    log=("POST /v1/chat/completions engine={engine}", "ConnectionRefusedError: [Errno 111]"),
)
BROKEN_TASK = Fault(
    Stage.VERIFY,
    Kind.TASK_DEFECT,
    "the verifier wrote no reward",
    0,
    at=(1.0, 1.0),
    log=("bash /tests/test.sh", "/tests/test.sh: line 3: pytest: command not found", "exit 127"),
)


def draw_fault(rng: np.random.Generator, *, driver: str, share: float) -> Fault:
    """One of those that can happen to this driver at this share of the run."""
    possible = [f for f in CATALOGUE if driver in f.drivers and f.days[0] <= share <= f.days[1]]
    weights = np.array([fault.weight for fault in possible])
    return possible[int(rng.choice(len(possible), p=weights / weights.sum()))]


def evidence_of(fault: Fault, values: dict[str, str]) -> dict[str, Any]:
    """What was kept of it: the end of a log, and the answer's code where there was one."""
    lines = [line.format(**values) for line in fault.log]
    evidence: dict[str, Any] = {"log": "\n".join(lines), "sandbox": values["id"]}
    if lines and lines[-1][:3].isdigit():
        evidence["status_code"] = int(lines[-1][:3])
    return evidence

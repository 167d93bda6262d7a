"""Start, watch and stop an engine's server process.

    start_reference ─► EngineProcess ─ wait_healthy ─► serving ─ stop ─► gone
                            │ poll() is not None: it ended by itself; the log's tail says why

The parent opens the listening socket and hands it down: the address is known at once, no port is lost
between two processes, and a connection made early waits in the backlog instead of being refused. The
server ends when its parent is gone, even by kill -9.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from sandboxes.failures import Failure, FailureClass, FailureStage
from workers.engines.client import EngineClient

LOG_TAIL_BYTES = 2000
SOURCE_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class EngineProcess:
    """A server of ours. `boot_id` tells this start from any other one at the same address."""

    url: str
    boot_id: str
    log_path: Path
    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid

    def poll(self) -> int | None:
        """None while it runs, else its exit status (negative: the signal)."""
        return self.process.poll()

    def wait_healthy(self, timeout_s: float = 60.0) -> None:
        """Returns once it generates. Raises Failure(start, boot_fail | start_timeout) with the log's
        tail as evidence."""
        deadline = time.monotonic() + timeout_s
        with EngineClient(self.url, max_connections=1) as client:
            while not client.health_generate(timeout_s=max(0.1, deadline - time.monotonic())):
                kind, what = FailureClass.START_TIMEOUT, f"is not ready after {timeout_s:g} s"
                if self.poll() is not None:
                    kind, what = FailureClass.BOOT_FAIL, f"ended with status {self.poll()}"
                elif time.monotonic() < deadline:
                    time.sleep(0.05)
                    continue
                evidence: dict[str, object] = {"log": self.log_tail()}
                raise Failure(FailureStage.START, kind, f"the engine {what}", evidence=evidence)

    def log_tail(self) -> str:
        with self.log_path.open("rb") as log:
            log.seek(max(0, self.log_path.stat().st_size - LOG_TAIL_BYTES))
            return log.read().decode(errors="replace")

    def stop(self, grace_s: float = 5.0) -> None:
        """Ends the process and all it started; returns when it is gone."""
        if self.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(grace_s)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def start_reference(
    model_dir: Path,
    *,
    log_path: Path,
    host: str = "127.0.0.1",
    port: int = 0,
    weight_version: int = 0,
    max_running: int = 64,
    max_queued: int = 256,
    context_length: int | None = None,
    threads: int = 1,
    seed: int | None = None,
) -> EngineProcess:
    """Starts a reference engine (port 0: any free one) and does not wait for it.

    Raises OSError when the address is taken or the log cannot be written.
    """
    boot_id = secrets.token_hex(8)
    options = {
        "--model-path": model_dir.resolve(),
        "--weight-version": weight_version,
        "--max-running-requests": max_running,
        "--max-queued-requests": max_queued,
        "--context-length": context_length,
        "--threads": threads,
        "--random-seed": seed,
        "--boot-id": boot_id,
        "--parent-pid": os.getpid(),
    }
    with socket.create_server((host, port), backlog=2048) as listener, log_path.open("ab") as log:
        command = [sys.executable, "-m", "workers.engines.reference", "--skip-tokenizer-init"]
        command += ["--fd", str(listener.fileno())]
        for name, value in options.items():
            command += [] if value is None else [name, str(value)]
        process = subprocess.Popen(
            command,
            pass_fds=[listener.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=SOURCE_ROOT,
            start_new_session=True,
            # Threads that spin while they wait would take the cores from everyone else.
            env=os.environ | {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"},
        )
        url = f"http://{host}:{listener.getsockname()[1]}"
    return EngineProcess(url, boot_id, log_path, process)

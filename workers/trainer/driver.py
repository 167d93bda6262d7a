"""Starts a trainer process, commands it, and leaves nothing of it behind.

    with TrainerProcess(run_dir, token=lease_token) as trainer:
        trainer.request("init", model_dir=..., seed=1, context_length=448, checkpoint_dir=None)
        trainer.request("step", ...)["metrics"]

Invariants: one trainer per run_dir, because a new owner kills the process group that
`trainer.pid` names before it starts its own; the process ends with its owner (closed socket,
PDEATHSIG); leaving the `with` ends the group. Standard library only.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sandboxes.failures import Failure, FailureClass, FailureStage
from workers.trainer.protocol import (
    SOCKET_VARIABLE,
    TOKEN_VARIABLE,
    Channel,
    Message,
    Refused,
    check_seq,
)

_ROOT = Path(__file__).parents[2]
_GONE_S = 10.0
"""How long a group may take to be gone after SIGKILL before the new owner gives up."""


class TrainerProcess:
    """A trainer under one lease. Enter and use it in one thread, which must outlive it
    (PDEATHSIG is of the thread); `kill` may be called from any."""

    def __init__(
        self,
        run_dir: Path,
        *,
        token: str,
        backend: str = "torch",
        threads: int = 1,
        start_timeout_s: float = 60.0,
    ) -> None:
        self._run_dir = run_dir
        self._token = token
        options = ["--backend", backend, "--threads", str(threads)]
        self._command = [sys.executable, "-m", "workers.trainer", *options]
        self._threads = threads
        self._start_timeout_s = start_timeout_s
        self._seq = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "not entered"
        return self._process.pid

    @property
    def log_path(self) -> Path:
        """stdout and stderr of the process, appended over restarts."""
        return self._run_dir / "trainer.log"

    @property
    def _pid_path(self) -> Path:
        return self._run_dir / "trainer.pid"

    def __enter__(self) -> Self:
        """Raises Failure(train, boot_fail) when the process does not come up."""
        self._run_dir.mkdir(parents=True, exist_ok=True)
        self._kill_predecessor()
        # not in run_dir: the path of a Unix socket holds 107 bytes at most
        socket_dir = Path(tempfile.mkdtemp(prefix="longtail-trainer-"))
        try:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(socket_dir / "socket"))
                listener.listen(1)
                self._start(socket_dir / "socket")
                self._channel = self._accept(listener)
        except BaseException:
            self.kill()
            raise
        finally:
            shutil.rmtree(socket_dir, ignore_errors=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Asks an idle process to end; kills what is left of the group."""
        if kind is None and self._channel is not None and self._process is not None:
            with suppress(OSError, subprocess.TimeoutExpired):
                self._send("shutdown", {})
                self._process.wait(5)
        self.kill()

    def request(
        self,
        type_: str,
        on_progress: Callable[[dict[str, Any]], None] | None = None,
        **fields: Any,
    ) -> dict[str, Any]:
        """Sends one request and waits for its reply; see `protocol` for the types.

        Raises Failure(train, lost) when the process is gone or says nonsense, and the failure that
        the process reported otherwise (evidence["is_corrupt"] for a corrupt checkpoint). What
        on_progress raises passes through; the process must then be left.
        """
        try:
            self._send(type_, fields)
        except OSError as error:
            raise self._lost(type_) from error
        while (reply := self._receive(type_))["type"] == "progress":
            if on_progress:
                on_progress(_content(reply))
        if reply["type"] == "failed":
            raise self._reported(reply)
        return _content(reply)

    def kill(self) -> None:
        """Ends the process group at once; a request that waits in another thread raises."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._channel is not None:
            self._channel.close()
        if _read_pid(self._pid_path)[0] == self._process.pid:
            self._pid_path.unlink(missing_ok=True)

    def _start(self, socket_path: Path) -> None:
        environment = os.environ | {
            SOCKET_VARIABLE: str(socket_path),
            TOKEN_VARIABLE: self._token,
            "OMP_NUM_THREADS": str(self._threads),
            "OMP_WAIT_POLICY": "PASSIVE",  # spinning threads cost 3x on a shared machine
        }
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=_ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        # the start time tells the process from a later one with the same number
        text = json.dumps([self._process.pid, _started_at(self._process.pid)])
        partial = self._pid_path.with_suffix(".partial")
        partial.write_text(text)
        partial.replace(self._pid_path)

    def _accept(self, listener: socket.socket) -> Channel:
        assert self._process is not None
        deadline = time.monotonic() + self._start_timeout_s
        listener.settimeout(0.2)
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            connection.settimeout(None)
            channel = Channel(connection, self._token)
            with suppress(Refused, OSError):
                hello = channel.receive()
                if hello is not None and hello["type"] == "hello":
                    return channel
            channel.close()
        raise self._failure(FailureClass.BOOT_FAIL, "the trainer process did not start")

    def _send(self, type_: str, fields: dict[str, Any]) -> None:
        assert self._channel is not None, "not entered"
        self._seq += 1
        self._channel.send(self._seq, type_, fields)

    def _receive(self, type_: str) -> Message:
        assert self._channel is not None, "not entered"
        try:
            reply = self._channel.receive()
            if reply is not None:
                check_seq(reply, self._seq)
                return reply
        except (OSError, ValueError, Refused) as error:  # ValueError: `kill` closed the channel
            raise self._lost(type_) from error
        raise self._lost(type_)

    def _reported(self, reply: Message) -> Failure:
        return Failure(
            FailureStage(reply["stage"]),
            FailureClass(reply["failure_class"]),
            str(reply["message"]),
            evidence={"is_corrupt": bool(reply["is_corrupt"]), "log": str(self.log_path)},
        )

    def _lost(self, type_: str) -> Failure:
        return self._failure(FailureClass.LOST, f"the trainer process was lost during {type_}")

    def _failure(self, kind: FailureClass, what: str) -> Failure:
        """what, and how the process ended: the log has the rest."""
        assert self._process is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)  # the socket closes a moment before the process is gone
        code = self._process.poll()
        if code is None:
            how = "it is still running"
        elif code < 0:
            how = f"ended by {signal.Signals(-code).name}"
        else:
            how = f"exit code {code}"
        return Failure(
            FailureStage.TRAIN, kind, f"{what}: {how}", evidence={"log": str(self.log_path)}
        )

    def _kill_predecessor(self) -> None:
        """Ends the group of an owner that lost its lease. Raises Failure(train, boot_fail)."""
        pid, started_at = _read_pid(self._pid_path)
        deadline = time.monotonic() + _GONE_S
        while pid and _started_at(pid) == started_at:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                raise Failure(
                    FailureStage.TRAIN,
                    FailureClass.BOOT_FAIL,
                    f"the previous trainer process {pid} of this run does not end",
                )
            time.sleep(0.02)
        self._pid_path.unlink(missing_ok=True)


def _content(reply: Message) -> dict[str, Any]:
    return {k: v for k, v in reply.items() if k not in ("seq", "type")}


def _read_pid(path: Path) -> tuple[int, int]:
    """Process number and start time; (0, 0) where the file is missing or unreadable."""
    try:
        pid, started_at = json.loads(path.read_text())
        return int(pid), int(started_at)
    except (OSError, ValueError, TypeError):
        return 0, 0


def _started_at(pid: int) -> int:
    """Clock ticks since boot (proc(5) stat, field 22); -1 for one that is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return -1
    return -1 if fields[0] in "ZX" else int(fields[19])

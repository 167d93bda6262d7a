"""Start processes in order, keep them running, leave none behind.

    stage 0 ──all ready──► stage 1 ──► ... ──► last stage ──► until Ctrl-C or SIGTERM
    postgres, valkey       migrate             web, workers

    one process:   start ──► ready ──► ends ──► wait (backoff) ──► start ...
                     └── ends or stays silent, on the very first start: give up with a sentence

Invariants: a stage starts only when the one before it is ready; stopping goes the other way round;
each child leads a process group of its own, which gets its stop signal, then SIGKILL after a grace;
each child is tethered, so the kernel ends it when this process is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controlplane.up.errors import CannotStart
from controlplane.up.tether import Account, tethered

FIRST_DELAY_S, MAX_DELAY_S = 0.5, 30.0
STABLE_S = 60.0  # after so long a life the next end counts as the first again
MAX_FIRST_STARTS = 5  # the children of a killed supervisor need up to two seconds to go
READY_TIMEOUT_S = 120.0
PROBE_EVERY_S = 0.2
MAX_LOG_BYTES = 64 * 2**20
TRIM_EVERY_S = 60.0


@dataclass(frozen=True)
class Process:
    """One row of the table of processes."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    cwd: Path = Path("/")
    account: Account | None = None
    # Blocking; says why the process is not ready yet, or None.
    unready: Callable[[], str | None] | None = None
    # Ready when its log says this. Without both: ready when started.
    ready_text: str = ""
    # A sentence for the end of the process from the end of its log.
    explain: Callable[[str], str | None] | None = None
    is_task: bool = False  # runs once and must succeed
    title: str = ""
    stop_signal: signal.Signals = signal.SIGTERM
    death_signal: signal.Signals = signal.SIGKILL
    grace_s: float = 10.0


def backoff_s(num_ends: int) -> float:
    """Seconds to wait before the start that follows the `num_ends`-th early end in a row."""
    return min(MAX_DELAY_S, FIRST_DELAY_S * 2.0 ** min(num_ends - 1, 10))


class Supervisor:
    """Runs stages of processes; `say` prints one line, `logs` takes one file per process."""

    def __init__(
        self, stages: Sequence[Sequence[Process]], logs: Path, say: Callable[[str, str], None]
    ) -> None:
        self.stages = [[Keeper(process, logs, say) for process in stage] for stage in stages]
        self.logs = logs
        self.say = say
        self.stop = asyncio.Event()
        self.hurry = asyncio.Event()

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Until a signal asks to stop. Raises CannotStart: a process never became ready."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._asked_to_stop)
        try:
            for stage in self.stages:
                if not await self._start(stage):
                    return
            on_ready()
            while not await _happens(self.stop, TRIM_EVERY_S):
                trim_logs(self.logs)
        finally:
            for stage in reversed(self.stages):
                await asyncio.gather(*(keeper.end(self.hurry) for keeper in stage))

    async def _start(self, stage: Sequence[Keeper]) -> bool:
        """Start a stage and wait for it; False when asked to stop meanwhile."""
        everyone = asyncio.gather(*(keeper.begin() for keeper in stage))
        stop = asyncio.ensure_future(self.stop.wait())
        either: list[asyncio.Future[Any]] = [everyone, stop]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if everyone.done():
                everyone.result()
        finally:
            for future in either:
                future.cancel()
            await asyncio.gather(*either, return_exceptions=True)
        return not self.stop.is_set()

    def _asked_to_stop(self) -> None:
        if self.stop.is_set():
            self.say("up", "killing what still runs")
            self.hurry.set()
        else:
            self.say("up", "stopping (once more to kill)")
            self.stop.set()


class Keeper:
    """Keeps one process running."""

    def __init__(self, process: Process, logs: Path, say: Callable[[str, str], None]) -> None:
        self.process = process
        self.log = logs / f"{process.name}.log"
        self.say = say
        self.child: asyncio.subprocess.Process | None = None
        self.started_at = 0.0
        self.log_start = 0
        self.task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Start the process and return when it is ready; from then on it is kept running.

        Raises CannotStart: it ended MAX_FIRST_STARTS times, or stayed unready.
        """
        name, is_task = self.process.name, self.process.is_task
        attempt = 1
        child = await self._spawn()
        while (reason := await self._wait_ready(child)) is not None:
            await self._finish(child)
            if is_task or attempt == MAX_FIRST_STARTS:
                raise CannotStart(f"{name} {reason}. Its log: {self.log}")
            self.say(name, f"{reason}; starts again in {backoff_s(attempt):g} s")
            await asyncio.sleep(backoff_s(attempt))
            attempt += 1
            child = await self._spawn()
        has_probe = self.process.unready or self.process.ready_text
        done = "done" if is_task else "ready" if has_probe else "started"
        title = f": {self.process.title}" if self.process.title else ""
        self.say(name, f"{done} in {time.monotonic() - self.started_at:.1f} s{title}")
        if not is_task:
            self.task = asyncio.create_task(self._keep(child))

    async def end(self, hurry: asyncio.Event) -> None:
        """Stop the process: its stop signal, then SIGKILL after its grace or on `hurry`."""
        if self.task:
            self.task.cancel()
        if self.child is None:
            return
        if self.child.returncode is None:
            _signal_group(self.child.pid, self.process.stop_signal)
            ways_out = [
                asyncio.ensure_future(self.child.wait()),
                asyncio.ensure_future(hurry.wait()),
            ]
            await asyncio.wait(
                ways_out, timeout=self.process.grace_s, return_when=asyncio.FIRST_COMPLETED
            )
            for way in ways_out:
                way.cancel()
            if self.child.returncode is None:
                self.say(self.process.name, "killed: it did not stop in time")
        await self._finish(self.child)

    async def _keep(self, child: asyncio.subprocess.Process) -> None:
        """Restart the process whenever it ends, ever more slowly while it ends early."""
        num_ends = 0
        while True:
            await child.wait()
            lived_s = time.monotonic() - self.started_at
            num_ends = 1 if lived_s > STABLE_S else num_ends + 1
            self.say(
                self.process.name,
                f"{self._why(child)}; starts again in {backoff_s(num_ends):g} s",
            )
            await self._finish(child)
            await asyncio.sleep(backoff_s(num_ends))
            child = await self._spawn()
            reason = await self._wait_ready(child)
            if reason is None:
                self.say(self.process.name, f"runs again as process {child.pid}")
            elif child.returncode is None:
                self.say(self.process.name, reason)
                await self._finish(child)

    async def _spawn(self) -> asyncio.subprocess.Process:
        process = self.process
        self.started_at = time.monotonic()
        with self.log.open("ab") as output:
            self.log_start = output.tell()
            self.child = await asyncio.create_subprocess_exec(
                *tethered(
                    process.command, account=process.account, death_signal=process.death_signal
                ),
                cwd=process.cwd,
                env=dict(process.env),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return self.child

    async def _wait_ready(self, child: asyncio.subprocess.Process) -> str | None:
        """None when ready, else why it never will be."""
        process = self.process
        if process.is_task:
            return None if await child.wait() == 0 else self._why(child)
        probe = process.unready or self._silent
        reason: str | None = "never asked"
        deadline = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline:
            if child.returncode is not None:
                return self._why(child)
            if (reason := await asyncio.to_thread(probe)) is None:
                return None
            await asyncio.sleep(PROBE_EVERY_S)
        return f"was not ready after {READY_TIMEOUT_S:g} s: {reason}"

    def _silent(self) -> str | None:
        text = self.process.ready_text
        if text in log_tail(self.log, 2**16, since=self.log_start):
            return None
        return f"its log does not say {text!r}"

    async def _finish(self, child: asyncio.subprocess.Process) -> None:
        """Nothing of the process group stays."""
        _signal_group(child.pid, signal.SIGKILL)
        await child.wait()

    def _why(self, child: asyncio.subprocess.Process) -> str:
        """How the process ended, and what its log says of it."""
        code = child.returncode or 0
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        tail = log_tail(self.log, since=self.log_start)
        sentence = self.process.explain(tail) if self.process.explain else None
        if sentence is None:
            lines = tail.strip().splitlines()
            sentence = lines[-1][:300] if lines else ""
        return f"ended with {how}" + (f": {sentence.rstrip('.')}" if sentence else "")


def log_tail(log: Path, num_bytes: int = 4096, *, since: int = 0) -> str:
    """The end of a log file from byte `since` on, "" if there is none."""
    with contextlib.suppress(FileNotFoundError), log.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(since, file.tell() - num_bytes))
        return file.read().decode(errors="replace")
    return ""


def trim_logs(logs: Path) -> None:
    """Keep the newer half of a log that grew too long; its writer appends, so it goes on."""
    for log in logs.glob("*.log"):
        if log.stat().st_size > MAX_LOG_BYTES:
            keep = log_tail(log, MAX_LOG_BYTES // 2)
            log.write_text(f"[older lines were dropped]\n{keep}")


async def _happens(event: asyncio.Event, timeout_s: float) -> bool:
    """Whether `event` is set within `timeout_s`."""
    try:
        await asyncio.wait_for(event.wait(), timeout_s)
    except TimeoutError:
        return False
    return True


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)

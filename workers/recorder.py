"""Batches the turns of a worker process into few COPY writes.

    64 rollout threads ── add ──> buffer ── every 0.25 s, 256 rows or 1 MB ──> copy_turns (one transaction)
              ▲                     │ full: add() blocks                             │
              └──── wait_durable ───┴──────────────── committed ─────────────────────┘

Invariants
- Nothing is dropped: a full buffer blocks the loops; a failed write is tried again until it commits.
- What the database refuses costs the attempt that it belongs to (a Failure), never its neighbours' turns.
- wait_durable returns only after every turn that was added for the attempt is committed.
- Turns of an attempt whose lease is gone are discarded by the write and counted; its loop gets LeaseLost.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from django.db import InterfaceError, OperationalError, connection

from controlplane.errors import LeaseLost
from runs.services.turns import AttemptTurns, TurnValues, copy_turns
from sandboxes.failures import Failure, FailureClass, FailureStage

log = logging.getLogger(__name__)

FLUSH_S = 0.25
MAX_ROWS = 256
MAX_BYTES = 2**20
MAX_BUFFERED_BYTES = 16 * 2**20
RETRY_S = 1.0


@dataclass
class _Pending:
    project_id: int
    trajectory_id: int
    token: uuid.UUID
    turns: list[TurnValues] = field(default_factory=list)


class Recorder:
    """One a process. Thread-safe."""

    def __init__(self, write: Callable[[Sequence[AttemptTurns]], set[int]] = copy_turns) -> None:
        self._write = write
        self._lock = threading.Condition()
        self._buffer: dict[int, _Pending] = {}
        self._writing: set[int] = set()
        self._lost: dict[int, Exception] = {}
        self._num_rows = self._num_bytes = 0
        self._is_wanted = self._is_closed = False
        self.num_discarded = 0
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def add(
        self,
        project_id: int,
        trajectory_id: int,
        attempt_id: int,
        token: uuid.UUID,
        turn: TurnValues,
    ) -> None:
        """Take one turn; blocks while the buffer is full. Raises LeaseLost, Failure(ingest, unknown)."""
        size = len(turn.action) + len(turn.observation) + len(turn.log) + 200
        with self._lock:
            while self._num_bytes >= MAX_BUFFERED_BYTES:
                self._lock.wait()
            if attempt_id in self._lost:
                raise self._lost.pop(attempt_id)
            if not self._buffer:
                self._lock.notify_all()  # the writer sleeps while there is nothing to write
            entry = self._buffer.setdefault(attempt_id, _Pending(project_id, trajectory_id, token))
            entry.turns.append(turn)
            self._num_rows += 1
            self._num_bytes += size
            if self._num_rows >= MAX_ROWS or self._num_bytes >= MAX_BYTES:
                self._lock.notify_all()

    def wait_durable(self, attempt_id: int) -> None:
        """Until all turns of the attempt are committed. Raises LeaseLost if they were discarded, and
        Failure(ingest, unknown) once if the database refused them."""
        with self._lock:
            if attempt_id in self._buffer:
                self._is_wanted = True
                self._lock.notify_all()
            while attempt_id in self._buffer or attempt_id in self._writing:
                self._lock.wait()
            if attempt_id in self._lost:
                raise self._lost.pop(attempt_id)

    def forget(self, attempt_id: int) -> None:
        """The attempt is over for us."""
        with self._lock:
            self._lost.pop(attempt_id, None)

    def close(self) -> None:
        """Write what is there and end."""
        with self._lock:
            self._is_closed = True
            self._lock.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._lock:
                deadline = time.monotonic() + FLUSH_S
                while not (self._is_wanted or self._is_closed or self._num_rows >= MAX_ROWS):
                    left = deadline - time.monotonic()
                    if left <= 0 and self._buffer:
                        break
                    self._lock.wait(max(left, 0.01) if self._buffer else None)
                    if not self._buffer:
                        deadline = time.monotonic() + FLUSH_S
                taken, self._buffer = self._buffer, {}
                self._writing = set(taken)
                self._num_rows = self._num_bytes = 0
                self._is_wanted = False
                is_last = self._is_closed
            if taken:
                batch = [
                    AttemptTurns(e.project_id, e.trajectory_id, attempt_id, e.token, e.turns)
                    for attempt_id, e in taken.items()
                ]
                lost = self._commit(batch)
                with self._lock:
                    self._writing = set()
                    self._lost |= lost
                    self.num_discarded += sum(len(taken[i].turns) for i in lost)
                    self._lock.notify_all()
            if is_last:
                return

    def _commit(self, batch: list[AttemptTurns]) -> dict[int, Exception]:
        """What was not written, and why. An outage is waited out."""
        while True:
            try:
                return {i: _lease_lost(i) for i in self._write(batch)}
            except (OperationalError, InterfaceError) as error:
                log.warning("turns could not be written, trying again: %s", error)
                time.sleep(RETRY_S)
            except Exception as error:
                if len(batch) == 1:
                    log.exception("turns of attempt %s were refused", batch[0].attempt_id)
                    return {batch[0].attempt_id: _refused(error)}
                parts = [self._commit([entry]) for entry in batch]
                return {i: why for part in parts for i, why in part.items()}
            finally:
                connection.close()


def _lease_lost(attempt_id: int) -> LeaseLost:
    return LeaseLost(f"Attempt {attempt_id} is no longer ours.")


def _refused(error: Exception) -> Failure:
    message = f"its turns could not be written: {type(error).__name__}"
    return Failure(FailureStage.INGEST, FailureClass.UNKNOWN, message)

"""What one worker process keeps: its Worker row, its heartbeat, its leases, its driver and caches.

One heartbeat thread renews all leases of the process in one UPDATE ... RETURNING every HEARTBEAT_S and gets
cancel flags back. Invariants: a lease that is missing from the answer, or that could not be renewed for one
TTL, is lost: its flag is set, its job kills the sandbox and reports nothing.
"""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from celery.signals import worker_init, worker_ready, worker_shutdown
from django.conf import settings
from django.db import DatabaseError, OperationalError, connection
from django.utils import timezone
from psycopg.errors import DeadlockDetected

from controlplane.blobs import BlobStore
from controlplane.errors import LeaseLost
from runs.models import Run, Worker
from runs.services import attempts, stages, workers
from sandboxes.drivers.base import Sandbox
from workers.agent.cancel import CancelFlag
from workers.jobs.task_files import TaskCache
from workers.recorder import Recorder

log = logging.getLogger(__name__)

T = TypeVar("T")
LOST = "lease_lost"
MAX_TRIES = 5
LOOK_S = 0.2


@dataclass
class Lease:
    """One attempt that this process runs."""

    attempt_id: int
    token: uuid.UUID
    flag: CancelFlag = field(default_factory=CancelFlag)
    is_lost: bool = False
    box: Sandbox | None = None
    """Where its command or its verifier runs now: a cancel ends the box, and so what runs in it."""

    def lose(self) -> None:
        """Somebody else owns the attempt now: end at once, report nothing."""
        self.is_lost = True
        self.cancel(LOST)

    def cancel(self, reason: str) -> None:
        """End the attempt within a second, whatever it is doing. Does not block; may be called again."""
        self.flag.cancel(reason)
        if self.box is not None:
            threading.Thread(target=self.box.close, name="end-box", daemon=True).start()


@dataclass
class StageLease:
    """The training stage that this process runs; `kill` ends the trainer."""

    stage_id: int
    token: uuid.UUID
    kill: Callable[[], None]
    run_status: str = "running"
    is_lost: bool = False


class Runtime:
    """One a process; built before any thread, because the sandbox spawner must be started first."""

    def __init__(self, kind: str, name: str, num_slots: int) -> None:
        self.kind, self.name, self.num_slots = kind, name, num_slots
        self.store = BlobStore(settings.BLOB_URL)
        self.cache_dir = _reachable_cache()
        self.capabilities: dict[str, Any] = {}
        self.driver: Any = None
        if kind == Worker.Kind.ROLLOUT:
            from sandboxes.drivers.local import UID, LocalDriver

            self.driver = LocalDriver()
            owner = (UID, UID) if os.geteuid() == 0 else None
            self.task_cache = TaskCache(self.store, self.cache_dir, owner)
            self.recorder = Recorder()
            found = self.driver.probe()
            self.capabilities = {
                "driver": found.driver,
                "level": found.level,
                "features": dict(found.features),
                "missing": list(found.missing),
            }
            if found.missing and found.level != "unsafe":
                log.error("no sandbox can be trusted here: %s", " ".join(found.missing))
                self.num_slots = 0
        self._leases: dict[int, Lease] = {}
        self._stage: StageLease | None = None
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._renewed_at = time.monotonic()
        self.worker: Worker | None = None
        self.consumer: Any = None
        """Celery's; it takes from the queue of this kind, unless the worker is draining."""
        self._is_taking = True

    @property
    def row(self) -> Worker:
        """The present Worker row; a new one after this process was given up for lost."""
        assert self.worker is not None
        return self.worker

    def start(self) -> None:
        """Register and begin to beat."""
        self._register()
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def _register(self) -> None:
        self.worker = database(
            lambda: workers.register_worker(
                hostname=socket.gethostname(),
                name=self.name,
                kind=self.kind,
                boot_id=uuid.uuid4().hex,
                pid=os.getpid(),
                num_slots=self.num_slots,
                num_cpus=os.cpu_count() or 1,
                memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
                capabilities=self.capabilities,
                now=timezone.now(),
            )
        )

    def hold(self, lease: Lease) -> None:
        with self._lock:
            self._leases[lease.attempt_id] = lease

    def let_go(self, lease: Lease) -> None:
        with self._lock:
            self._leases.pop(lease.attempt_id, None)

    def hold_stage(self, lease: StageLease | None) -> None:
        with self._lock:
            self._stage = lease

    def _beat(self) -> None:
        while not self._stopping.wait(settings.HEARTBEAT_S):
            try:
                self._renew()
                self._renewed_at = time.monotonic()
            except Exception as error:
                log.warning(
                    "no heartbeat: %s", error, exc_info=not isinstance(error, DatabaseError)
                )
                if time.monotonic() - self._renewed_at > settings.LEASE_TTL_S:
                    self._lose_everything()
            finally:
                connection.close()

    def _renew(self) -> None:
        with self._lock:
            held = list(self._leases.values())
            stage = self._stage
        status = workers.beat(self.row)
        self._take(status != Worker.Status.DRAINING)
        ids = [lease.attempt_id for lease in held]
        states = attempts.renew_attempts(self.row, ids) if held else {}
        for lease in held:
            state = states.get(lease.attempt_id)
            if state is None or state.token != lease.token:
                lease.lose()
            elif state.cancel_reason:
                lease.cancel(state.cancel_reason)
        if stage is not None:
            try:
                stage.run_status = stages.renew_stage(stage.stage_id, stage.token)
                if stage.run_status not in (Run.Status.RUNNING, Run.Status.PAUSED):
                    stage.kill()  # a step may take longer than a stop
            except LeaseLost:
                self._lose_stage(stage)
        if status is None:
            log.warning("this worker was given up for lost: registering anew")
            self._register()

    def _take(self, is_wanted: bool) -> None:  # noqa: FBT001 - reads as a sentence
        """Jobs from the queue, or none while the worker is draining."""
        if self.consumer is None or is_wanted == self._is_taking:
            return
        turn = self.consumer.add_task_queue if is_wanted else self.consumer.cancel_task_queue
        self.consumer.call_soon(turn, self.kind)
        self._is_taking = is_wanted

    def _lose_stage(self, stage: StageLease) -> None:
        if not stage.is_lost:
            stage.is_lost = True
            stage.kill()

    def _lose_everything(self) -> None:
        with self._lock:
            held, stage = list(self._leases.values()), self._stage
        for lease in held:
            lease.lose()
        if stage is not None:
            self._lose_stage(stage)

    def stop(self) -> None:
        """A clean shutdown: boxes end, what was in flight is tried again elsewhere."""
        self._stopping.set()
        self._lose_everything()
        try:
            database(lambda: workers.retire_worker(self.row, now=timezone.now()))
        except DatabaseError as error:
            log.warning("could not say goodbye: %s", error)
        if self.driver is not None:
            self.recorder.close()
            self.driver.close()


def database(call: Callable[[], T]) -> T:
    """Run one service and give the connection back: none is held across a model or sandbox call.

    PostgreSQL may end one of two transactions that wait for each other; what it ended changed nothing and is
    run again.
    """
    for tries_left in reversed(range(MAX_TRIES)):
        try:
            return call()
        except OperationalError as error:
            if not isinstance(error.__cause__, DeadlockDetected) or not tries_left:
                raise
            log.info("deadlock: the transaction is run again")
            time.sleep(random.uniform(0.01, 0.1))  # noqa: S311 - jitter
        finally:
            connection.close()
    raise AssertionError("unreachable")


def _reachable_cache() -> Path:
    """Task templates must be readable by the sandboxes' uid: beside the services' data when that was moved."""
    services = (settings.VAR_DIR / "services").resolve()
    root = services if services.is_dir() else Path(settings.VAR_DIR)
    path = root / "cache"
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o755)
    return path


_runtime: list[Runtime] = []


def runtime() -> Runtime:
    """This process's runtime. Raises RuntimeError outside a worker."""
    if not _runtime:
        raise RuntimeError("this process is not a worker")
    return _runtime[0]


@cache
def _kind_of(queues: frozenset[str]) -> str | None:
    kinds = queues & set(Worker.Kind.values)
    return next(iter(kinds)) if len(kinds) == 1 else None


@worker_init.connect
def build(sender: Any, **_: object) -> None:
    """In the main thread, before the pool: the spawner must not be forked from a threaded process."""
    kind = _kind_of(frozenset(sender.app.amqp.queues.consume_from))
    if kind is not None:
        _runtime.append(Runtime(kind, sender.hostname.split("@")[0], sender.concurrency or 1))


@worker_ready.connect
def start(sender: Any, **_: object) -> None:
    if _runtime:
        _runtime[0].consumer = sender
        _runtime[0].start()
        # Celery looks for jobs when its loop turns; without a timer a full worker sleeps on when a slot is free.
        sender.timer.call_repeatedly(LOOK_S, lambda: None)


@worker_shutdown.connect
def stop(**_: object) -> None:
    if _runtime:
        _runtime[0].stop()

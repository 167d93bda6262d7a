"""One answer for all who asked before it was begun: what many open pages want at once is computed once at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

from django.db import connection

Answer = TypeVar("Answer")


class Shared(Generic[Answer]):
    """Answers by key.

        ask ─► nothing is computed ─► compute ─────────────────────────────► the answer
        ask ─► one is computed ─► wait for it ─► compute for all who ─────► the same answer
                                                 asked meanwhile

    Invariants: an answer was begun after it was asked for, so nobody gets one that is older than the change
    that made them ask; one computation a key at a time in this process; who waits holds no connection.
    What a computation raises is raised to all who share it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[Hashable, Future[Answer]] = {}
        self._next: dict[Hashable, Future[Answer]] = {}

    def ask(self, key: Hashable, compute: Callable[[], Answer]) -> Answer:
        with self._lock:
            before = self._running.get(key)
            place = self._running if before is None else self._next
            theirs = place.get(key)
            mine = place.setdefault(key, Future())
        if theirs is not None:
            connection.close()
            return theirs.result()
        if before is not None:
            connection.close()
            wait([before])
        try:
            mine.set_result(compute())
        except BaseException as error:
            mine.set_exception(error)
            raise
        finally:
            self._promote(key)
        return mine.result()

    def _promote(self, key: Hashable) -> None:
        with self._lock:
            following = self._next.pop(key, None)
            if following is None:
                del self._running[key]
            else:
                self._running[key] = following

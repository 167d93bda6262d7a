"""A cancel flag that can also end a model call in progress."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from sandboxes.failures import Failure
from workers.agent.errors import Cancelled


class CancelFlag:
    """Set by the heartbeat thread, obeyed by the thread that runs the trajectory. Nobody polls.

    `cancel()` may be called again and again, as a heartbeat does while the wish stands: each call
    aborts what is then in progress, so an abort that reached the engine before its request did is
    repeated.
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        self._is_set = threading.Event()
        self._abort: Callable[[], object] | None = None
        self._aborter: threading.Thread | None = None

    def __call__(self) -> bool:
        return self.reason is not None

    def cancel(self, reason: str) -> None:
        """Ask for the end; the first reason stays. Never blocks: the abort, which an engine may leave
        unanswered, runs in a thread of its own.
        """
        if self.reason is None:
            self.reason = reason
            self._is_set.set()
        abort = self._abort
        if abort is not None and (self._aborter is None or not self._aborter.is_alive()):
            self._aborter = threading.Thread(target=_quietly, args=[abort], daemon=True)
            self._aborter.start()

    def check(self) -> None:
        """Raises Cancelled once `cancel` was called."""
        if self.reason is not None:
            raise Cancelled(self.reason)

    def sleep(self, seconds: float) -> None:
        """Sleep unless and until cancelled; raises Cancelled."""
        self._is_set.wait(seconds)
        self.check()

    @contextmanager
    def aborting(self, abort: Callable[[], object]) -> Iterator[None]:
        """While inside, `cancel()` calls `abort` (from another thread).

        Set first, then checked; `cancel` writes the reason first, then reads: one of the two always
        sees the other.
        """
        self._abort = abort
        try:
            self.check()
            yield
        finally:
            self._abort = None


def _quietly(abort: Callable[[], object]) -> None:
    with suppress(Failure):  # a call to an engine that is gone fails by itself
        abort()

"""The one thread that touches the model.

    event loop ── call(command) ─► inbox ─► commands, between steps ─► step ─► outbox ─┐
        ▲                                   (waits here when there is nothing to do)    │
        └────────────── replies of one step, in one call_soon_threadsafe ◄──────────────┘

An exception in a command goes back to who called it; one in a step has left the cache in an unknown
state and ends the process, so that whoever watches it starts a new one.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from workers.engines.reference.scheduler import FinishReason, Request, Scheduler

T = TypeVar("T")


class ModelThread(threading.Thread):
    def __init__(self, build: Callable[[], Scheduler], loop: asyncio.AbstractEventLoop) -> None:
        """`build` runs in the thread: loading a model takes seconds, and the server answers 503."""
        super().__init__(name="model", daemon=True)
        self._build = build
        self._loop = loop
        self._inbox: queue.SimpleQueue[Callable[[Scheduler], None]] = queue.SimpleQueue()
        self.scheduler: Scheduler | None = None

    def post(self, command: Callable[[Scheduler], None]) -> None:
        """Runs a command before the next step; nobody waits for it."""
        self._inbox.put(command)

    async def call(self, command: Callable[[Scheduler], T]) -> T:
        """Runs a command before the next step and returns what it returns, or raises what it raises."""
        future: Future[T] = Future()

        def run(scheduler: Scheduler) -> None:
            if not future.set_running_or_notify_cancel():
                return  # its caller has gone
            try:
                future.set_result(command(scheduler))
            except Exception as error:  # noqa: BLE001 -- whatever it is belongs to the caller
                future.set_exception(error)

        self.post(run)
        return await asyncio.wrap_future(future)

    def run(self) -> None:
        try:
            scheduler = self.scheduler = self._build()
            while True:
                self._obey(scheduler)
                if scheduler.has_work:
                    scheduler.step()
                if scheduler.outbox:
                    outbox, scheduler.outbox = scheduler.outbox, []
                    self._loop.call_soon_threadsafe(deliver, outbox)
        except BaseException:  # noqa: BLE001 -- see above
            traceback.print_exc()
            os._exit(1)

    def _obey(self, scheduler: Scheduler) -> None:
        """Runs all commands there are; waits for one when there is nothing else to do."""
        is_idle = not scheduler.has_work and not scheduler.outbox
        try:
            while True:
                self._inbox.get(block=is_idle)(scheduler)
                is_idle = False
        except queue.Empty:
            pass


def deliver(outbox: list[tuple[Request, int, FinishReason | None]]) -> None:
    for request, num_tokens, reason in outbox:
        request.reply(num_tokens, reason)

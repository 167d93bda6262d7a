"""Runs the generator's own modules in this process, as the tools of a task run them in its sandbox.

Only for code made by this package: nothing here isolates anything. Main thread only: a CPU alarm.
"""
# ruff: noqa: S102, S307, BLE001, S110  evaluating modules whatever they raise is the purpose

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

CPU_LIMIT_S = 0.02
MODULE = "m.py"


class OutOfTime(BaseException):
    """The CPU limit of `limit_cpu` is spent. Not an Exception: evaluated code must not catch it."""


@contextmanager
def limit_cpu(seconds: float = CPU_LIMIT_S) -> Iterator[None]:
    """Raise OutOfTime in the body once it used `seconds` of user CPU time, and again after as much more:
    what is raised inside a `__del__` is lost.

    The garbage collector rests meanwhile: in a large process one collection takes longer than the limit,
    and what a call gives must not depend on who else is in the process.
    """

    def stop(*_: object) -> None:
        raise OutOfTime

    is_collecting = gc.isenabled()
    gc.disable()
    previous = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)
        if is_collecting:
            gc.enable()


@lru_cache(maxsize=10_000)
def _compiled(call: str) -> CodeType:
    return compile(call, "call", "eval")


def evaluate(source: str, calls: Sequence[str]) -> list[str] | None:
    """Each call's value as text, an exception as its class; None when the CPU time is spent."""
    namespace: dict[str, Any] = {}
    values = []
    try:
        with limit_cpu():
            exec(compile(source, MODULE, "exec"), namespace)
            for call in calls:
                try:
                    values.append(repr(eval(_compiled(call), namespace)))
                except Exception as error:
                    values.append(type(error).__name__)
    except OutOfTime:
        return None
    return values


def executed_lines(source: str, calls: Sequence[str]) -> list[set[int]]:
    """For each call, the lines of the module that it executes (fault localisation's spectra)."""
    spectra: list[set[int]] = []

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename != MODULE:
            return None
        if event == "line":
            spectra[-1].add(frame.f_lineno)
        return trace

    namespace: dict[str, Any] = {}
    exec(compile(source, MODULE, "exec"), namespace)
    for call in calls:
        spectra.append(set())
        try:
            with limit_cpu(10 * CPU_LIMIT_S):
                sys.settrace(trace)
                try:
                    eval(_compiled(call), namespace)
                finally:
                    sys.settrace(None)
        except (Exception, OutOfTime):
            pass
    return spectra

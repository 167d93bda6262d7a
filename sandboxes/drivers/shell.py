"""Our end of one kept shell: three pipes and a file.

    text file   the command, word for word; the shell sources it, so a syntax error is an observation
    commands    one line per command: source the file, then report
    output      stdout and stderr of everything in the box, in the order of the writes
    status      "NONCE CODE PWD" when the command has ended

A command ends when the shell says so, not when its output is closed: background processes may hold it. What
the command's own processes wrote is in the output pipe by then, so draining what the pipe holds completes it.
The command runs with stdin from /dev/null and with its own copies of stdout and stderr, and cannot see the
shell's pipes: `exec >/dev/null` or closing descriptors lasts until the command ends.

Standard library only; any provider that can hand over these pipes can use it.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import select
import shlex
import termios
import time
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

# A flood is stopped, not drained until its time is over: it would cost a core.
MAX_TOTAL_BYTES = 64 * 2**20

COMMANDS_FD, OUTPUT_FD, STATUS_FD = 7, 8, 9
"""The shell's own descriptors. One digit: dash knows no other."""

_LINE = (
    "command . {text} </dev/null >&8 2>&8 7>&- 8>&- 9>&-; "
    '{{ command printf \'%s %d %s\\0\' {nonce} "$?" "$PWD"; }} >&9 2>&9\n'
)


class End(Enum):
    DONE = "done"
    TIMEOUT = "timeout"
    FLOOD = "flood"
    GONE = "gone"
    """No process has the pipes any more: the shell ended by `exit` or otherwise, or the box died."""


@dataclass(frozen=True)
class Run:
    end: End
    output: bytes
    num_dropped: int
    """Bytes left out of the middle of the output, where it has a notice."""
    exit_code: int = 0
    cwd: str = ""


class Pipes(NamedTuple):
    """Our ends: descriptors to write commands to, to read from, and of the text file."""

    commands: int
    output: int
    status: int
    text: int


class Output:
    """Keeps the first and the last bytes of a stream, at most `limit` in all."""

    def __init__(self, limit: int) -> None:
        self.num_head = (limit + 1) // 2
        self.num_tail = limit - self.num_head
        self.head = bytearray()
        self.tail = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        if room := self.num_head - len(self.head):
            self.head += data[:room]
            data = data[room:]
        if data:
            self.tail += data
            if len(self.tail) > 2 * self.num_tail + 65536:
                del self.tail[: len(self.tail) - self.num_tail]

    def finish(self) -> tuple[bytes, int]:
        tail = self.tail[max(0, len(self.tail) - self.num_tail) :]
        num_dropped = self.total - len(self.head) - len(tail)
        if not num_dropped:
            return bytes(self.head + tail), 0
        notice = f"\n[... {num_dropped} bytes of output dropped ...]\n".encode()
        return bytes(self.head + notice + tail), num_dropped


class Shell:
    """Owns its three pipes, not the text file. Used by one thread at a time."""

    def __init__(self, pipes: Pipes, text_path: str) -> None:
        """text_path: the text file as the shell sees it."""
        self._pipes, self._text_path = pipes, shlex.quote(text_path)
        self._poll = select.poll()
        self._poll.register(pipes.status, select.POLLIN)
        self._poll.register(pipes.output, select.POLLIN)
        self._pending = array.array("i", [0])
        # bash reads on from a copy of its own
        self._first = f"exec {COMMANDS_FD}<&-\n"

    def close(self) -> None:
        for fd in self._pipes[:3]:
            os.close(fd)

    def run(self, text: bytes, timeout_s: float, max_output_bytes: int) -> Run:
        """Source `text` and wait for its end, for `timeout_s`, or for a flood of output.

        After any end but DONE the shell is of no more use: the caller ends its box.
        """
        deadline = time.monotonic() + timeout_s
        output = Output(max_output_bytes)
        nonce = os.urandom(8).hex()
        os.pwrite(self._pipes.text, text, 0)
        os.ftruncate(self._pipes.text, len(text))
        line = self._first + _LINE.format(text=self._text_path, nonce=nonce)
        self._first = ""
        with contextlib.suppress(BrokenPipeError):  # the ends of the other pipes follow
            os.write(self._pipes.commands, line.encode())
        report, num_open = b"", 2
        while num_open:
            ready = self._poll.poll(max(0.0, 1000 * (deadline - time.monotonic())))
            if not ready:
                return self._end(End.TIMEOUT, output)
            # the report first: what comes after it in the output belongs to no command
            fd = self._pipes.status if len(ready) == 2 else ready[0][0]
            data = os.read(fd, 65536)
            if not data:  # the shell has closed it, by `exec` of another program perhaps
                self._poll.unregister(fd)
                num_open -= 1
            elif fd == self._pipes.status:
                report += data
                if end := _parse(report, nonce):
                    return self._end(End.DONE, output, *end)
            else:
                output.add(data)
                if output.total > MAX_TOTAL_BYTES:
                    return self._end(End.FLOOD, output)
        return self._end(End.GONE, output)

    def _end(self, end: End, output: Output, exit_code: int = 0, cwd: str = "") -> Run:
        """Take what the pipe holds now, and no more: a background process may go on writing."""
        fcntl.ioctl(self._pipes.output, termios.FIONREAD, self._pending)
        remaining = self._pending[0]
        while remaining > 0:
            data = os.read(self._pipes.output, min(remaining, 65536))
            output.add(data)
            remaining -= len(data)
        kept, num_dropped = output.finish()
        return Run(end, kept, num_dropped, exit_code, cwd)


def _parse(report: bytes, nonce: str) -> tuple[int, str] | None:
    """The report of the command with this nonce, wherever it starts: `set -x` traces into the pipe, too."""
    start = report.rfind(nonce.encode() + b" ")
    if start < 0 or not report.endswith(b"\0"):
        return None
    _, code, cwd = report[start:-1].decode(errors="replace").split(" ", 2)
    return int(code), cwd

"""The spawner: a single-threaded process, one per rollout process, that owns every local sandbox's life.

    rollout process (threads)                         spawner (uid of the sandboxes, own user namespace)
      LocalDriver.start ── control socket: spec, one end of a socket pair ──►  files: a mount namespace,
      LocalSandbox ◄── its socket: pipes of the kept shell by SCM_RIGHTS ────  held open by one descriptor
        writes commands, reads output: no hop                                  box: bwrap > shell (pid 1)
      close() or death: end of file ─────────────────────────────────────────► SIGKILL, reap, forget

A sandbox is two things. Its *files* (an overlay over the task's template on a tmpfs of limited size and
inodes, and a scratch tmpfs) are a mount namespace that lives until the sandbox is closed. Its *box* is one
bubblewrap with one shell as pid 1 of its own pid namespace: when the shell ends, by itself or by SIGKILL, the
kernel ends every other process of the box before bubblewrap can be reaped. So "kill what the agent left and
keep its files" is one SIGKILL and, when needed, a new box over the same files.

Consumes: one datagram (JSON) per request. Produces: one datagram per request, and one `ended` datagram for
each box, when it has been reaped. Waits for: requests, SIGCHLD, the death of the rollout process, lifetimes.

Invariants: no descriptor but 0-2 and 7-9 enters a box. Nothing secret is in the environment or the arguments of
any process here. The spawner dies with the rollout process (pidfd: not PR_SET_PDEATHSIG, which fires when the
*thread* that forked ends), and everything it started dies with it (--die-with-parent); nothing stays mounted.

Started by LocalDriver in an interpreter of its own (`COMMAND`). Standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import signal
import socket
import sys
import time
from dataclasses import dataclass
from typing import Any

from sandboxes.drivers import messages
from sandboxes.drivers.bubblewrap import Bubblewrap, give_up_root
from sandboxes.drivers.shell import COMMANDS_FD, OUTPUT_FD, STATUS_FD
from sandboxes.drivers.unsafe import Unsafe

COMMAND = (
    "import sys; sys.path.append(sys.argv.pop(1)); import sandboxes.drivers.spawner as s; s.main()"
)
"""For `python -ISB -c`, then: the folder of the package, control descriptor, parent's pid, uid, gid, "bubblewrap"
or "unsafe", bwrap, shell, seccomp program in hex."""

PR_SET_CHILD_SUBREAPER = 36


@dataclass
class Sandbox:
    number: int
    socket: socket.socket
    files: int
    """Descriptor of what holds its files: a mount namespace."""
    workdir: str
    env: dict[str, str]
    expires_at: float
    """time.monotonic() at which its lifetime is over."""
    pid: int = 0
    """bwrap of the box that runs now; 0 if none does."""
    is_closing: bool = False


class Spawner:
    def __init__(self, control: socket.socket, parent_pid: int, place: Bubblewrap | Unsafe) -> None:
        self.control, self.place = control, place
        self.by_socket: dict[int, Sandbox] = {}
        self.by_pid: dict[int, Sandbox] = {}
        self.num_started = 0
        self.parent = os.pidfd_open(parent_pid)
        self.children, self._wakeup = socket.socketpair()
        self.children.settimeout(0)
        self._wakeup.settimeout(0)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        self.poll = select.poll()
        for fd in (control.fileno(), self.parent, self.children.fileno()):
            self.poll.register(fd, select.POLLIN)

    def serve(self) -> None:
        """Until the rollout process closes the control socket or ends."""
        while True:
            for fd, _ in self.poll.poll(self._until_next_expiry_ms()):
                if fd == self.parent:
                    return
                if fd == self.control.fileno():
                    if not self._accept():
                        return
                elif fd == self.children.fileno():
                    self.children.recv(4096)
                    self._reap()
                elif (sandbox := self.by_socket.get(fd)) and not sandbox.is_closing:
                    self._answer(sandbox)
            self._expire()

    def end_all(self) -> None:
        for sandbox in self.by_pid.values():
            self.place.kill(sandbox)
        deadline = time.monotonic() + 5
        while self.by_pid and time.monotonic() < deadline:
            select.select([self.children], [], [], 0.1)
            self._reap()

    # requests

    def _accept(self) -> bool:
        spec, fds = messages.receive(self.control)
        if spec is None:
            return False
        peer = socket.socket(fileno=fds[0])
        self.num_started += 1
        number = self.num_started
        try:
            files = self.place.create(number, spec)
        except OSError as error:
            self._send(peer, {"error": str(error), "errno": error.errno})
            peer.close()
            return True
        expires_at = time.monotonic() + spec["lifetime_s"]
        sandbox = Sandbox(number, peer, files, spec["workdir"], spec["env"], expires_at)
        self.by_socket[peer.fileno()] = sandbox
        self.poll.register(peer.fileno(), select.POLLIN)
        self._give(sandbox, [self.place.open_text(number, "command")], self.place.folder(number))
        return True

    def _answer(self, sandbox: Sandbox) -> None:
        try:
            request, _ = messages.receive(sandbox.socket, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return  # the descriptor's number was given to a new sandbox since the poll
        except OSError:
            request = None
        if request is None:
            self._close(sandbox)
            return
        try:
            match request["op"]:
                case "boot":
                    self._give(sandbox, self._boot(sandbox, request))
                case "kill":  # answered by `ended`
                    if sandbox.pid:
                        self.place.kill(sandbox)
                case "open" if request["directory"] == "payload":
                    self._give(sandbox, [self.place.open_text(sandbox.number, "payload")])
                case "open":
                    self._give(sandbox, [self.place.open(sandbox, request["directory"])])
        except OSError as error:
            self._send(sandbox.socket, {"error": str(error), "errno": error.errno})

    def _give(self, sandbox: Sandbox, fds: list[int], folder: str = "") -> None:
        self._send(sandbox.socket, {"folder": folder}, fds)
        for fd in fds:
            os.close(fd)

    def _send(
        self, peer: socket.socket, message: dict[str, Any], fds: list[int] | None = None
    ) -> None:
        with contextlib.suppress(OSError):  # gone for its owner: end of file follows
            messages.send(peer, message, fds or [], socket.MSG_DONTWAIT)

    # boxes

    def _boot(self, sandbox: Sandbox, request: dict[str, str]) -> list[int]:
        """Start a box; returns our ends of its shell's pipes: commands, output, status."""
        if sandbox.pid:
            raise OSError(errno.EBUSY, "the box runs already")
        pipes = [os.pipe() for _ in range(3)]
        (commands, our_commands), (our_output, output), (our_status, status) = pipes
        actions: list[Any] = [
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, output, 1),
            (os.POSIX_SPAWN_DUP2, output, 2),
            (os.POSIX_SPAWN_DUP2, commands, COMMANDS_FD),
            (os.POSIX_SPAWN_DUP2, output, OUTPUT_FD),
            (os.POSIX_SPAWN_DUP2, status, STATUS_FD),
        ]
        ours = [our_commands, our_output, our_status]
        try:
            sandbox.pid = self.place.boot(sandbox, request, actions)
        except OSError:
            for fd in ours:
                os.close(fd)
            raise
        finally:
            for fd in (commands, output, status):
                os.close(fd)
        self.by_pid[sandbox.pid] = sandbox
        return ours

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            sandbox = self.by_pid.pop(pid, None)
            if sandbox is None:
                continue  # pid 1 of a box whose bwrap was killed: given to us as the nearest subreaper
            self.place.after_end(sandbox)
            sandbox.pid = 0
            self._send(sandbox.socket, {"ended": status})
            if sandbox.is_closing:
                self._forget(sandbox)

    # ends

    def _close(self, sandbox: Sandbox) -> None:
        self.poll.unregister(sandbox.socket.fileno())
        sandbox.is_closing = True
        if sandbox.pid:
            self.place.kill(sandbox)
        else:
            self._forget(sandbox)

    def _forget(self, sandbox: Sandbox) -> None:
        del self.by_socket[sandbox.socket.fileno()]
        sandbox.socket.close()
        self.place.forget(sandbox)

    def _until_next_expiry_ms(self) -> int | None:
        expiries = [s.expires_at for s in self.by_socket.values() if not s.is_closing]
        if not expiries:
            return None
        return max(0, int(1000 * (min(expiries) - time.monotonic())) + 1)

    def _expire(self) -> None:
        now = time.monotonic()
        for sandbox in [
            s for s in self.by_socket.values() if s.expires_at <= now and not s.is_closing
        ]:
            self._send(sandbox.socket, {"expired": True})
            self._close(sandbox)


def reserve_low_descriptors() -> None:
    """So that no descriptor of ours has a number that a shell is given."""
    while os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC) < 2 * STATUS_FD:
        pass


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    parent_pid, uid, gid = (int(value) for value in sys.argv[2:5])
    kind, bwrap, shell, seccomp = sys.argv[5:9]
    os.umask(0o022)
    reserve_low_descriptors()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        give_up_root(uid, gid)
        is_safe = kind == "bubblewrap"
        place = Bubblewrap(bwrap, shell, bytes.fromhex(seccomp)) if is_safe else Unsafe(shell)
        spawner = Spawner(control, parent_pid, place)
    except OSError as error:
        messages.send(control, {"error": str(error), "errno": error.errno}, [])
        return
    messages.send(control, {}, [])
    try:
        spawner.serve()
    finally:
        spawner.end_all()
        place.close()

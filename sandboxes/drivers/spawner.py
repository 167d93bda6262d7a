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

Run as `python -ISB spawner.py CONTROL_FD PARENT_PID UID GID BWRAP SHELL SECCOMP_HEX`. Standard library only.
"""

# Paths here belong to other mount namespaces and are arguments of system calls.
# ruff: noqa: PTH102, PTH103, PTH106, PTH108, PTH110, PTH112, PTH114, PTH115, PTH123, PTH211

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import json
import os
import select
import signal
import socket
import sys
import time
from dataclasses import dataclass
from typing import Any

COMMANDS_FD, OUTPUT_FD, STATUS_FD = 7, 8, 9  # one digit: dash knows no other
SECCOMP_FD = 6
MAX_MESSAGE = 1 << 17
MAX_FDS = 3
SANDBOX_ID = 1000  # uid and gid inside
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# The private root of the spawner is mounted over /sys of its own mount namespace: a directory that every
# machine has and no template lives under.
BASE = "/sys"
ROOT, DEVICES, COMMANDS, DISK, SCRATCH, GRADING = (
    f"{BASE}/{name}" for name in ("root", "dev", "text", "disk", "scratch", "grading")
)
SCRATCH_OPTIONS = "size=64m,nr_inodes=20000,mode=755"
GRADING_OPTIONS = "size=32m,nr_inodes=8192,mode=755"

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_NOSUID, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 0x2, 0x8, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def _mount(
    source: str, target: str, kind: str | None, flags: int = 0, options: str | None = None
) -> None:
    def text(value: str | None) -> bytes | None:
        return None if value is None else value.encode()

    _check(
        _libc.mount(text(source), text(target), text(kind), ctypes.c_ulong(flags), text(options)),
        f"mount {kind or 'bind'} on {target}",
    )


# --- messages ------------------------------------------------------------------------------------


def send(peer: socket.socket, message: dict[str, Any], fds: list[int], flags: int = 0) -> None:
    """One datagram of JSON with descriptors. (socket.send_fds and recv_fds drop their flags.)"""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    peer.sendmsg([json.dumps(message).encode()], rights, flags)


def receive(peer: socket.socket, flags: int = 0) -> tuple[dict[str, Any] | None, list[int]]:
    """The next datagram; None at the end of file. The descriptors do not survive an exec: a box gets none."""
    space = socket.CMSG_SPACE(MAX_FDS * array.array("i").itemsize)
    data, rights, _, _ = peer.recvmsg(MAX_MESSAGE, space, flags | socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, content in rights:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(content)
    return (json.loads(data) if data else None), list(fds)


# --- namespaces and the root that all boxes share ------------------------------------------------------------


def enter_namespaces(uid: int, gid: int) -> None:
    """Give up root for good, then become root of a private user and mount namespace. Raises OSError."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        _libc.prctl(PR_SET_DUMPABLE, 1)  # else /proc/self/uid_map belongs to the real root
    uid, gid = os.getuid(), os.getgid()
    _check(_libc.unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare a user namespace")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"0 {uid} 1"),
        ("gid_map", f"0 {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def build_root(seccomp: bytes) -> None:
    """What every box sees read-only: /usr of this machine, its links, and an /etc without this machine's users."""
    _mount("none", "/", None, MS_REC | MS_PRIVATE)
    _mount("tmpfs", BASE, "tmpfs", 0, "size=1g,mode=755")
    for name in ("usr", "etc", "proc", "dev", "tmp", "home/agent", "run/sandbox", "tests", "logs"):
        os.makedirs(f"{ROOT}/{name}")
    for name in (DEVICES, COMMANDS, DISK, SCRATCH, GRADING):
        os.mkdir(name)
    _mount("/usr", f"{ROOT}/usr", None, MS_BIND | MS_REC)
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), f"{ROOT}/{name}")
        elif os.path.isdir(f"/{name}"):
            os.mkdir(f"{ROOT}/{name}")
            _mount(f"/{name}", f"{ROOT}/{name}", None, MS_BIND | MS_REC)
    build_devices()
    files = {
        "passwd": f"root:x:0:0:root:/root:/bin/sh\nagent:x:{SANDBOX_ID}:{SANDBOX_ID}:agent:/home/agent:/bin/bash\n",
        "group": f"root:x:0:\nagent:x:{SANDBOX_ID}:\n",
        "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    }
    for name, text in files.items():
        with open(f"{ROOT}/etc/{name}", "w") as file:
            file.write(text)
    if os.path.exists("/etc/ld.so.cache"):
        with (
            open("/etc/ld.so.cache", "rb") as source,
            open(f"{ROOT}/etc/ld.so.cache", "wb") as target,
        ):
            target.write(source.read())
    os.mkdir(f"{ROOT}/etc/alternatives")
    if os.path.isdir("/etc/alternatives"):
        for entry in os.scandir("/etc/alternatives"):
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), f"{ROOT}/etc/alternatives/{entry.name}")
    if seccomp:
        with open(f"{BASE}/seccomp", "wb") as binary:
            binary.write(seccomp)


def build_devices() -> None:
    """/dev of all boxes but for its terminals and its shared memory. `bwrap --dev` would build each box's own,
    which is a fifth of what a box costs.
    """
    _mount("tmpfs", DEVICES, "tmpfs", MS_NOSUID, "size=64k,nr_inodes=64,mode=755")
    for name in ("null", "zero", "full", "random", "urandom", "tty"):
        if os.path.exists(f"/dev/{name}"):
            os.close(os.open(f"{DEVICES}/{name}", os.O_CREAT))
            _mount(f"/dev/{name}", f"{DEVICES}/{name}", None, MS_BIND)
    for name in ("pts", "shm"):
        os.mkdir(f"{DEVICES}/{name}")
    links = ("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")
    for name, target in links:
        os.symlink(f"/proc/self/fd{target}", f"{DEVICES}/{name}")
    os.symlink("pts/ptmx", f"{DEVICES}/ptmx")


def reserve_low_descriptors() -> None:
    """So that no descriptor of ours has a number that a box's shell is given."""
    while os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC) < 2 * STATUS_FD:
        pass


# --- the sandboxes -------------------------------------------------------------------------------------------


@dataclass
class Sandbox:
    number: int
    socket: socket.socket
    namespace: int
    """Descriptor of the mount namespace that holds its files."""
    workdir: str
    env: dict[str, str]
    expires_at: float
    """time.monotonic() at which its lifetime is over."""
    pid: int = 0
    """bwrap of the box that runs now; 0 if none does."""
    is_closing: bool = False


class Spawner:
    def __init__(self, control: socket.socket, parent_pid: int, bwrap: str, shell: str) -> None:
        self.control = control
        self.bwrap, self.shell = bwrap, shell
        self.has_seccomp = os.path.exists(f"{BASE}/seccomp")
        self.home = os.open("/proc/self/ns/mnt", os.O_RDONLY)
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
        for sandbox in list(self.by_socket.values()):
            self._kill(sandbox)
        deadline = time.monotonic() + 5
        while self.by_pid and time.monotonic() < deadline:
            select.select([self.children], [], [], 0.1)
            self._reap()

    # requests

    def _accept(self) -> bool:
        spec, fds = receive(self.control)
        if spec is None:
            return False
        peer = socket.socket(fileno=fds[0])
        try:
            self.num_started += 1
            text = f"{COMMANDS}/{self.num_started}"
            os.mkdir(text)
            text_fd = os.open(f"{text}/command", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            sandbox = Sandbox(
                number=self.num_started,
                socket=peer,
                namespace=self._create_files(spec),
                workdir=spec["workdir"],
                env=spec["env"],
                expires_at=time.monotonic() + spec["lifetime_s"],
            )
        except OSError as error:
            self._send(peer, {"error": str(error), "errno": error.errno})
            peer.close()
            return True
        self.by_socket[peer.fileno()] = sandbox
        self.poll.register(peer.fileno(), select.POLLIN)
        self._send(peer, {}, [text_fd])
        os.close(text_fd)
        return True

    def _answer(self, sandbox: Sandbox) -> None:
        try:
            request, _ = receive(sandbox.socket, socket.MSG_DONTWAIT)
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
                    fds = self._boot(sandbox, request)
                    self._send(sandbox.socket, {}, fds)
                    for fd in fds:
                        os.close(fd)
                case "kill":  # answered by `ended`
                    self._kill(sandbox)
                case "open":
                    fd = self._open(sandbox, request["directory"])
                    self._send(sandbox.socket, {}, [fd])
                    os.close(fd)
        except OSError as error:
            self._send(sandbox.socket, {"error": str(error), "errno": error.errno})

    def _send(
        self, peer: socket.socket, message: dict[str, Any], fds: list[int] | None = None
    ) -> None:
        with contextlib.suppress(OSError):  # gone for its owner: end of file follows
            send(peer, message, fds or [], socket.MSG_DONTWAIT)

    # files

    def _create_files(self, spec: dict[str, Any]) -> int:
        """The mount namespace of a new sandbox; returns its descriptor. Raises OSError naming the mount."""
        os.makedirs(f"{ROOT}{spec['workdir']}", exist_ok=True)
        _check(_libc.unshare(CLONE_NEWNS), "unshare a mount namespace")
        try:
            size, inodes = int(spec["disk_bytes"]), int(spec["max_files"])
            _mount("tmpfs", DISK, "tmpfs", 0, f"size={size},nr_inodes={inodes},mode=755")
            for name in ("upper", "work", "merged"):
                os.mkdir(f"{DISK}/{name}")
            layers = f"lowerdir={_escape(spec['template'])},upperdir={DISK}/upper,workdir={DISK}/work,userxattr"
            _mount("overlay", f"{DISK}/merged", "overlay", 0, layers)
            terminals = "newinstance,ptmxmode=0666,mode=620"
            _mount("devpts", f"{DEVICES}/pts", "devpts", MS_NOSUID | MS_NOEXEC, terminals)
            self._mount_scratch()
            return os.open("/proc/self/ns/mnt", os.O_RDONLY)
        finally:
            self._enter(self.home)

    def _mount_scratch(self) -> None:
        _mount("tmpfs", SCRATCH, "tmpfs", 0, SCRATCH_OPTIONS)
        for name in ("tmp", "home", "shm"):
            os.mkdir(f"{SCRATCH}/{name}")

    def _enter(self, namespace: int) -> None:
        _check(_libc.setns(namespace, CLONE_NEWNS), "setns")

    def _open(self, sandbox: Sandbox, directory: str) -> int:
        """A directory of the sandbox's files to read from, or the payload file to write to."""
        if directory == "payload":
            return os.open(
                f"{COMMANDS}/{sandbox.number}/payload", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644
            )
        self._enter(sandbox.namespace)
        try:
            path = {"workdir": f"{DISK}/merged", "changes": f"{DISK}/upper", "grading": GRADING}[
                directory
            ]
            return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        finally:
            self._enter(self.home)

    # boxes

    def _boot(self, sandbox: Sandbox, request: dict[str, Any]) -> list[int]:
        """Start a box over the sandbox's files; returns our ends: commands, output, status."""
        if sandbox.pid:
            raise OSError(errno.EBUSY, "the box runs already")
        pipes = [os.pipe() for _ in range(3)]
        (commands, our_commands), (our_output, output), (our_status, status) = pipes
        self._enter(sandbox.namespace)
        try:
            if request["scratch"] == "new":
                _check(_libc.umount2(SCRATCH.encode(), MNT_DETACH), "umount scratch")
                self._mount_scratch()
            if request["grading"] == "new":
                _libc.umount2(
                    GRADING.encode(), MNT_DETACH
                )  # fails the first time: nothing is there
                _mount("tmpfs", GRADING, "tmpfs", 0, GRADING_OPTIONS)
                for name in ("tests", "logs", "logs/verifier", "logs/agent"):
                    os.mkdir(f"{GRADING}/{name}")
            actions: list[Any] = [
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
                (os.POSIX_SPAWN_DUP2, commands, COMMANDS_FD),
                (os.POSIX_SPAWN_DUP2, output, OUTPUT_FD),
                (os.POSIX_SPAWN_DUP2, status, STATUS_FD),
            ]
            if self.has_seccomp:
                actions.append((os.POSIX_SPAWN_OPEN, SECCOMP_FD, f"{BASE}/seccomp", os.O_RDONLY, 0))
            arguments = self._arguments(sandbox, is_grading=bool(request["grading"]))
            # bwrap's own environment stays readable in the box on some versions: it gets a clean one
            environment = {"PATH": PATH}
            sandbox.pid = os.posix_spawn(self.bwrap, arguments, environment, file_actions=actions)
            self.by_pid[sandbox.pid] = sandbox
        except OSError:
            for fd in (our_commands, our_output, our_status):
                os.close(fd)
            raise
        finally:
            for fd in (commands, output, status):
                os.close(fd)
            self._enter(self.home)
        return [our_commands, our_output, our_status]

    def _arguments(self, sandbox: Sandbox, *, is_grading: bool) -> list[str]:
        text = f"{COMMANDS}/{sandbox.number}"
        arguments = (
            "bwrap --unshare-all --unshare-user --disable-userns --as-pid-1 --die-with-parent --new-session "
            f"--uid {SANDBOX_ID} --gid {SANDBOX_ID} --hostname sandbox --cap-drop ALL "
            f"--ro-bind {ROOT} / --proc /proc --dev-bind {DEVICES} /dev "
            f"--bind {SCRATCH}/shm /dev/shm --remount-ro /dev "
            f"--bind {SCRATCH}/tmp /tmp --bind {SCRATCH}/home /home/agent --ro-bind {text} /run/sandbox"  # noqa: S108
        ).split()
        if is_grading:
            arguments += [
                "--bind",
                f"{GRADING}/tests",
                "/tests",
                "--bind",
                f"{GRADING}/logs",
                "/logs",
            ]
        if self.has_seccomp:
            arguments += ["--seccomp", str(SECCOMP_FD)]
        arguments += ["--bind", f"{DISK}/merged", sandbox.workdir, "--chdir", "/"]
        environment = {
            "HOME": "/home/agent",
            "USER": "agent",
            "SHELL": self.shell,
            "LC_CTYPE": "C.UTF-8",
            "TERM": "dumb",
            **sandbox.env,
        }
        for name, value in environment.items():
            arguments += ["--setenv", name, value]
        options = ["--norc", "--noprofile"] if self.shell.endswith("/bash") else []
        return [*arguments, self.shell, *options, f"/proc/self/fd/{COMMANDS_FD}"]

    def _kill(self, sandbox: Sandbox) -> None:
        """SIGKILL for pid 1 of the box, which takes its whole pid namespace with it before bwrap ends."""
        if not sandbox.pid:
            return
        try:
            with open(f"/proc/{sandbox.pid}/task/{sandbox.pid}/children") as file:
                children = [int(pid) for pid in file.read().split()]
        except OSError:
            children = []
        for pid in children or [sandbox.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

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
            sandbox.pid = 0
            self._send(sandbox.socket, {"ended": status})
            if sandbox.is_closing:
                self._forget(sandbox)

    # ends

    def _close(self, sandbox: Sandbox) -> None:
        self.poll.unregister(sandbox.socket.fileno())
        sandbox.is_closing = True
        if sandbox.pid:
            self._kill(sandbox)
        else:
            self._forget(sandbox)

    def _forget(self, sandbox: Sandbox) -> None:
        del self.by_socket[sandbox.socket.fileno()]
        sandbox.socket.close()
        os.close(sandbox.namespace)
        for name in ("command", "payload"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{COMMANDS}/{sandbox.number}/{name}")
        os.rmdir(f"{COMMANDS}/{sandbox.number}")

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


def _escape(path: str) -> str:
    """A path as an option of the overlay: its separators are escaped."""
    return path.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    parent_pid, uid, gid = (int(value) for value in sys.argv[2:5])
    os.umask(0o022)
    reserve_low_descriptors()
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        enter_namespaces(uid, gid)
        build_root(bytes.fromhex(sys.argv[7]))
        spawner = Spawner(control, parent_pid, *sys.argv[5:7])
    except OSError as error:
        send(control, {"error": str(error), "errno": error.errno}, [])
        return
    send(control, {"seccomp": spawner.has_seccomp}, [])
    try:
        spawner.serve()
    finally:
        spawner.end_all()


if __name__ == "__main__":
    main()

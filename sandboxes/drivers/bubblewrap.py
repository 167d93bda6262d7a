"""What a box is: the namespaces of a spawner and of its sandboxes, and the arguments of bubblewrap.

    mount namespace of the spawner: this machine's files, and over /sys what all boxes share (BASE)
      └── of each sandbox, held by a descriptor: its disk (tmpfs), overlay and scratch tmpfs
            └── of each box, made by bubblewrap: BASE/root read-only as /, the sandbox's directories bound into it

Only our own fixed code runs with the rights of the middle one; what a model wrote runs in the last.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sandboxes.drivers.shell import COMMANDS_FD

if TYPE_CHECKING:
    from sandboxes.drivers.spawner import Sandbox

# Paths here belong to other mount namespaces and are arguments of system calls.
# ruff: noqa: PTH102, PTH103, PTH106, PTH108, PTH110, PTH112, PTH114, PTH115, PTH123, PTH211

SECCOMP_FD = 6
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
PR_SET_DUMPABLE = 4

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


def give_up_root(uid: int, gid: int) -> None:
    """For good. Nothing happens to a process that is not root. Raises OSError."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        _libc.prctl(PR_SET_DUMPABLE, 1)  # else our /proc/self still belongs to the real root


def enter_namespaces() -> None:
    """Become root of a private user and mount namespace. Raises OSError."""
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


class Bubblewrap:
    """Makes the files of sandboxes and starts boxes over them. It moves its process between mount namespaces:
    no other thread may run there.
    """

    def __init__(self, bwrap: str, shell: str, seccomp: bytes) -> None:
        """Raises OSError if this process cannot have namespaces of its own."""
        enter_namespaces()
        build_root(seccomp)
        self._bwrap, self._shell = bwrap, shell
        self._has_seccomp = bool(seccomp)
        self._home = os.open("/proc/self/ns/mnt", os.O_RDONLY)

    def folder(self, number: int) -> str:  # noqa: ARG002 - unsafe.py has one
        """What a path inside is to be prefixed with to be the path that a command sees."""
        return ""

    def open_text(self, number: int, name: str) -> int:
        """The file that commands come in, or the one that files come in. In the box they cannot be written."""
        directory = f"{COMMANDS}/{number}"
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory)
        return os.open(f"{directory}/{name}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def create(self, number: int, spec: dict[str, Any]) -> int:  # noqa: ARG002
        """The mount namespace of a new sandbox; returns its descriptor. Raises OSError naming the mount."""
        os.makedirs(f"{ROOT}{spec['workdir']}", exist_ok=True)
        _check(_libc.unshare(CLONE_NEWNS), "unshare a mount namespace")
        try:
            size, inodes = int(spec["disk_bytes"]), int(spec["max_files"])
            _mount("tmpfs", DISK, "tmpfs", 0, f"size={size},nr_inodes={inodes},mode=755")
            for name in ("upper", "work", "merged"):
                os.mkdir(f"{DISK}/{name}")
            lower = _escape(spec["template"])
            layers = f"lowerdir={lower},upperdir={DISK}/upper,workdir={DISK}/work,userxattr"
            _mount("overlay", f"{DISK}/merged", "overlay", 0, layers)
            terminals = "newinstance,ptmxmode=0666,mode=620"
            _mount("devpts", f"{DEVICES}/pts", "devpts", MS_NOSUID | MS_NOEXEC, terminals)
            _mount_scratch()
            return os.open("/proc/self/ns/mnt", os.O_RDONLY)
        finally:
            self._move(self._home)

    def open(self, sandbox: Sandbox, directory: str) -> int:
        """A directory of the sandbox's files to read from."""
        with self._inside(sandbox.files):
            paths = {"workdir": f"{DISK}/merged", "changes": f"{DISK}/upper", "grading": GRADING}
            return os.open(paths[directory], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def boot(self, sandbox: Sandbox, request: dict[str, str], actions: list[Any]) -> int:
        """Start a box over the sandbox's files; returns bwrap's pid. Raises OSError."""
        with self._inside(sandbox.files):
            if request["scratch"] == "new":
                _check(_libc.umount2(SCRATCH.encode(), MNT_DETACH), "umount scratch")
                _mount_scratch()
            if request["grading"] == "new":
                _mount("tmpfs", GRADING, "tmpfs", 0, GRADING_OPTIONS)
                for name in ("tests", "logs", "logs/verifier", "logs/agent"):
                    os.mkdir(f"{GRADING}/{name}")
            if self._has_seccomp:
                path = f"{BASE}/seccomp"
                actions = [*actions, (os.POSIX_SPAWN_OPEN, SECCOMP_FD, path, os.O_RDONLY, 0)]
            arguments = self._arguments(sandbox, is_grading=bool(request["grading"]))
            # with --as-pid-1 bwrap's own environment is not in the box; it gets a clean one all the same
            return os.posix_spawn(self._bwrap, arguments, {"PATH": PATH}, file_actions=actions)

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
            for name in ("tests", "logs"):
                arguments += ["--bind", f"{GRADING}/{name}", f"/{name}"]
        if self._has_seccomp:
            arguments += ["--seccomp", str(SECCOMP_FD)]
        arguments += ["--bind", f"{DISK}/merged", sandbox.workdir, "--chdir", "/"]
        environment = {
            "HOME": "/home/agent",
            "USER": "agent",
            "SHELL": self._shell,
            "LC_CTYPE": "C.UTF-8",
            "TERM": "dumb",
            **sandbox.env,
        }
        for name, value in environment.items():
            arguments += ["--setenv", name, value]
        options = ["--norc", "--noprofile"] if self._shell.endswith("/bash") else []
        return [*arguments, self._shell, *options, f"/proc/self/fd/{COMMANDS_FD}"]

    def kill(self, sandbox: Sandbox) -> None:
        """SIGKILL for pid 1 of the box, which takes its whole pid namespace with it before bwrap ends."""
        try:
            with open(f"/proc/{sandbox.pid}/task/{sandbox.pid}/children") as file:
                children = [int(pid) for pid in file.read().split()]
        except OSError:
            children = []
        for pid in children or [sandbox.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def after_end(self, sandbox: Sandbox) -> None:
        """Nothing: bwrap ends after the last process of its box."""

    def forget(self, sandbox: Sandbox) -> None:
        os.close(sandbox.files)
        for name in ("command", "payload"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{COMMANDS}/{sandbox.number}/{name}")
        os.rmdir(f"{COMMANDS}/{sandbox.number}")

    def close(self) -> None:
        """Nothing: the namespaces end with this process."""

    @contextlib.contextmanager
    def _inside(self, files: int) -> Iterator[None]:
        self._move(files)
        try:
            yield
        finally:
            self._move(self._home)

    def _move(self, namespace: int) -> None:
        _check(_libc.setns(namespace, CLONE_NEWNS), "setns")


def _mount_scratch() -> None:
    _mount("tmpfs", SCRATCH, "tmpfs", 0, SCRATCH_OPTIONS)
    for name in ("tmp", "home", "shm"):
        os.mkdir(f"{SCRATCH}/{name}")


def _escape(path: str) -> str:
    """A path as an option of the overlay: its separators are escaped."""
    return path.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")

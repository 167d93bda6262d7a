"""The `local` driver: a bubblewrap box per attempt over an overlay of the task's template. No root, no daemon.

Who starts, kills and reaps a box: spawner.py. What it is made of: bubblewrap.py, seccomp.py. One sandbox seen
from its owner: box.py. How a command runs in it: shell.py.

Isolation: user, mount, pid, net, ipc and uts namespaces of its own, no capabilities, no further user namespaces,
a seccomp filter, a read-only root with this machine's /usr, a disk of limited bytes and inodes, rlimits for each
process, and a process limit for the box. The kernel is shared: good against accidents and hostile commands, not
against kernel exploits. Without a cgroup the memory of a box is bounded for each process only, not for all
together: the level is called `bwrap+rlimits`. Where no box can be made, and only with
LONGTAIL_UNSAFE_LOCAL_SANDBOX=1, there is a level `unsafe` without any wall (unsafe.py).

Under root, boxes belong to uid 200001 (`LocalDriver(uid=, gid=)`): it must be able to reach the template through
every directory above it, and what an agent may edit must belong to it, so give a copy that was chowned. Under
any other user boxes have that user's uid.

Files: workdir lives as long as the sandbox. /tmp, /home/agent and /dev/shm survive a shell that ended or was
stopped, and are new after kill_processes(): what is graded is workdir, as `changes` would save it. /tests and
/logs are empty and read-only until the first write_files() below them, which ends all processes.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from sandboxes.drivers import messages, spawner
from sandboxes.drivers.base import Capabilities, SandboxSpec
from sandboxes.drivers.box import LocalSandbox, check_path
from sandboxes.drivers.bubblewrap import PATH
from sandboxes.drivers.seccomp import seccomp_program
from sandboxes.failures import Failure, FailureClass, FailureStage

UID = 200_001
"""Owner of all boxes when the driver runs as root: neither the workers' nor the database's, and nobody's login."""

INSTALL = "apt-get install -y --no-install-recommends bubblewrap"
_RESERVED = {"", "bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "logs", "proc"}
_RESERVED |= {"run", "sbin", "sys", "tests", "usr"}


class LocalDriver:
    """Thread-safe. Owns one spawner process; starts another if that one dies (its sandboxes are lost)."""

    name = "local"

    def __init__(
        self, *, uid: int | None = None, gid: int | None = None, shell: str | None = None
    ) -> None:
        is_root = os.geteuid() == 0
        self._uid = (UID if uid is None else uid) if is_root else os.geteuid()
        self._gid = (self._uid if gid is None else gid) if is_root else os.getegid()
        self._shell = shell or ("/bin/bash" if Path("/bin/bash").exists() else "/bin/sh")
        self._lock = threading.Lock()
        self._sandboxes: dict[str, LocalSandbox] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._is_closed = False
        self._why_unsafe = ""
        self._num_oom_kills = count_oom_kills()
        with contextlib.suppress(Failure):  # said by probe(), and by each start()
            self._connect()

    def probe(self) -> Capabilities:
        """Run one real sandbox and look at each property from inside."""
        try:
            found = self._look_inside()
        except Failure as failure:
            if not _may_be_unsafe() or self._why_unsafe:
                return Capabilities(self.name, "none", {}, (failure.message,))
            with self._lock:
                self._drop_spawner()
                self._why_unsafe = failure.message
            found = []
        if self._why_unsafe:
            features = dict.fromkeys(_FEATURES, False)
            return Capabilities(self.name, "unsafe", features, (self._why_unsafe,))
        features = {name: name in found for name in _FEATURES}
        missing = [text for name, text in _FEATURES.items() if text and not features[name]]
        return Capabilities(self.name, "bwrap+rlimits", features, tuple(missing))

    def _look_inside(self) -> list[str]:
        directory = Path(tempfile.mkdtemp(prefix="longtail-probe-"))
        try:
            template = directory / "template"
            (template / "directory").mkdir(parents=True)
            (template / "directory" / "file").write_text("lower")
            for path in (directory, *directory.rglob("*")):
                path.chmod(0o755)
                if os.geteuid() == 0:
                    os.chown(path, self._uid, self._gid)
            with contextlib.closing(self.start(SandboxSpec("probe", template))) as sandbox:
                return sandbox.exec(_PROBE, timeout_s=20.0).output.split()
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def start(self, spec: SandboxSpec) -> LocalSandbox:
        """Raises Failure: start/boot_fail, start_timeout, capacity, task_defect (a spec that cannot be);
        image/image_error (the template); setup/start_timeout, setup/task_defect.
        """
        _check(spec)
        self.reclaim([spec.key])
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        is_bash = self._shell.endswith("/bash")
        sandbox = LocalSandbox(
            spec,
            ours,
            is_bash=is_bash,
            on_close=self._forget,
            was_out_of_memory=self._was_out_of_memory,
        )
        with self._lock:
            self._sandboxes[spec.key] = sandbox
        try:
            with theirs:
                self._hand_over(spec, theirs)
            sandbox.start()
        except BaseException:
            sandbox.close()
            raise
        return sandbox

    def reclaim(self, keys: list[str]) -> list[str]:
        """The boxes of an earlier process ended with it: only boxes of this driver can be found."""
        with self._lock:
            found = [self._sandboxes[key] for key in keys if key in self._sandboxes]
        for sandbox in found:
            sandbox.close()
        return [sandbox.id for sandbox in found]

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            sandboxes = list(self._sandboxes.values())
        for sandbox in sandboxes:
            sandbox.close()
        with self._lock:
            self._drop_spawner()

    def _hand_over(self, spec: SandboxSpec, peer: socket.socket) -> None:
        """Ask the spawner for a sandbox whose owner holds the other end of `peer`."""
        request = {
            "template": str(spec.template.absolute()),
            "workdir": spec.workdir,
            "env": dict(spec.env),
            "disk_bytes": spec.disk_bytes,
            "max_files": spec.max_files,
            "lifetime_s": spec.lifetime_s,
        }
        try:
            messages.send(self._connect(), request, [peer.fileno()])
        except OSError:  # it has died since: the next one may live
            try:
                messages.send(self._connect(), request, [peer.fileno()])
            except OSError as error:
                raise _cannot_start(f"the spawner does not answer: {error}") from error

    def _forget(self, sandbox: LocalSandbox) -> None:
        with self._lock:
            if self._sandboxes.get(sandbox.id) is sandbox:
                del self._sandboxes[sandbox.id]

    def _was_out_of_memory(self) -> bool:
        """Has this machine killed a process for memory since the last question?"""
        before, self._num_oom_kills = self._num_oom_kills, count_oom_kills()
        return self._num_oom_kills > before

    def _connect(self) -> socket.socket:
        """The control socket of a living spawner. Raises Failure(start, boot_fail) that says what to do."""
        with self._lock:
            if self._is_closed:
                raise _cannot_start("the driver is closed")
            if self._process is not None and self._process.poll() is not None:
                self._drop_spawner()
            if self._control is None:
                self._start_spawner()
            assert self._control is not None
            return self._control

    def _start_spawner(self) -> None:
        """Sets _control and _process, and why_unsafe if it can be no better. Raises Failure(start, boot_fail)."""
        if self._why_unsafe:
            self._run_spawner("unsafe", "")
            return
        try:
            bwrap = shutil.which("bwrap")
            if bwrap is None:
                raise _cannot_start(f"bubblewrap is missing: {INSTALL}")
            self._run_spawner("bubblewrap", bwrap)
        except Failure as failure:
            if not _may_be_unsafe():
                raise
            self._why_unsafe = failure.message
            self._run_spawner("unsafe", "")

    def _run_spawner(self, kind: str, bwrap: str) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = seccomp_program(platform.machine()) or b""
        numbers = [str(n) for n in (theirs.fileno(), os.getpid(), self._uid, self._gid)]
        command = [sys.executable, "-ISB", "-c", spawner.COMMAND, str(Path(__file__).parents[2])]
        with theirs:
            self._process = subprocess.Popen(
                [*command, *numbers, kind, bwrap, self._shell, program.hex()],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={"PATH": PATH},
                cwd="/",
                start_new_session=True,  # Ctrl-C is for the supervisor to handle
            )
        self._control.settimeout(30.0)
        try:
            reply, _ = messages.receive(self._control)
        except OSError as error:
            reply = {"error": str(error)}
        self._control.settimeout(None)
        if reply is None or "error" in reply:
            self._drop_spawner()
            reason = reply["error"] if reply else "the spawner ended at once"
            raise _cannot_start(
                f"no sandbox can be made on this machine ({reason}): unprivileged user namespaces must be allowed, "
                "on Ubuntu by `sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
            )

    def _drop_spawner(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            try:
                self._process.wait(10.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._control = self._process = None


def _may_be_unsafe() -> bool:
    return os.environ.get("LONGTAIL_UNSAFE_LOCAL_SANDBOX") == "1"


def _cannot_start(message: str) -> Failure:
    return Failure(FailureStage.START, FailureClass.BOOT_FAIL, message)


def _check(spec: SandboxSpec) -> None:
    """Raises Failure(start, task_defect) for a spec that no box can have."""
    texts = [text for item in spec.env.items() for text in item]
    if spec.network:
        problem = "the local driver has no network to give"
    elif check_path(spec.workdir) != spec.workdir or spec.workdir.split("/")[1] in _RESERVED:
        problem = f"{spec.workdir} cannot be a task's directory"
    elif any("\0" in text for text in texts) or any(not n or "=" in n for n in spec.env):
        problem = "its environment has a name or a value that no process can have"
    elif sum(map(len, texts)) > messages.MAX_BYTES // 8:
        problem = "its environment is too large"
    else:
        return
    raise Failure(FailureStage.START, FailureClass.TASK_DEFECT, problem)


def count_oom_kills() -> int:
    """How often this machine's kernel has killed a process for memory since it started; 0 if it does not say."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


_FEATURES = {
    "overlay": "the overlay of the template does not work: Linux 5.11 or newer is needed",
    "overlay_replaces_directories": "a template's directory cannot be removed and made again: "
    "Linux 6.6 or newer is needed",
    "no_network": "a sandbox sees a network",
    "read_only_root": "a sandbox can write outside its own directories",
    "no_capabilities": "a sandbox has capabilities",
    "no_user_namespaces": "a sandbox can make user namespaces",
    "process_limit": "a sandbox's processes are not limited",
    "private_processes": "a sandbox sees processes of this machine",
    "seccomp": "",  # a second layer: not on every architecture
}
"""Feature to the sentence that says what is wrong without it; an empty one is not required."""

_PROBE = r"""
echo upper > directory/file && [ "$(cat directory/file)" = upper ] && echo overlay
rm -r directory && mkdir directory && [ -z "$(ls directory)" ] && echo overlay_replaces_directories
[ "$(grep -c : /proc/net/dev)" = 1 ] && echo no_network
! touch /probe /dev/probe /usr/probe /etc/probe 2>/dev/null && echo read_only_root
grep -q '^CapEff:[[:space:]]*0*$' /proc/self/status &&
  grep -q '^NoNewPrivs:[[:space:]]*1$' /proc/self/status && echo no_capabilities
! unshare -U true 2>/dev/null && echo no_user_namespaces
[ "$(ulimit -u 2>/dev/null || ulimit -p)" != unlimited ] && echo process_limit
[ "$(cat /proc/1/comm)" = "$(cat /proc/$$/comm)" ] && [ ! -e /root ] && echo private_processes
grep -q '^Seccomp:[[:space:]]*2$' /proc/self/status && echo seccomp
true
"""

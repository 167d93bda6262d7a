"""One local sandbox, seen from its owner: the kept shell's commands, its files, its ends.

Commands go straight to the shell (shell.py). The spawner is asked, over the sandbox's own socket, only to start
a box, to kill it and to open a directory of its files; it says, unasked, when a box has ended. Closing that
socket is what ends the sandbox: no one has to remember it.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import posixpath
import shlex
import socket
import tarfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath

from sandboxes.drivers import messages
from sandboxes.drivers.base import ExecResult, SandboxSpec
from sandboxes.drivers.files import TooLarge, find_changes, read_regular
from sandboxes.drivers.shell import End, Pipes, Run, Shell
from sandboxes.drivers.unsafe import Paths
from sandboxes.failures import Failure, FailureClass, FailureStage

GRADING_ROOTS = ("/tests", "/logs")
EMPTY_ROOTS = ("/tests", "/logs/verifier", "/logs/agent")
MAX_COMMAND_BYTES = 2**20
WRITE_TIMEOUT_S = 60.0
END_TIMEOUT_S = 10.0
_TEXT_PATH, _PAYLOAD_PATH = "/run/sandbox/command", "/run/sandbox/payload"
_CAPACITY = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EUSERS}
_TEMPLATE = {errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}


class LocalSandbox:
    """Used by one thread at a time; close() alone may come from another, and ends what that thread waits for."""

    def __init__(
        self,
        spec: SandboxSpec,
        peer: socket.socket,
        *,
        is_bash: bool,
        on_close: Callable[[LocalSandbox], None],
        was_out_of_memory: Callable[[], bool],
    ) -> None:
        self.id = spec.key
        self.spec = spec
        self.timings: dict[str, float] = {"exec": 0.0}
        self._socket = peer
        self._socket.settimeout(spec.start_timeout_s)
        self._is_bash = is_bash
        self._on_close, self._was_out_of_memory = on_close, was_out_of_memory
        self._lock = threading.RLock()
        self._text = -1
        self._shell: Shell | None = None
        self._ended: int | None = None
        """Wait status of the last box, once it has ended."""
        self._paths = Paths("", spec.workdir)
        self._cwd = spec.workdir
        self._scratch, self._grading = "keep", ""
        """What the next box does with these files: new or keep them; no grading files yet."""
        self._empty_roots: set[str] = set()
        """Grading directories that nothing has been written to."""
        self._is_closing = self._is_closed = False
        self._stage = FailureStage.START
        self._sets_up_again = False

    def start(self) -> None:
        """Take over the sandbox that the spawner was asked for, start its first box, set it up."""
        started = time.monotonic()
        spec = self.spec
        try:
            (self._text,) = self._reply()
        except OSError as error:
            raise self._cannot_start(error) from error
        self._cwd = self._workdir = self._paths.real(spec.workdir)
        self._boot(started + spec.start_timeout_s)
        self._stage = FailureStage.EXEC
        self.timings["start"] = time.monotonic() - started
        if spec.setup:
            self._set_up(spec.setup)

    def _set_up(self, command: str) -> None:
        result = self.exec(command, timeout_s=self.spec.setup_timeout_s)
        self.timings["setup"], self.timings["exec"] = result.duration_s, 0.0
        evidence: dict[str, object] = {"output": result.output, "exit_code": result.exit_code}
        if result.timed_out:
            message = f"the task's setup took longer than {self.spec.setup_timeout_s:g} s"
            raise Failure(
                FailureStage.SETUP, FailureClass.START_TIMEOUT, message, evidence=evidence
            )
        if result.exit_code:
            message = f"the task's setup ended with exit code {result.exit_code}"
            raise Failure(FailureStage.SETUP, FailureClass.TASK_DEFECT, message, evidence=evidence)
        self._sets_up_again = True

    def _set_up_again(self) -> None:
        """In the shell that replaces one. The agent may have broken it: then the shell comes without."""
        assert self._shell is not None
        go_back = f"cd -- {shlex.quote(self._cwd)} 2>/dev/null".encode()
        go_to_workdir = f"cd -- {shlex.quote(self._workdir)}".encode()
        setup = self._paths.rewrite(self.spec.setup.encode())
        for text in (go_to_workdir, setup, go_back):
            run = self._shell.run(text, self.spec.setup_timeout_s, 4096)
            if run.end is not End.DONE:
                self._end_box()
                self._sets_up_again = False
                self._boot(time.monotonic() + self.spec.start_timeout_s)
                return

    def exec(self, command: str, *, timeout_s: float, max_output_bytes: int = 16_384) -> ExecResult:
        """See base.Sandbox. After a timeout or a flood of output every process of the sandbox has been killed; then,
        as after `exit`, the next command runs in a new shell in the last working directory. The output says so.
        """
        text = command.encode(errors="replace")
        if b"\0" in text:
            return ExecResult("the command has a NUL byte: it was not run\n", 126, 0.0)
        if len(text) > MAX_COMMAND_BYTES:
            return ExecResult(
                f"the command has over {MAX_COMMAND_BYTES} bytes: it was not run\n", 126, 0.0
            )
        with self._lock:
            started = time.monotonic()
            self._empty_roots.clear()
            run = self._run(self._paths.rewrite(text), timeout_s, max_output_bytes)
            exit_code, notice = run.exit_code, ""
            if run.end is not End.DONE:
                exit_code, notice = self._after(run, timeout_s)
            duration_s = time.monotonic() - started
            self.timings["exec"] += duration_s
            output = self._paths.restore(run.output.decode(errors="replace"))
            if notice and output and not output.endswith("\n"):
                output += "\n"
            return ExecResult(
                output + notice, exit_code, duration_s, run.end is End.TIMEOUT, run.num_dropped
            )

    def kill_processes(self) -> None:
        with self._lock:
            if self._shell is not None:
                self._end_box()
            self._scratch = "new"
            self._cwd = self._workdir
            self._sets_up_again = False

    def write_files(
        self, files: Mapping[str, bytes], *, root: str, executable: bool = False
    ) -> None:
        """See base.Sandbox. Written inside the box, so no link in it leads out; needs find and tar there.

        Raises Failure(exec, disk_full) where the sandbox is full, Failure(exec, transport) where it refuses.
        """
        root = check_path(root)
        with self._lock:
            if not self._grading and any(_is_below(root, grading) for grading in GRADING_ROOTS):
                self.kill_processes()
                self._grading, self._empty_roots = "new", set(EMPTY_ROOTS)
            is_empty = root in self._empty_roots
            if is_empty and not files:
                return
            self._empty_roots.clear()
            real = {name: self._paths.rewrite(content) for name, content in files.items()}
            archive = _pack(real, 0o755 if executable else 0o644)
            with self._opened("payload") as fd:
                try:
                    with open(fd, "wb", closefd=False) as payload:
                        payload.write(archive)
                    self._unpack(self._paths.real(root), is_empty=is_empty)
                finally:
                    # it may be the hidden tests, and the agent's code could read it
                    os.ftruncate(fd, 0)

    def _unpack(self, root: str, *, is_empty: bool) -> None:
        """tar, not the shell itself: of what it writes, nothing stays in the memory of a process of the box."""
        quoted = shlex.quote(root)
        payload = shlex.quote(self._paths.real(_PAYLOAD_PATH))
        script = f"command tar -xof {payload} -C {quoted}"
        if not is_empty:
            script = (
                f"if [ -d {quoted} ] && [ ! -L {quoted} ]; then command find {quoted} -mindepth 1 -delete; "
                f"else command rm -f -- {quoted} && command mkdir -p -- {quoted}; fi && {script}"
            )
        run = self._run(script.encode(), WRITE_TIMEOUT_S, 4096)
        if run.end is not End.DONE or run.exit_code != 0:
            # once more, in a shell that owes nothing to the agent, with rights that it may have taken away
            self._end_box()
            above = [
                shlex.quote(str(path))
                for path in reversed(PurePosixPath(root).parents)
                if _is_below(str(path), self._workdir)
            ]
            allow = f"[ -L {quoted} ] || command chmod -R u+rwX -- {quoted} 2>/dev/null"
            if above:
                allow = f"command chmod u+rwx -- {' '.join(above)} 2>/dev/null; {allow}"
            script = f"{allow}; {script}"
            run = self._run(script.encode(), WRITE_TIMEOUT_S, 4096)
        if run.end is not End.DONE:
            self._end_box()
        elif run.exit_code == 0:
            return
        output = run.output.decode(errors="replace")
        kind, message = FailureClass.TRANSPORT, f"the files in {root} could not be replaced"
        if os.strerror(errno.ENOSPC) in output:
            kind, message = FailureClass.DISK_FULL, f"no space left for the files in {root}"
        raise Failure(self._stage, kind, message, by_policy=True, evidence={"output": output})

    def read_file(self, path: str, *, max_bytes: int) -> bytes | None:
        """See base.Sandbox. Only files that outlive a shell: below workdir, /tests and /logs; else ValueError."""
        path = check_path(path)
        if _is_below(path, self.spec.workdir):
            directory, parts = "workdir", path[len(self.spec.workdir) + 1 :].split("/")
        elif any(_is_below(path, root) for root in GRADING_ROOTS):
            directory, parts = "grading", path.strip("/").split("/")
        else:
            raise ValueError(f"{path} is in none of {(self.spec.workdir, *GRADING_ROOTS)}")
        if directory == "grading" and self._grading != "keep":
            return None
        with self._opened(directory) as fd:
            try:
                return read_regular(fd, parts, max_bytes)
            except TooLarge:
                message = f"{path} is larger than {max_bytes} bytes"
                raise Failure(
                    FailureStage.COLLECT, FailureClass.TRANSPORT, message, by_policy=True
                ) from None

    def changes(self, *, max_bytes: int) -> bytes | None:
        """See base.Sandbox. Call it when the processes have been ended."""
        with self._opened("changes") as fd:
            return find_changes(fd, max_bytes)

    def close(self) -> None:
        """Returns when no process is left. Another thread may call it: what the using thread waits for, ends."""
        started = time.monotonic()
        self._is_closing = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            with contextlib.suppress(OSError):
                self._socket.settimeout(END_TIMEOUT_S)
                message: object = ""
                while message is not None:
                    message, fds = messages.receive(self._socket)
                    for fd in fds:
                        os.close(fd)
            self._socket.close()
            self._drop_shell()
            if self._text >= 0:
                os.close(self._text)
            self.timings["teardown"] = time.monotonic() - started
        self._on_close(self)

    # the box

    def _run(self, text: bytes, timeout_s: float, max_output_bytes: int) -> Run:
        if self._is_closing:
            raise self._lost("the sandbox was closed")
        if self._shell is None:
            self._boot(time.monotonic() + self.spec.start_timeout_s)
            if self._sets_up_again:
                self._set_up_again()
        assert self._shell is not None
        run = self._shell.run(text, timeout_s, max_output_bytes)
        if run.end is End.DONE:
            self._cwd = run.cwd
        return run

    def _boot(self, deadline: float) -> None:
        """A new box over the sandbox's files, with its limits set and the shell in the last directory."""
        try:
            commands, output, status = self._request(
                "boot", scratch=self._scratch, grading=self._grading
            )
        except OSError as error:
            raise self._cannot_start(error) from error
        self._ended, self._scratch = None, "keep"
        self._grading = "keep" if self._grading else ""
        self._shell = Shell(
            Pipes(commands, output, status, self._text), self._paths.real(_TEXT_PATH)
        )
        run = self._shell.run(self._prepare(), deadline - time.monotonic(), 4096)
        if run.end is End.DONE:
            self._cwd = run.cwd
            return
        self._end_box()
        if run.end is End.TIMEOUT:
            raise self._cannot_start(TimeoutError())
        said = run.output.decode(errors="replace").strip() or "it said nothing"
        raise Failure(self._stage, FailureClass.BOOT_FAIL, f"the box ended at once: {said}")

    def _cannot_start(self, error: OSError) -> Failure:
        if isinstance(error, TimeoutError):
            message = f"no shell within {self.spec.start_timeout_s:g} s"
            return Failure(self._stage, FailureClass.START_TIMEOUT, message)
        is_first = self._text < 0
        if is_first and (error.errno in _TEMPLATE or not self.spec.template.is_dir()):
            message = f"the template {self.spec.template} cannot be used: {error.strerror}"
            return Failure(FailureStage.IMAGE, FailureClass.IMAGE_ERROR, message)
        kind = FailureClass.CAPACITY if error.errno in _CAPACITY else FailureClass.BOOT_FAIL
        return Failure(self._stage, kind, f"no box: {error.strerror}")

    def _prepare(self) -> bytes:
        """Limits: of each process, but for max_processes, which the kernel counts per box (user namespace)."""
        spec = self.spec
        kib = 1 if self._is_bash else 2  # dash counts file sizes in blocks of 512
        limits = {
            "c": 0,
            "n": 1024,
            "f": max(spec.disk_bytes, 64 * 2**20) // 1024 * kib,
            "v": spec.memory_bytes // 1024,
        }
        if not self._paths.folder:  # there it would count those of all sandboxes
            limits["u" if self._is_bash else "p"] = spec.max_processes
        lines = [f"ulimit -{letter} {value}" for letter, value in limits.items()]
        # the kernel shall take a box before a worker or the database
        lines.append("echo 900 2>/dev/null >/proc/self/oom_score_adj")
        lines.append(
            f"cd -- {shlex.quote(self._cwd)} 2>/dev/null || cd -- {shlex.quote(self._workdir)}"
        )
        return "\n".join(lines).encode()

    def _after(self, run: Run, timeout_s: float) -> tuple[int, str]:
        """Exit code and notice of a command that did not report its end. Raises Failure(exec, lost)."""
        was_killed = run.end is not End.GONE
        status = self._end_box(is_gone=not was_killed)
        where = f"the next command runs in a new shell in {self._paths.restore(self._cwd)}"
        if run.end is End.TIMEOUT:
            return 124, f"[stopped after {timeout_s:g} s: all processes were killed; {where}]\n"
        if run.end is End.FLOOD:
            return 137, f"[stopped: too much output; all processes were killed; {where}]\n"
        if os.WIFSIGNALED(status) or self._is_closing:
            raise self._lost(f"the box was ended from outside by signal {os.WTERMSIG(status)}")
        code = os.waitstatus_to_exitcode(status)
        return code, f"[the shell ended with exit code {code}; {where}]\n"

    def _lost(self, message: str) -> Failure:
        if self._is_closing:
            message = "the sandbox was closed"
        elif self._was_out_of_memory():
            message += "; meanwhile this machine ran out of memory"
            return Failure(self._stage, FailureClass.OOM, message)
        return Failure(self._stage, FailureClass.LOST, message)

    def _end_box(self, *, is_gone: bool = False) -> int:
        """Returns bwrap's wait status when no process of the box is left. is_gone: it is ending by itself."""
        self._drop_shell()
        if is_gone:
            with contextlib.suppress(TimeoutError):
                self._wait_for_end(1.0)
        if self._ended is None:
            self._send("kill")
            try:
                self._wait_for_end(END_TIMEOUT_S)
            except TimeoutError:
                raise self._lost("the box does not end") from None
        assert self._ended is not None
        return self._ended

    def _wait_for_end(self, timeout_s: float) -> None:
        self._socket.settimeout(timeout_s)
        try:
            while self._ended is None:
                self._next()
        finally:
            self._socket.settimeout(self.spec.start_timeout_s)

    def _drop_shell(self) -> None:
        if self._shell is not None:
            self._shell.close()
            self._shell = None

    # the spawner

    @contextlib.contextmanager
    def _opened(self, directory: str) -> Iterator[int]:
        """A directory of the sandbox's files, or its payload file. What goes wrong is Failure(collect, transport)."""
        with self._lock:
            try:
                (fd,) = self._request("open", directory=directory)
                try:
                    yield fd
                finally:
                    os.close(fd)
            except OSError as error:
                message = f"files of the sandbox cannot be reached: {error.strerror or error}"
                raise Failure(FailureStage.COLLECT, FailureClass.TRANSPORT, message) from error

    def _request(self, op: str, **fields: str) -> list[int]:
        """Descriptors that the spawner gives. Raises OSError with its answer or TimeoutError, Failure(lost)."""
        self._send(op, **fields)
        return self._reply()

    def _send(self, op: str, **fields: str) -> None:
        try:
            messages.send(self._socket, {"op": op, **fields}, [])
        except OSError as error:
            with contextlib.suppress(OSError):
                while True:
                    self._next()  # it may have said why
            raise self._lost("the spawner is gone") from error

    def _reply(self) -> list[int]:
        while (fds := self._next()) is None:
            pass
        return fds

    def _next(self) -> list[int] | None:
        """The descriptors of an answer, or None for the news that a box has ended. Raises OSError, Failure."""
        message, fds = messages.receive(self._socket)
        if message is None:
            raise self._lost("the spawner is gone")
        if "ended" in message:
            self._ended = message["ended"]
            return None
        if "expired" in message:
            raise self._lost(f"the sandbox outlived its lifetime of {self.spec.lifetime_s:g} s")
        if "error" in message:
            raise OSError(message["errno"], message["error"])
        if message["folder"]:
            self._paths = Paths(message["folder"], self.spec.workdir)
        return fds


def check_path(path: str) -> str:
    """Absolute and without dots; raises ValueError otherwise. `..` never reaches a file system."""
    if not path.startswith("/") or "\0" in path or ".." in path.split("/"):
        raise ValueError(f"not an absolute path without dots: {path!r}")
    return "/" + posixpath.normpath(path).strip("/")


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root + "/")


def _pack(files: Mapping[str, bytes], mode: int) -> bytes:
    buffer, now = io.BytesIO(), int(time.time())
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, content in files.items():
            if not name or name.startswith("/") or ".." in name.split("/") or "\0" in name:
                raise ValueError(f"not a relative path without dots: {name!r}")
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(content), mode, now
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()

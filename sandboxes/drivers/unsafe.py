"""No isolation at all: for a look at Longtail where no box can be made, and only when it is asked for.

Stands in for bubblewrap.py in the spawner if LONGTAIL_UNSAFE_LOCAL_SANDBOX=1. A sandbox is a folder with a copy of
the template, and its box a shell with rlimits; the box ends by SIGKILL for every process that carries its mark.
Commands see this machine's files, network and processes. The task's paths are rewritten (Paths).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandboxes.drivers.bubblewrap import PATH
from sandboxes.drivers.shell import COMMANDS_FD

if TYPE_CHECKING:
    from sandboxes.drivers.spawner import Sandbox

MARK = "LONGTAIL_SANDBOX"
# A process in the middle of exec shows no environment: one look may miss it, and it then holds the shell's pipes.
CLEAN_LOOKS, LOOK_S = 3, 0.01


class Paths:
    """The paths of a task, and what a command must say instead if its sandbox is only a folder.

    In a box the folder is "", and nothing is changed.
    """

    def __init__(self, folder: str, workdir: str) -> None:
        self.folder = folder
        roots = "|".join(map(re.escape, (workdir, "/tests", "/logs")))
        self._root = re.compile(rf"(?<![\w./~-])(?=(?:{roots})(?![\w.-]))".encode())

    def real(self, path: str) -> str:
        return self.folder + path

    def rewrite(self, text: bytes) -> bytes:
        return self._root.sub(self.folder.encode(), text) if self.folder else text

    def restore(self, text: str) -> str:
        return text.replace(self.folder, "") if self.folder else text


class Unsafe:
    """The methods of Bubblewrap, without walls."""

    def __init__(self, shell: str) -> None:
        self._shell = shell
        self._root = Path(tempfile.mkdtemp(prefix="longtail-unsafe-"))

    def folder(self, number: int) -> str:
        return f"{self._root}/{number}"

    def open_text(self, number: int, name: str) -> int:
        path = f"{self.folder(number)}/run/sandbox/{name}"
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def create(self, number: int, spec: dict[str, Any]) -> int:
        """Copies the template, while all others wait. Raises OSError."""
        folder = Path(self.folder(number))
        try:
            shutil.copytree(spec["template"], f"{folder}{spec['workdir']}", symlinks=True)
            (folder / "run/sandbox").mkdir(parents=True)
            self._renew(folder, "home/agent")
            return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except shutil.Error as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise OSError(errno.EACCES, str(error)) from error

    def open(self, sandbox: Sandbox, directory: str) -> int:
        if directory == "changes":
            raise OSError(errno.ENOTSUP, "an unsafe sandbox does not know its changes")
        name = "." if directory == "grading" else sandbox.workdir[1:]
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=sandbox.files)

    def boot(self, sandbox: Sandbox, request: dict[str, str], actions: list[Any]) -> int:
        folder = Path(self.folder(sandbox.number))
        if request["scratch"] == "new":
            self._renew(folder, "home/agent")
        if request["grading"] == "new":
            self._renew(folder, "tests", "logs/verifier", "logs/agent")
        environment = {
            "HOME": f"{folder}/home/agent",
            "LC_CTYPE": "C.UTF-8",
            "PATH": PATH,
            "SHELL": self._shell,
            "TERM": "dumb",
            **sandbox.env,
            MARK: str(folder),
        }
        options = ["--norc", "--noprofile"] if self._shell.endswith("/bash") else []
        arguments = [self._shell, *options, f"/proc/self/fd/{COMMANDS_FD}"]
        return os.posix_spawn(
            self._shell, arguments, environment, file_actions=actions, setsid=True
        )

    def kill(self, sandbox: Sandbox) -> None:
        mark = f"{MARK}={self.folder(sandbox.number)}\0".encode()
        num_clean = 0
        while num_clean < CLEAN_LOOKS:
            was_found = False
            for entry in Path("/proc").iterdir():
                with contextlib.suppress(OSError):
                    if entry.name.isdigit() and mark in (entry / "environ").read_bytes():
                        os.kill(int(entry.name), signal.SIGKILL)
                        was_found = True
            num_clean = 0 if was_found else num_clean + 1
            if not was_found:
                time.sleep(LOOK_S)

    def after_end(self, sandbox: Sandbox) -> None:
        self.kill(sandbox)

    def forget(self, sandbox: Sandbox) -> None:
        os.close(sandbox.files)
        shutil.rmtree(self.folder(sandbox.number), ignore_errors=True)

    def close(self) -> None:
        shutil.rmtree(self._root, ignore_errors=True)

    def _renew(self, folder: Path, *names: str) -> None:
        for name in names:
            shutil.rmtree(folder / name, ignore_errors=True)
            (folder / name).mkdir(parents=True)

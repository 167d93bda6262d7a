"""A bubblewrap box with a task's workspace and a bash in it: what the recipe needs of a sandbox."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from recipes.miniature.harbor import write_task
from recipes.miniature.tasks import Task


class Box:
    """Directories of one attempt; every `run` is one life of a bash, and ends all that it started."""

    def __init__(self, task: Task, root: Path) -> None:
        write_task(task, root / "task")
        self.root = root
        self.workspace = root / "workspace"
        self.tests = root / "tests"
        self.logs = root / "logs"
        shutil.copytree(root / "task" / "environment" / "workspace", self.workspace)
        shutil.copytree(root / "task" / "tests", self.tests)
        self.logs.mkdir()

    def run(self, script: str) -> str:
        mounts = [("/workspace", self.workspace), ("/tests", self.tests), ("/logs", self.logs)]
        command = ["bwrap", "--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"]
        for name in ("bin", "lib", "lib64"):
            command += ["--symlink", f"usr/{name}", f"/{name}"]
        for inside, outside in mounts:
            command += ["--bind", str(outside), inside]
        command += ["--unshare-all", "--die-with-parent", "--chdir", "/workspace"]
        command += ["bash", "--norc", "-s"]
        done = subprocess.run(
            command,
            input=script,
            stdout=-1,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        return done.stdout

    def grade(self, before: str = "", *, lingers: bool = False) -> dict[str, Any] | None:
        """reward.json of the hidden tests, None if there is none.

        `before` runs in the same box; one that lingers leaves the module's processes time to act.
        """
        self.run(f"{before}\nbash /tests/test.sh\nsleep {0.5 if lingers else 0}\n")
        reward = self.logs / "verifier" / "reward.json"
        if not reward.is_file():
            return None
        result: dict[str, Any] = json.loads(reward.read_text())
        return result

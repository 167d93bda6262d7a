"""A task in a sandbox of the local driver, graded as the agent's loop grades it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from recipes.miniature.harbor import write_task
from recipes.miniature.tasks import Task
from sandboxes.drivers.base import SandboxSpec
from sandboxes.drivers.local import LocalDriver
from tests.sandboxes.drivers.conftest import give_to_sandboxes
from workers.agent.grading import grade

SETUP = ". .tools/setup.sh"


class Box:
    """One started sandbox; what its bash keeps, it keeps between calls of `run`."""

    def __init__(self, task: Task, driver: LocalDriver) -> None:
        # pytest's own directories are closed to the sandboxes' user
        self.root = Path(tempfile.mkdtemp(prefix="longtail-task-"))
        self.root.chmod(0o755)
        self.directory = self.root / "task"
        write_task(task, self.directory)
        template = self.directory / "environment" / "workspace"
        give_to_sandboxes(template)
        self.sandbox = driver.start(SandboxSpec(self.root.name, template, setup=SETUP))

    def run(self, command: str) -> str:
        return self.sandbox.exec(command, timeout_s=20).output

    def write(self, source: str) -> None:
        self.sandbox.write_files({"m.py": source.encode()}, root="/tmp/new")
        self.run("cp /tmp/new/m.py /workspace/m.py")

    def module(self) -> str:
        data = self.sandbox.read_file("/workspace/m.py", max_bytes=1 << 20)
        assert data is not None
        return data.decode()

    def grade(self) -> dict[str, Any]:
        """The reward and the details of the hidden tests. Raises Failure where there is no reward."""
        folder = self.directory / "tests"
        files = {file.name: file.read_bytes() for file in folder.iterdir()}
        result = grade(self.sandbox, files, 20.0)
        return {"reward": result.reward, **result.details}

    def close(self) -> None:
        self.sandbox.close()
        shutil.rmtree(self.root)

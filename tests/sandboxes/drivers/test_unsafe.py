from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandboxes.drivers.base import SandboxSpec
from sandboxes.drivers.box import LocalSandbox
from sandboxes.drivers.local import LocalDriver
from sandboxes.drivers.unsafe import Paths
from sandboxes.failures import Failure, FailureClass
from tests.sandboxes.drivers.conftest import processes_below, wait_until_gone
from workers.agent.grading import grade


def leftovers() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob("longtail-unsafe-*"))


@pytest.fixture
def unsafe_driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalDriver]:
    """On a machine without bubblewrap whose owner accepts that."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("LONGTAIL_UNSAFE_LOCAL_SANDBOX", "1")
    driver = LocalDriver()
    yield driver
    driver.close()
    assert leftovers() == []


@pytest.fixture
def unsafe_sandbox(unsafe_driver: LocalDriver, template: Path) -> LocalSandbox:
    return unsafe_driver.start(SandboxSpec("unsafe", template))


def test_without_walls_the_level_says_so_and_why(unsafe_driver: LocalDriver) -> None:
    found = unsafe_driver.probe()
    assert found.level == "unsafe"
    assert "bubblewrap is missing" in found.missing[0]
    assert not any(found.features.values())


def test_without_the_owners_word_nothing_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("LONGTAIL_UNSAFE_LOCAL_SANDBOX", "yes")
    driver = LocalDriver()
    assert driver.probe().level == "none"
    driver.close()


def test_boxes_that_do_not_start_fall_back_too(
    monkeypatch: pytest.MonkeyPatch, template: Path
) -> None:
    program = template.parent / "broken" / "bwrap"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("LONGTAIL_UNSAFE_LOCAL_SANDBOX", "1")
    driver = LocalDriver()
    assert driver.probe().level == "unsafe"
    assert driver.start(SandboxSpec("key", template)).exec("echo up", timeout_s=60).output == "up\n"
    driver.close()


def test_owners_word_changes_nothing_where_boxes_can_be_made(
    driver: LocalDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGTAIL_UNSAFE_LOCAL_SANDBOX", "1")
    own = LocalDriver()
    assert own.probe().level == "bwrap+rlimits"
    own.close()


def test_a_trajectory_runs_and_is_graded_in_a_folder(
    unsafe_sandbox: LocalSandbox, template: Path
) -> None:
    def run(command: str) -> str:
        return unsafe_sandbox.exec(command, timeout_s=60).output

    assert run("cd /workspace/package && pwd; x=1") == "/workspace/package\n"
    assert run("echo $x; echo 'value = 3' > /workspace/package/module.py; id -u") == (
        f"1\n{200_001 if os.geteuid() == 0 else os.geteuid()}\n"
    )
    stopped = unsafe_sandbox.exec("(setsid sleep 1000 &); sleep 1000", timeout_s=0.8)
    assert stopped.timed_out
    assert "in a new shell in /workspace/package]" in stopped.output
    assert run("(setsid sleep 1000 &); exit 3").startswith("[the shell ended with exit code 3")
    assert run('echo "$x" $PWD') == " /workspace/package\n"
    tests = {
        "test.sh": b"cd /workspace; grep -q 3 package/module.py && echo 1 > /logs/verifier/reward.txt\n"
    }
    assert grade(unsafe_sandbox, tests, 60.0).reward == 1.0
    assert unsafe_sandbox.read_file("/workspace/package/module.py", max_bytes=100) == b"value = 3\n"
    assert (template / "package" / "module.py").read_text() == "value = 1\n"
    with pytest.raises(Failure, match="does not know its changes"):
        unsafe_sandbox.changes(max_bytes=1000)
    unsafe_sandbox.close()
    assert len(processes_below(os.getpid())) - len(spawners()) == 0


def spawners() -> list[int]:
    below = processes_below(os.getpid())
    return [pid for pid in below if b"drivers.spawner" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_a_missing_template_is_an_image_error_here_too(unsafe_driver: LocalDriver) -> None:
    with pytest.raises(Failure) as caught:
        unsafe_driver.start(SandboxSpec("key", Path("/no/such/template")))
    assert caught.value.kind is FailureClass.IMAGE_ERROR


def test_a_killed_owner_leaves_no_folder_and_no_process(template: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from sandboxes.drivers.base import SandboxSpec;"
        "from sandboxes.drivers.local import LocalDriver;"
        "s = LocalDriver().start(SandboxSpec('k', Path(sys.argv[1])));"
        "s.exec('(setsid sleep 1000 &)', timeout_s=60); print('ready', flush=True); time.sleep(1000)"
    )
    environment = {"PATH": "/nowhere", "LONGTAIL_UNSAFE_LOCAL_SANDBOX": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", code, str(template)],
        stdout=subprocess.PIPE,
        env=environment,
        cwd=Path(__file__).parents[3],
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        below = processes_below(process.pid)
        assert len(below) >= 3
        process.kill()
    assert wait_until_gone(below) == []
    assert leftovers() == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cd /workspace", "cd /F/workspace"),
        ("bash /tests/test.sh >/logs/x", "bash /F/tests/test.sh >/F/logs/x"),
        (
            "ls /workspace/a /workspaces /usr/tests my/tests /tests-old",
            "ls /F/workspace/a /workspaces /usr/tests my/tests /tests-old",
        ),
        ("A=/tests:/logs", "A=/F/tests:/F/logs"),
    ],
)
def test_paths_of_the_task_are_rewritten_and_no_others(text: str, expected: str) -> None:
    paths = Paths("/F", "/workspace")
    assert paths.rewrite(text.encode()).decode() == expected
    assert paths.restore(expected) == text
    assert Paths("", "/workspace").rewrite(text.encode()).decode() == text

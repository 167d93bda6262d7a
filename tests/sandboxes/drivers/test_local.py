from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandboxes.drivers.base import SandboxSpec
from sandboxes.drivers.local import LocalDriver
from sandboxes.failures import Failure, FailureClass, FailureStage
from tests.sandboxes.drivers.conftest import Start, processes_below, wait_until_gone

ROOT = Path(__file__).parents[3]


def is_spawner(pid: int) -> bool:
    return b"sandboxes.drivers.spawner" in Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.fixture
def own_driver(driver: LocalDriver) -> Iterator[LocalDriver]:
    """One that a test may break; `driver` says whether this machine can have any."""
    own = LocalDriver()
    yield own
    own.close()


# --- probing


def test_the_probe_names_each_property_it_saw(driver: LocalDriver) -> None:
    found = driver.probe()
    assert (found.driver, found.level, found.missing) == ("local", "bwrap+rlimits", ())
    assert all(found.features.values())
    assert len(found.features) == 9


def test_a_machine_without_bubblewrap_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    driver = LocalDriver()
    found = driver.probe()
    assert found.level == "none"
    assert found.missing == (
        "bubblewrap is missing: apt-get install -y --no-install-recommends bubblewrap",
    )
    with pytest.raises(Failure, match="apt-get install") as caught:
        driver.start(SandboxSpec("key", Path("/")))
    assert caught.value.kind is FailureClass.BOOT_FAIL
    driver.close()


def test_a_bubblewrap_that_cannot_do_it_is_quoted(
    monkeypatch: pytest.MonkeyPatch, template: Path, driver: LocalDriver
) -> None:
    program = template.parent / "bin" / "bwrap"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'bwrap: Unknown option --disable-userns' >&2; exit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    broken = LocalDriver()
    assert broken.probe().missing == (
        "the box ended at once: bwrap: Unknown option --disable-userns",
    )
    broken.close()


# --- starting


def test_a_start_times_its_stages(start: Start) -> None:
    sandbox = start(setup="sleep 0.1")
    sandbox.exec("sleep 0.1", timeout_s=60)
    sandbox.close()
    assert set(sandbox.timings) == {"start", "setup", "exec", "teardown"}
    assert sandbox.timings["setup"] >= 0.1
    assert sandbox.timings["exec"] >= 0.1


def test_setup_runs_in_the_kept_shell_before_the_first_command(start: Start) -> None:
    sandbox = start(setup="cd package; x=$NAME; touch made", env={"NAME": "a\n'b'$HOME"})
    assert (
        sandbox.exec('echo "$x"; ls', timeout_s=60).output
        == "a\n'b'$HOME\ninner\nmade\nmodule.py\n"
    )


def test_setup_runs_again_in_a_shell_that_replaces_another_but_not_in_the_graders(
    start: Start,
) -> None:
    sandbox = start(setup="cd package; f() { echo f $x; }; x=1; echo again >> /tmp/times")
    for end in ("cd inner; exit 1", "sleep 1000"):
        sandbox.exec("cd inner", timeout_s=60)
        sandbox.exec(f"x=2; {end}", timeout_s=0.8)
        assert sandbox.exec("f; pwd", timeout_s=60).output == "f 1\n/workspace/package/inner\n"
    assert sandbox.exec("cat /tmp/times", timeout_s=60).output == "again\n" * 3
    sandbox.kill_processes()
    assert "f: command not found" in sandbox.exec("f; pwd", timeout_s=60).output
    assert sandbox.exec("pwd; ls /tmp", timeout_s=60).output == "/workspace\n"


@pytest.mark.parametrize(
    "setup", ["[ ! -e new ] || sleep 1000", "[ ! -e new ] || exit 1", "[ ! -e new ]"]
)
def test_a_setup_that_the_agent_has_broken_does_not_cost_it_the_shell(
    start: Start, setup: str
) -> None:
    sandbox = start(setup=setup, setup_timeout_s=0.8)
    sandbox.exec("touch new; exit", timeout_s=60)
    assert sandbox.exec("echo fine", timeout_s=60).output == "fine\n"


def test_another_working_directory_can_be_asked_for(start: Start) -> None:
    for workdir in ("/testbed", "/app/source", "/home/agent/project", "/tmp/x", "/opt"):
        sandbox = start(workdir=workdir)
        assert (
            sandbox.exec("pwd; cat README; touch new", timeout_s=60).output
            == f"{workdir}\nread me\n"
        )
        assert sandbox.read_file(f"{workdir}/new", max_bytes=1) == b""


def expect(start: Start, stage: FailureStage, kind: FailureClass, **fields: object) -> Failure:
    before = len(processes_below(os.getpid()))
    with pytest.raises(Failure) as caught:
        start(**fields)
    assert (caught.value.stage, caught.value.kind) == (stage, kind), caught.value
    assert len(processes_below(os.getpid())) == before
    return caught.value


def test_a_template_that_is_missing_or_closed_is_an_image_error(
    start: Start, tmp_path: Path
) -> None:
    missing = expect(
        start, FailureStage.IMAGE, FailureClass.IMAGE_ERROR, template=Path("/no/such/template")
    )
    assert "/no/such/template" in missing.message
    file = tmp_path / "file"
    file.touch()
    expect(start, FailureStage.IMAGE, FailureClass.IMAGE_ERROR, template=file)
    if os.geteuid() == 0:
        closed = tmp_path / "closed"
        (closed / "template").mkdir(parents=True)
        closed.chmod(0o700)
        expect(start, FailureStage.IMAGE, FailureClass.IMAGE_ERROR, template=closed / "template")


def test_a_setup_that_fails_or_hangs_ends_the_sandbox(start: Start) -> None:
    failure = expect(start, FailureStage.SETUP, FailureClass.TASK_DEFECT, setup="echo why; false")
    assert failure.evidence == {"output": "why\n", "exit_code": 1}
    expect(
        start,
        FailureStage.SETUP,
        FailureClass.START_TIMEOUT,
        setup="sleep 1000",
        setup_timeout_s=0.3,
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"network": True},
        {"workdir": "/usr/src"},
        {"workdir": "/"},
        {"workdir": "/a/"},
        {"workdir": "/proc/1"},
        {"env": {"A=B": "c"}},
        {"env": {"A": "\0"}},
        {"env": {"A": "x" * 100_000}},
    ],
)
def test_a_spec_that_no_box_can_have_is_the_tasks_defect(
    start: Start, fields: dict[str, object]
) -> None:
    expect(start, FailureStage.START, FailureClass.TASK_DEFECT, **fields)


def test_a_start_that_takes_too_long_is_a_start_timeout(start: Start) -> None:
    expect(start, FailureStage.START, FailureClass.START_TIMEOUT, start_timeout_s=0.0001)


def test_sixty_four_at_once(start: Start) -> None:
    def live(number: int) -> str:
        sandbox = start(key=f"many-{number}")
        outputs = [sandbox.exec(f"x={number}; echo $x > file", timeout_s=60).output]
        barrier.wait(60)
        outputs.append(sandbox.exec("cat file; echo $x", timeout_s=60).output)
        sandbox.kill_processes()
        outputs.append(sandbox.exec("cat file; echo $x", timeout_s=60).output)
        sandbox.close()
        return "|".join(outputs)

    barrier = threading.Barrier(64)
    before = processes_below(os.getpid())
    with ThreadPoolExecutor(64) as pool:
        outputs = list(pool.map(live, range(64)))
    assert outputs == [f"|{n}\n{n}\n|{n}\n\n" for n in range(64)]
    assert processes_below(os.getpid()) == before


def test_the_same_key_again_replaces_the_first_sandbox(driver: LocalDriver, start: Start) -> None:
    first = start(key="same")
    second = start(key="same")
    with pytest.raises(Failure):
        first.exec("true", timeout_s=60)
    assert second.exec("true", timeout_s=60).exit_code == 0
    assert driver.reclaim(["same", "other"]) == ["same"]
    assert driver.reclaim(["same"]) == []


@pytest.mark.parametrize(
    "text",
    ["x=1; cd package; echo $x", "cat", "echo 'open", "exec >/dev/null", "(", "set -u; echo $z"],
)
def test_a_machine_without_bash_has_sh(template: Path, driver: LocalDriver, text: str) -> None:
    own = LocalDriver(shell="/bin/sh")
    sandbox = own.start(SandboxSpec("sh", template))
    sandbox.exec("y=kept", timeout_s=60)
    assert not sandbox.exec(text, timeout_s=60).timed_out
    assert sandbox.exec("echo $y", timeout_s=60).output == "kept\n"
    assert sandbox.exec("echo $0 | cut -c1-9; cd /; pwd", timeout_s=60).output == "/proc/sel\n/\n"
    assert sandbox.exec("ulimit -p; ulimit -f", timeout_s=60).output == f"64\n{2 * 65536}\n"
    result = sandbox.exec("sleep 1000", timeout_s=0.3)
    assert result.timed_out
    assert sandbox.exec("exit 3", timeout_s=60).exit_code == 3
    assert sandbox.exec("echo fine", timeout_s=60).output == "fine\n"
    own.close()


# --- deaths


def test_a_dead_spawner_loses_its_sandboxes_and_the_next_start_gets_another(
    own_driver: LocalDriver, template: Path
) -> None:
    sandbox = own_driver.start(SandboxSpec("first", template))
    sandbox.exec("(setsid sleep 1000 &)", timeout_s=60)
    below = processes_below(os.getpid())
    (spawner,) = [pid for pid in below if is_spawner(pid) and processes_below(pid)]
    below = processes_below(spawner)
    threading.Timer(0.2, os.kill, (spawner, signal.SIGKILL)).start()
    with pytest.raises(Failure, match="spawner") as caught:
        sandbox.exec("sleep 1000", timeout_s=30)
    assert (caught.value.stage, caught.value.kind) == (FailureStage.EXEC, FailureClass.LOST)
    assert wait_until_gone([spawner, *below]) == []
    with pytest.raises(Failure):
        sandbox.exec("true", timeout_s=60)
    sandbox.close()
    again = own_driver.start(SandboxSpec("second", template))
    assert again.exec("echo up", timeout_s=60).output == "up\n"


_ROLLOUT_PROCESS = """
import os, sys, threading, time
from pathlib import Path
from sandboxes.drivers.base import SandboxSpec
from sandboxes.drivers.local import LocalDriver
drivers = []
maker = threading.Thread(target=lambda: drivers.append(LocalDriver()))
maker.start(); maker.join()
template = Path(sys.argv[1])
boxes = [drivers[0].start(SandboxSpec(str(n), template)) for n in range(3)]
boxes[0].exec("(setsid nohup sleep 1000 &); sleep 1000 &", timeout_s=60)
threading.Thread(target=lambda: boxes[1].exec("trap '' TERM HUP; sleep 1000", timeout_s=900)).start()
time.sleep(0.3)
# a child that has inherited our end of every socket to the spawner
child = os.fork()
if child:
    print(child, flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_a_killed_rollout_process(
    driver: LocalDriver, template: Path, how: signal.Signals
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _ROLLOUT_PROCESS, str(template)], stdout=subprocess.PIPE, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        below = set(processes_below(process.pid)) - {child}
        assert (
            len(below) >= 1 + 2 * 3 + 3
        )  # the spawner, three boxes of bwrap and shell, three sleeps
        process.send_signal(how)
        process.wait()
        assert wait_until_gone(list(below)) == []
        os.kill(child, signal.SIGKILL)


def test_a_closed_driver_ends_its_spawner_and_starts_no_more(
    own_driver: LocalDriver, template: Path
) -> None:
    sandbox = own_driver.start(SandboxSpec("key", template))
    below = processes_below(os.getpid())
    own_driver.close()
    assert len(processes_below(os.getpid())) < len(below)
    with pytest.raises(Failure, match="closed"):
        own_driver.start(SandboxSpec("key", template))
    with pytest.raises(Failure):
        sandbox.exec("true", timeout_s=60)
    own_driver.close()

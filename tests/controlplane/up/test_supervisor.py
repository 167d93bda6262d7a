"""The supervisor with real processes: order, restarts, clean ends, kill -9."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from controlplane.up.supervisor import MAX_DELAY_S, backoff_s
from tests.controlplane.up.watching import PATIENCE_S, Lines, eventually, processes_of

NEVER = "while :; do sleep 1; done"

# A supervisor of its own process: the rows of its table come as JSON, its lines go to stdout.
SCRIPT = """
import asyncio, json, signal, sys
from pathlib import Path
from controlplane.up import supervisor
from controlplane.up.errors import CannotStart
from controlplane.up.supervisor import Process, Supervisor

supervisor.MAX_FIRST_STARTS = 2
logs = Path(sys.argv[1])
say = lambda name, text: print(name, text, flush=True)
stages = [
    [
        Process(name, ["sh", "-c", script], is_task=name == "task", grace_s=1,
                ready_text=name if name.startswith("slow") else "")
        for name, script in stage.items()
    ]
    for stage in json.loads(sys.argv[2])
]
try:
    asyncio.run(Supervisor(stages, logs, say).run(lambda: say("up", "ready")))
except CannotStart as error:
    sys.exit(str(error))
"""


Start = Callable[..., Lines]


@pytest.fixture
def supervise(tmp_path: Path, launch: Start) -> Start:
    """Start a supervisor on a table: one dict of name to shell script per stage."""

    def start(*stages: dict[str, str]) -> Lines:
        return launch("-c", SCRIPT, str(tmp_path), json.dumps(stages))

    return start


def test_a_stage_waits_until_the_one_before_is_ready(supervise: Start) -> None:
    lines = supervise(
        {"slow1": f"sleep 0.5; echo slow1; {NEVER}"}, {"task": "true"}, {"late": NEVER}
    )
    lines.until("up ready")
    said = [line.split()[0] for line in lines.seen]
    assert said == ["slow1", "task", "late", "up"]


def test_a_task_that_fails_stops_everything_with_the_last_line_of_its_log(
    supervise: Start, tmp_path: Path
) -> None:
    marker = f"echo {tmp_path}"
    lines = supervise(
        {"service": f"{marker}; {NEVER}"}, {"task": "echo no such table; exit 3"}, {"late": NEVER}
    )
    lines.until("task ended with exit code 3: no such table")
    assert lines.process.wait(PATIENCE_S) == 1
    assert processes_of(marker) == []
    assert not any(line.startswith("late") for line in lines.seen)


def test_a_process_that_never_starts_is_given_up_with_a_sentence(supervise: Start) -> None:
    lines = supervise({"slow1": "echo port 8000 is taken; exit 1"})
    lines.until("slow1 ended with exit code 1: port 8000 is taken")
    assert lines.process.wait(PATIENCE_S) == 1


def test_a_killed_process_starts_again(supervise: Start, tmp_path: Path) -> None:
    lines = supervise({"worker": f"echo $$ >> {tmp_path}/pids; {NEVER}"})
    lines.until("up ready")
    pids = tmp_path / "pids"
    assert eventually(pids.exists)
    os.kill(int(pids.read_text()), signal.SIGKILL)
    lines.until("worker ended with signal SIGKILL; starts again in 0.5 s")
    lines.until("worker runs again")
    assert eventually(lambda: len(pids.read_text().split()) == 2)


def test_early_ends_make_the_waits_longer_up_to_a_limit(supervise: Start) -> None:
    lines = supervise({"worker": "exit 1"})
    for delay in ("0.5 s", "1 s", "2 s"):
        lines.until(f"worker ended with exit code 1; starts again in {delay}")
    assert backoff_s(5) == 8
    assert backoff_s(1000) == MAX_DELAY_S


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_all_in_reverse_and_exits_clean(
    supervise: Start, tmp_path: Path, number: signal.Signals
) -> None:
    def trap(name: str) -> str:
        return f"trap 'echo {name} >> {tmp_path}/order; exit' TERM; echo slow1 slow2; {NEVER}"

    lines = supervise({"slow1": trap("first")}, {"slow2": trap("second")})
    lines.until("up ready")
    lines.process.send_signal(number)
    assert lines.process.wait(PATIENCE_S) == 0
    assert (tmp_path / "order").read_text().split() == ["second", "first"]
    assert processes_of(str(tmp_path)) == []


def test_a_process_that_ignores_its_stop_signal_is_killed_with_its_children(
    supervise: Start, tmp_path: Path
) -> None:
    marker = f"{tmp_path}/marker"
    lines = supervise({"deaf": f"trap '' TERM; sh -c ': {marker}; {NEVER}' & {NEVER}"})
    lines.until("up ready")
    assert eventually(lambda: len(processes_of(marker)) == 3)  # supervisor, process, child
    lines.process.send_signal(signal.SIGTERM)
    lines.until("deaf killed: it did not stop in time")
    assert lines.process.wait(PATIENCE_S) == 0
    assert processes_of(marker) == []


def test_a_second_ctrl_c_does_not_wait_for_the_grace(supervise: Start) -> None:
    lines = supervise({"deaf": f"trap '' TERM; {NEVER}"})
    lines.until("up ready")
    lines.process.send_signal(signal.SIGINT)
    lines.until("stopping")
    lines.process.send_signal(signal.SIGINT)
    lines.until("killing what still runs")
    assert lines.process.wait(PATIENCE_S) == 0


def test_ctrl_c_during_the_start_stops_what_has_started(supervise: Start, tmp_path: Path) -> None:
    marker = f"{tmp_path}/marker"
    lines = supervise({"first": NEVER + f"; : {marker}"}, {"slow1": f"{NEVER}; : {marker}"})
    lines.until("first started")
    lines.process.send_signal(signal.SIGINT)
    assert lines.process.wait(PATIENCE_S) == 0
    assert processes_of(marker) == []


def test_nothing_is_left_after_kill_9_of_the_supervisor(supervise: Start, tmp_path: Path) -> None:
    marker = f"{tmp_path}/marker"
    script = f": {marker}; {NEVER}"
    lines = supervise({"one": script, "two": script}, {"three": f"trap '' TERM; {script}"})
    lines.until("up ready")
    assert eventually(lambda: len(processes_of(marker)) == 4)
    lines.process.kill()
    lines.process.wait()
    assert eventually(lambda: processes_of(marker) == [])

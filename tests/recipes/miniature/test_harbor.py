"""Tasks in a box: the tools do what the generator says; the grader withstands hostile modules."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from recipes.miniature.tasks import Task
from recipes.miniature.traces import try_answer
from tests.recipes.miniature.box import Box

OpenBox = Callable[[Task], Box]


@pytest.mark.parametrize("number", range(6))
def test_the_bug_is_graded_0_and_its_repair_1(
    tasks: list[Task], open_box: OpenBox, number: int
) -> None:
    task = tasks[number]
    assert open_box(task).grade()["reward"] == 0
    repaired = open_box(task)
    assert repaired.run(f"try {task.fix + 1}") == "OK\n"
    assert repaired.grade() == {
        "reward": 1,
        "visible_passed": len(task.repository.calls),
        "visible_tests": len(task.repository.calls),
        "hidden_tests": len(task.repository.hidden_calls),
    }
    solved = open_box(task)
    solved.run((solved.directory / "solution" / "solve.sh").read_text())
    assert solved.grade()["reward"] == 1


@pytest.mark.parametrize("number", range(6))
def test_every_try_prints_and_leaves_what_the_generator_says(
    tasks: list[Task], open_box: OpenBox, number: int
) -> None:
    task = tasks[number]
    box = open_box(task)
    order = list(range(len(task.candidates)))[::-1]
    for i, candidate in enumerate(order):
        result = task.outcome(candidate)[0]
        assert box.run(f"try {candidate + 1}") == try_answer(result, order[: i + 1]) + "\n"
        assert box.module() == task.candidates[candidate].apply(task.source)


def test_the_grade_of_every_candidate_is_what_the_generator_says(
    tasks: list[Task], open_box: OpenBox
) -> None:
    task = tasks[2]
    for candidate in range(len(task.candidates)):
        box = open_box(task)
        box.run(f"try {candidate + 1}")
        assert box.grade()["reward"] == task.outcome(candidate)[1]


def test_the_instruction_begins_with_what_test_sh_prints(
    tasks: list[Task], open_box: OpenBox
) -> None:
    for task in tasks[:4]:
        result, listing = open_box(task).run("sh test.sh").split("\n", 1)
        assert result == task.result
        assert listing == task.listing + "\n"
        assert f"{result} in " in task.instruction
        assert task.instruction.endswith(task.listing)


def test_a_try_works_in_a_pipeline_and_from_another_directory(box: Box) -> None:
    first, second = box.run("cd /usr; try 1 | cat; cd /; try 2").splitlines()
    assert first.endswith(("tried 1", "OK"))
    assert second.endswith(("tried 1 2", "OK"))


@pytest.mark.parametrize("arguments", ["", "x", "1 2", "'1;id'", "-1", "1.0", "9999"])
def test_a_wrong_try_is_told_and_changes_nothing(box: Box, arguments: str) -> None:
    before = box.module()
    assert box.run(f"try {arguments}") == "usage: try K\n"
    assert box.run("try 0; try 999") == "no edit 0\nno edit 999\n"
    assert box.module() == before


def test_a_dead_server_does_not_end_the_shell(box: Box) -> None:
    assert "try: no answer" in box.run("kill -9 $LONGTAIL_TRY_PID; try 1")
    # The shell may say only now that its server was killed.
    assert box.run("echo alive").endswith("alive\n")


def test_the_tools_are_there_again_after_an_interrupted_command(
    box: Box, tasks: list[Task]
) -> None:
    """A timeout ends every process of the sandbox; the new shell runs the setup, which bears it."""
    assert box.sandbox.exec("sleep 9", timeout_s=0.2).timed_out
    assert box.run("try 1") in ("OK\n", f"{tasks[0].outcome(0)[0]} tried 1\n")


# -- the grader -----------------------------------------------------------------------------------

PARENT = "import os\nparent = os.getppid()\n"
REWARD = "/logs/verifier/reward.json"
HOSTILE = {
    "prints OK and exits": "import os\nprint('OK', flush=True)\nos._exit(0)\n",
    "exits at once": "import os\nos._exit(0)\n",
    "raises SystemExit": "raise SystemExit(0)\n",
    "writes the reward": (
        "import os\n"
        "os.makedirs('/logs/verifier', exist_ok=True)\n"
        f"open('{REWARD}', 'w').write('{{\"reward\": 1}}')\n"
        "os._exit(0)\n"
    ),
    "leaves a process that rewrites the reward": (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    time.sleep(0.2)\n"
        f"    open('{REWARD}', 'w').write('{{\"reward\": 1}}')\n"
        "    os._exit(0)\n"
    ),
    "starts a program": (
        f"import os\nos.system('sleep 0.2; echo \\'{{\"reward\": 1}}\\' > {REWARD} &')\n"
    ),
    "prints the expected file": (
        "import os\nos.write(1, open('/tests/expected.txt', 'rb').read())\nos._exit(0)\n"
    ),
    "kills the grader": PARENT + "os.kill(parent, 9)\n",
    "stops the grader": PARENT + "os.kill(parent, 19)\n",
    "kills everything": "import os\nos.kill(-1, 9)\n",
    "attaches to the grader": (
        PARENT + "import ctypes\n"
        "attached = ctypes.CDLL(None).ptrace(16, parent, 0, 0)\n"
        "os.write(1, b'attached' if attached == 0 else b'')\n"
    ),
    "writes the grader's memory": (
        PARENT + "for line in open(f'/proc/{parent}/maps'):\n"
        "    if ' rw-p ' in line:\n"
        "        start, end = (int(x, 16) for x in line.split()[0].split('-'))\n"
        "        with open(f'/proc/{parent}/mem', 'r+b', 0) as memory:\n"
        "            memory.seek(start)\n"
        "            memory.write(bytes(end - start))\n"
    ),
    "replaces the grader's files": (
        "import os\n"
        "os.rename('/tests/grade.py', '/tests/old.py')\n"
        "os.symlink('/workspace/m.py', '/tests/grade.py')\n"
    ),
    "never ends": "while True:\n    pass\n",
    "sleeps": "import time\ntime.sleep(1000)\n",
    "ignores its limits": (
        "import resource, signal\n"
        "signal.signal(signal.SIGALRM, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (-1, -1))\n"
        "while True:\n    pass\n"
    ),
    "takes all memory": "x = []\nwhile True:\n    x.append(bytearray(1 << 24))\n",
    "floods its output": "import os\nwhile True:\n    os.write(1, b'x' * 65536)\n",
    "crashes the interpreter": "x = eval('(' * 5000)\n",
    "does not compile": "def f(:\n",
    "is binary": "\x00\x01",
    "is empty": "",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_module_is_graded_0(box: Box, name: str) -> None:
    box.write(HOSTILE[name])
    assert box.grade()["reward"] == 0


@pytest.mark.parametrize(
    "command",
    {
        "missing": "true",
        "link": "ln -s .tools/original.py m.py",
        "pipe": "mkfifo m.py",
        "directory": "mkdir m.py",
        "device": "ln -s /dev/zero m.py",
        "huge": "head -c 100000 /dev/zero | tr '\\0' '#' > m.py",
    }.items(),
    ids=lambda item: item[0],
)
def test_what_is_no_small_regular_file_is_graded_0(box: Box, command: tuple[str, str]) -> None:
    assert box.run(f"rm m.py; {command[1]}") == ""
    assert box.grade()["reward"] == 0


def test_a_process_that_outlives_the_agent_cannot_write_a_reward(box: Box) -> None:
    forge = f"echo '{{\"reward\": 1}}' > {REWARD}"
    box.run(f"(while true; do {forge}; sleep 0.01; done) >/dev/null 2>&1 &")
    assert box.grade()["reward"] == 0


def test_the_shell_of_the_agent_does_not_reach_the_grader(box: Box) -> None:
    box.run("bash() { return 0; }; export -f bash; export BASH_ENV=/workspace/x PATH=/workspace")
    assert box.grade()["reward"] == 0


def test_the_tests_hold_no_hidden_value(box: Box, tasks: list[Task]) -> None:
    stored = (box.directory / "tests" / "expected.txt").read_text().splitlines()
    assert stored[1:] == list(tasks[0].repository.expected)
    box.write("import os\nassert os.listdir('/tests') == []\n" + tasks[0].repository.source)
    assert box.grade()["reward"] == 0
    box.write(
        "import os\nassert 'expected.txt' not in os.listdir('/tests')\n"
        + tasks[0].repository.source
    )
    assert box.grade()["reward"] == 1


def test_a_correct_module_may_import(box: Box, tasks: list[Task]) -> None:
    box.write("import math, json\n" + tasks[0].repository.source)
    assert box.grade()["reward"] == 1

"""Tasks in a box: the tools do what the generator says; the grader withstands hostile modules."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recipes.miniature.tasks import Task
from recipes.miniature.traces import try_answer
from tests.recipes.miniature.box import Box

SETUP = ". .tools/setup.sh\n"


def reward_of(box: Box, before: str = "", *, lingers: bool = False) -> int:
    result = box.grade(before, lingers=lingers)
    assert result is not None, "the grader wrote no reward"
    reward: int = result["reward"]
    return reward


@pytest.mark.parametrize("number", range(6))
def test_the_bug_is_graded_0_and_its_repair_1(
    tasks: list[Task], tmp_path: Path, number: int
) -> None:
    task = tasks[number]
    assert reward_of(Box(task, tmp_path / "bug")) == 0
    assert reward_of(Box(task, tmp_path / "fix"), f"{SETUP}try {task.fix + 1}") == 1
    solved = Box(task, tmp_path / "solution")
    solution = (solved.root / "task" / "solution" / "solve.sh").read_text()
    assert reward_of(solved, solution) == 1


@pytest.mark.parametrize("number", range(6))
def test_every_try_prints_and_leaves_what_the_generator_says(
    tasks: list[Task], tmp_path: Path, number: int
) -> None:
    task = tasks[number]
    box = Box(task, tmp_path / "box")
    order = list(range(len(task.candidates)))[::-1]
    lines = box.run(SETUP + "".join(f"try {k + 1}\n" for k in order)).splitlines()
    assert lines == [try_answer(task.outcome(k)[0], order[: i + 1]) for i, k in enumerate(order)]
    assert (box.workspace / "m.py").read_text() == task.candidates[0].apply(task.source)


def test_the_instruction_begins_with_what_test_sh_prints(tasks: list[Task], tmp_path: Path) -> None:
    for number, task in enumerate(tasks[:4]):
        printed = Box(task, tmp_path / f"{number}").run("sh test.sh")
        first, listing = printed.split("\n", 1)
        assert first == task.result
        assert listing == task.listing + "\n"
        assert f"{first} in " in task.instruction
        assert task.instruction.endswith(task.listing)


def test_a_try_works_in_a_pipeline_and_from_another_directory(box: Box) -> None:
    printed = box.run(f"{SETUP}cd /usr; try 1 | cat; cd /; try 2\n")
    assert printed.splitlines()[0].endswith(("tried 1", "OK"))
    assert printed.splitlines()[1].endswith(("tried 1 2", "OK"))


def test_a_wrong_try_is_told_and_changes_nothing(box: Box) -> None:
    before = (box.workspace / "m.py").read_text()
    printed = box.run(f"{SETUP}try\ntry x\ntry 1 2\ntry 0\ntry 999\ntry '1;id'\n")
    assert printed.splitlines() == [
        "usage: try K", "usage: try K", "usage: try K", "no edit 0", "no edit 999", "usage: try K",
    ]  # fmt: skip
    assert (box.workspace / "m.py").read_text() == before


def test_a_dead_server_does_not_end_the_shell(box: Box) -> None:
    printed = box.run(f"{SETUP}kill -9 $LONGTAIL_TRY_PID; try 1; echo alive\n")
    assert "try: no answer" in printed
    assert "alive" in printed


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
    (box.workspace / "m.py").write_text(HOSTILE[name])
    assert reward_of(box, lingers=" process" in name or "program" in name) == 0


@pytest.mark.parametrize("kind", ["missing", "link", "pipe", "directory", "device", "huge"])
def test_what_is_no_small_regular_file_is_graded_0(box: Box, kind: str) -> None:
    module = box.workspace / "m.py"
    module.unlink()
    if kind == "link":
        module.symlink_to("/workspace/.tools/original.py")
    elif kind == "pipe":
        os.mkfifo(module)
    elif kind == "directory":
        module.mkdir()
    elif kind == "device":
        module.symlink_to("/dev/zero")
    elif kind == "huge":
        module.write_text("#" * 100_000)
    assert reward_of(box) == 0


def test_the_tests_hold_no_hidden_value_while_the_module_runs(box: Box, tasks: list[Task]) -> None:
    (box.workspace / "m.py").write_text("import os\nwhile True: os.listdir('/tests')\n")
    assert reward_of(box) == 0
    assert sorted(file.name for file in box.tests.iterdir()) == ["grade.py", "test.sh"]
    stored = (box.root / "task" / "tests" / "expected.txt").read_text().splitlines()
    assert len(stored) == 1 + len(tasks[0].repository.calls)


def test_a_correct_module_may_import(box: Box, tasks: list[Task]) -> None:
    (box.workspace / "m.py").write_text("import math, json\n" + tasks[0].repository.source)
    assert reward_of(box) == 1


def test_nothing_that_stands_in_the_verifier_folder_is_followed(box: Box) -> None:
    link = f"ln -s /workspace/reward {REWARD}"
    before = f"mkdir -p /logs/verifier; {link}; echo '{{\"reward\": 1}}' > {REWARD}"
    assert reward_of(box, before) == 0

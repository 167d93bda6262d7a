"""The visible tests of this workspace: `check.py` tests m.py, `check.py serve` answers `try K`.

    setup.sh ── 7 ──► server: m.py = original with edit 7 ── fork ──► child: tests it and dies
             ◄── FAILED 2/15 tried 3 7 ──┘

A candidate runs in a child with a CPU limit, so a bad one cannot hurt the server. Runs on any
Python >= 3.8; imports are few because they are most of the start time.
"""
# ruff: noqa: PTH100, PTH118, PTH120, PTH123, UP031, UP037, S102, S307, BLE001

import os
import sys
from _signal import ITIMER_VIRTUAL, setitimer

TOOLS = os.path.dirname(os.path.abspath(__file__))
MODULE = os.path.join(os.path.dirname(TOOLS), "m.py")
CPU_LIMIT_S = 0.02


def read(path: str) -> str:
    with open(path) as file:
        return file.read()


def load_tests() -> "list[tuple[object, str]]":
    """(compiled call, expected value as text) of each visible test."""
    lines = read(os.path.join(os.path.dirname(TOOLS), "tests.txt")).splitlines()
    pairs = [line.split(" -> ", 1) for line in lines]
    return [(compile(call, "test", "eval"), expected) for call, expected in pairs]


def count_failures(source: str, tests: "list[tuple[object, str]]") -> int:
    """Failing tests of a module, all when it cannot be loaded. Dies of SIGVTALRM when too slow."""
    setitimer(ITIMER_VIRTUAL, CPU_LIMIT_S)
    namespace: "dict[str, object]" = {}
    failures = 0
    try:
        exec(compile(source, "m.py", "exec"), namespace)
    except Exception:
        return len(tests)
    for call, expected in tests:
        try:
            value = repr(eval(call, namespace))  # type: ignore[arg-type]
        except Exception as error:
            value = type(error).__name__
        failures += value != expected
    return failures


def run_tests(source: str, tests: "list[tuple[object, str]]") -> str:
    """`OK`, `FAILED 2/15` or `timeout`, from a child process."""
    child = os.fork()
    if child == 0:
        status = 255
        try:
            status = min(254, count_failures(source, tests))
        finally:
            os._exit(status)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return "timeout"
    failures = os.WEXITSTATUS(status)
    return "FAILED %d/%d" % (failures, len(tests)) if failures else "OK"


def apply(source: str, edit: str) -> str:
    """`edit` is "LINE COLUMN OLD NEW": lines count from 1, columns from 0."""
    number, column, old, new = edit.split(" ")
    lines = source.split("\n")
    text, start = lines[int(number) - 1], int(column)
    lines[int(number) - 1] = text[:start] + new + text[start + len(old) :]
    return "\n".join(lines)


def serve() -> None:
    original = read(os.path.join(TOOLS, "original.py"))
    edits = read(os.path.join(TOOLS, "edits.txt")).splitlines()
    tests = load_tests()
    tried = ""
    for request in sys.stdin:
        number = int(request)
        if not 1 <= number <= len(edits):
            answer = "no edit %d" % number
        else:
            source = apply(original, edits[number - 1])
            with open(MODULE, "w") as file:
                file.write(source)
            tried += " %d" % number
            answer = run_tests(source, tests)
            if answer != "OK":
                answer += " tried" + tried
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


def main() -> int:
    answer = run_tests(read(MODULE), load_tests())
    print(answer)
    if answer != "OK":
        print(read(os.path.join(TOOLS, "listing.txt")), end="")
    return int(answer != "OK")


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        sys.exit(main())

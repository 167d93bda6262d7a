"""What a local sandbox costs, beside the floor, in one run: starts, commands, a grading, 64 at once.

    python benchmarks/sandbox.py [--json] [--starts 200] [--commands 2000]

CPU is that of the whole tree: this process, the spawner, bubblewrap, the shells and all that they ran. Wall
times suffer from a busy machine, CPU times by 10 to 30 %. --json prints one JSON object as the last line.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # also when it is run as a file

from benchmarks import processes  # noqa: E402
from sandboxes.drivers.base import SandboxSpec  # noqa: E402
from sandboxes.drivers.box import LocalSandbox  # noqa: E402
from sandboxes.drivers.local import UID, LocalDriver  # noqa: E402

BARE_BWRAP = (
    "bwrap --ro-bind / / --unshare-all --as-pid-1 --die-with-parent --dev /dev --proc /proc true"
)


def tree_cpu_s() -> float:
    """CPU seconds of this process, of what it has reaped, and of all that live below it and have reaped."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime + sum(processes.sample().cpu_s.values())


def measure(times: int, act: Callable[[], None]) -> dict[str, float]:
    """Milliseconds of one call: wall median and p99, CPU mean."""
    walls = []
    cpu_s = tree_cpu_s()
    for _ in range(times):
        started = time.perf_counter()
        act()
        walls.append(1000 * (time.perf_counter() - started))
    cpu_s = tree_cpu_s() - cpu_s
    walls.sort()
    return {
        "median_ms": statistics.median(walls),
        "p99_ms": walls[int(0.99 * (times - 1))],
        "cpu_ms": 1000 * cpu_s / times,
    }


def spawn(path: str, *arguments: str) -> None:
    environment = {"PATH": "/usr/bin:/bin"}
    os.waitpid(os.posix_spawn(path, [path, *arguments], environment), 0)


@contextmanager
def task_template(num_files: int = 200) -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="longtail-bench-"))
    template = root / "template"
    (template / "src").mkdir(parents=True)
    for number in range(num_files):
        (template / "src" / f"module_{number}.py").write_text(f"value = {number}\n" * 50)
    for path in (root, *root.rglob("*")):
        if os.geteuid() == 0:
            path.chmod(0o755)
            os.chown(path, UID, UID)
    yield template
    shutil.rmtree(root)


def measure_floor(num_starts: int) -> dict[str, dict[str, float]]:
    bwrap, *arguments = BARE_BWRAP.split()
    path = shutil.which(bwrap) or bwrap
    return {
        "posix_spawn /bin/true": measure(5 * num_starts, lambda: spawn("/bin/true")),
        "posix_spawn bash -c true": measure(num_starts, lambda: spawn("/bin/bash", "-c", "true")),
        "bare bwrap true": measure(num_starts, lambda: spawn(path, *arguments)),
    }


def measure_one(
    driver: LocalDriver, template: Path, num_starts: int, num_commands: int
) -> dict[str, dict[str, float]]:
    starts: list[float] = []

    def live(use: Callable[[LocalSandbox], None]) -> None:
        sandbox = driver.start(SandboxSpec("one", template))
        starts.append(1000 * sandbox.timings["start"])
        use(sandbox)
        sandbox.close()

    live(grade)
    starts.clear()
    found = {"start, close": measure(num_starts, lambda: live(lambda _: None))}
    starts.sort()
    found["start"] = {
        "median_ms": statistics.median(starts),
        "p99_ms": starts[int(0.99 * (num_starts - 1))],
    }
    found["start, grade, close"] = measure(num_starts, lambda: live(grade))

    sandbox = driver.start(SandboxSpec("exec", template))

    def run(command: str) -> dict[str, float]:
        return measure(num_commands, lambda: check(sandbox.exec(command, timeout_s=60).exit_code))

    found["exec x=1"] = run("x=1")
    found["exec /bin/true"] = run("/bin/true")
    found["exec ls | wc"] = run("ls src | wc -l")
    found["exec cat > file <<EOF (4 KB)"] = run(
        "cat > file <<'EOF'\n" + 63 * (64 * "x" + "\n") + "EOF"
    )
    found["exec of a hanging command"] = measure(
        max(10, num_starts // 10),
        lambda: check(sandbox.exec("sleep 9", timeout_s=0.001).exit_code, 124),
    )
    sandbox.close()
    return found


def grade(sandbox: LocalSandbox) -> None:
    """What workers.agent.grading asks of a sandbox."""
    sandbox.kill_processes()
    sandbox.write_files({}, root="/logs/verifier")
    tests = {"test.sh": b"echo 1 > /logs/verifier/reward.txt\n", "expected.json": b"{}"}
    sandbox.write_files(tests, root="/tests")
    check(sandbox.exec("bash /tests/test.sh", timeout_s=60).exit_code)
    sandbox.kill_processes()
    if sandbox.read_file("/logs/verifier/reward.txt", max_bytes=100) != b"1\n":
        raise SystemExit("no reward")


def run_true(sandbox: LocalSandbox, times: int) -> None:
    for _ in range(times):
        check(sandbox.exec("/bin/true", timeout_s=60).exit_code)


def check(exit_code: int, expected: int = 0) -> None:
    if exit_code != expected:
        raise SystemExit(f"exit code {exit_code}")


def measure_many(
    driver: LocalDriver, template: Path, num_boxes: int = 64, num_commands: int = 50
) -> dict[str, float]:
    """Twice: only started and closed, then with commands. CPU of a live box is known to 10 ms only."""
    cpu_s, found = [], {"num_boxes": float(num_boxes)}
    for times in (0, num_commands):
        cpu_s.append(-tree_cpu_s())
        with ThreadPoolExecutor(num_boxes) as pool:
            started = time.perf_counter()
            specs = [SandboxSpec(str(number), template) for number in range(num_boxes)]
            sandboxes = list(pool.map(driver.start, specs))
            found["all_ready_ms"] = 1000 * (time.perf_counter() - started)
            started = time.perf_counter()
            list(pool.map(run_true, sandboxes, [times] * num_boxes))
            found["commands_per_s"] = num_boxes * times / (time.perf_counter() - started)
            started = time.perf_counter()
            list(pool.map(LocalSandbox.close, sandboxes))
            found["all_closed_ms"] = 1000 * (time.perf_counter() - started)
        cpu_s[-1] += tree_cpu_s()
    found["start_and_close_cpu_ms"] = 1000 * cpu_s[0] / num_boxes
    found["command_cpu_ms"] = 1000 * (cpu_s[1] - cpu_s[0]) / (num_boxes * num_commands)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--starts", type=int, default=200)
    parser.add_argument("--commands", type=int, default=2000)
    args = parser.parse_args()
    driver = LocalDriver()
    found = driver.probe()
    if found.missing:
        raise SystemExit("; ".join(found.missing))
    print(
        f"{found.level}; load {os.getloadavg()[0]:.1f}; {os.cpu_count()} cores; {bwrap_version()}\n"
    )
    with task_template() as template:
        rows = measure_floor(args.starts) | measure_one(
            driver, template, args.starts, args.commands
        )
        many = measure_many(driver, template)
    driver.close()
    print(f"{'one after another':32}{'median ms':>12}{'p99 ms':>12}{'CPU ms':>12}")
    for name, row in rows.items():
        cpu = f"{row['cpu_ms']:12.2f}" if "cpu_ms" in row else ""
        print(f"{name:32}{row['median_ms']:12.2f}{row['p99_ms']:12.2f}{cpu}")
    print("\n64 at once")
    for name, value in many.items():
        print(f"{name:32}{value:12.2f}")
    if args.json:
        print(
            json.dumps(
                {"level": found.level, "load": os.getloadavg()[0], "one": rows, "many": many}
            )
        )


def bwrap_version() -> str:
    return subprocess.run(
        ["bwrap", "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()


if __name__ == "__main__":
    main()

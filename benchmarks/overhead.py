"""What Longtail itself costs: trajectories with a model that answers at once.

    scripted engine ◄─HTTP─ rollout workers ─► a real command a turn in each local sandbox
     (not counted)                │
                                  └─► PostgreSQL: every turn, attempt and blob durable

1. CPU: 768 trajectories of 20 turns, 384 in flight, instant model. CPU-ms of ALL processes but the
   scripted engine, from launch to the end of the run, by part.
2. Slowdown: 384 trajectories at once, 10 turns, lognormal model delays (mean 5 s, sigma 0.8, fixed
   seed); wall time against the same draws with no work between them, median of 3.

    python benchmarks/overhead.py [--json] [--only cpu|slowdown] [--trajectories N]

Peers on a box like this keep everything in memory: mini-swe-agent 6.9 CPU-ms a turn in process and
up to 18 over HTTP, inspect_ai 41; a bare loop without isolation or database 1.6 to 2.7.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString

import httpx
import psycopg
import yaml
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # also when it is run as a file

from benchmarks import processes  # noqa: E402
from tests.scripted_engine import lognormal_delay_s  # noqa: E402
from workers.engines.chat import Chat, load_chat  # noqa: E402

IN_FLIGHT = 384
GROUP = 16  # attempts a task
COMMAND = "grep -c return calc.py"  # one process, as the peers run one
MEAN_DELAY_S, SIGMA, SEED = 5.0, 0.8, 1
FINAL = ("succeeded", "failed", "cancelled")
SPECIALS = ("<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>")


@dataclass(frozen=True)
class Load:
    """One run of the stack: every turn but the last runs COMMAND, the last submits."""

    num_trajectories: int
    num_turns: int
    mean_delay_s: float = 0.0

    @property
    def ideal_s(self) -> float:
        """All at once, the model's delays and nothing else: the slowest trajectory's sum."""
        return max(
            sum(
                lognormal_delay_s(SEED, number, turn, mean_s=self.mean_delay_s, sigma=SIGMA)
                for turn in range(self.num_turns)
            )
            for number in range(self.num_trajectories)
        )


def write_model(folder: Path) -> Chat:
    """A byte-level tokenizer and a chat format: all that a scripted engine's model has."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 16_384}))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in SPECIALS])
    tokenizer.save(str(folder / "tokenizer.json"))
    roles = {name: [f"<|{name}|>", "<|end|>"] for name in ("system", "user", "assistant", "tool")}
    (folder / "chat_format.json").write_text(json.dumps({"roles": roles, "end": "<|end|>"}))
    return load_chat(folder)


def write_tasks(folder: Path, num_tasks: int) -> None:
    """Harbor tasks whose verifier always says 1: the grader is exercised, not the policy."""
    files = {
        "instruction.md": "Count the functions of calc.py.\n",
        "task.toml": 'schema_version = "1.4"\n[metadata]\nrepository = "overhead"\n'
        'family = "overhead"\ndifficulty = "none"\n[verifier]\ntimeout_sec = 60\n',
        "environment/Dockerfile": "FROM scratch\nCOPY workspace /workspace\n",
        "environment/workspace/calc.py": "".join(
            f"def add{n}(a, b):\n    return a + b + {n}\n\n\n" for n in range(40)
        ),
        "tests/test.sh": "echo '{\"reward\": 1}' > /logs/verifier/reward.json\n",
        "solution/solve.sh": "true\n",
    }
    for number in range(num_tasks):
        for name, text in files.items():
            path = folder / f"overhead-{number:03}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def recipe(load: Load, model: Path, engine_url: str) -> str:
    """One evaluation stage over all tasks; YAML."""
    return yaml.safe_dump(
        {
            "version": 1,
            "name": "overhead",
            "model": {"path": str(model), "context_length": 16_384},
            "task_sets": {"all": "overhead"},
            "agent": {
                "format": "raw",
                "turn_cap": load.num_turns,
                "turn_token_cap": 256,
                "token_cap": 16_384,
            },
            "engines": {"kind": "attach", "urls": [engine_url]},
            "sandbox": {"driver": "local", "max_concurrent": IN_FLIGHT},
            "rollout": {"max_in_flight": IN_FLIGHT},
            "stages": [
                {"kind": "eval", "name": "overhead", "task_set": "all", "attempts": GROUP},
            ],
        }
    )


@contextmanager
def scripted_engine(load: Load, chat: Chat, folder: Path) -> Iterator[tuple[str, int]]:
    """The engine as a process of its own; its URL and pid."""
    turns = [{"output_ids": chat.action(COMMAND)}] * (load.num_turns - 1)
    script = folder / "script.json"
    script.write_text(json.dumps({"turns": [*turns, {"output_ids": chat.action("submit")}]}))
    process = subprocess.Popen(
        [
            sys.executable,
            str(ROOT / "tests" / "scripted_engine.py"),
            *("--script", str(script), "--seed", str(SEED)),
            *("--mean", str(load.mean_delay_s), "--sigma", str(SIGMA)),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["url"], process.pid
    finally:
        process.terminate()
        process.wait(10)


@contextmanager
def stack(var: Path, *, num_rollout_workers: int) -> Iterator[tuple[str, int]]:
    """`manage.py up` on a fresh var/; its URL and pid once it is ready."""
    environment = {**os.environ, "LONGTAIL_VAR": str(var)}
    command = [sys.executable, "manage.py", "up", f"--rollout-workers={num_rollout_workers}"]
    with (var.parent / "up.log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        yield _when_ready(var, process), process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _when_ready(var: Path, process: subprocess.Popen[Any]) -> str:
    for _ in range(1_200):
        if process.poll() is not None:
            raise SystemExit(f"the stack did not start; see {var.parent / 'up.log'}")
        state = var / "up.json"
        if state.exists() and (running := json.loads(state.read_text()))["is_ready"]:
            return str(running["url"])
        time.sleep(0.1)
    raise SystemExit("the stack was not ready after 120 s")


def prepare(url: str, tasks: Path, var: Path) -> httpx.Client:
    """Import the tasks; a client of the API that may launch."""

    def manage(*arguments: str) -> str:
        environment = {**os.environ, "LONGTAIL_VAR": str(var)}
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.check_output(command, cwd=ROOT, env=environment, text=True).strip()

    manage("import_tasks", str(tasks), "--name", "overhead", "--split", "held_out")
    return httpx.Client(
        base_url=f"{url}/api/v1",
        headers={"Authorization": f"Bearer {manage('create_token', 'benchmark')}"},
        timeout=30,
    )


def run_on_the_stack(api: httpx.Client, recipe_text: str, load: Load, var: Path) -> float:
    """Launch the recipe and wait for the run's end; wall seconds from the first claimed to the last
    completed attempt. Fails where an attempt failed or a turn is missing.
    """
    answer = api.post("/runs", json={"source": recipe_text})
    if answer.status_code >= 300:
        raise SystemExit(f"the launch was refused: {answer.text}")
    run_id = answer.json()["id"]
    dsn = f"host={(var / 'services' / 'run').resolve()} user=postgres dbname=longtail"
    with psycopg.connect(dsn, autocommit=True) as connection:

        def value(query: LiteralString) -> Any:
            row = connection.execute(query, [run_id]).fetchone()
            assert row is not None
            return row[0]

        while (status := value("SELECT status FROM runs_run WHERE id = %s")) not in FINAL:
            time.sleep(0.5)
        num_failed = value(
            "SELECT count(*) FROM runs_attempt WHERE run_id = %s AND status <> 'completed'"
        )
        num_turns = value(
            "SELECT count(*) FROM runs_turn t JOIN runs_attempt a ON a.id = t.attempt_id"
            " WHERE a.run_id = %s"
        )
        if (
            status != "succeeded"
            or num_failed
            or num_turns != load.num_trajectories * load.num_turns
        ):
            raise SystemExit(
                f"run {status}, {num_failed} attempts not completed, {num_turns} turns"
            )
        return float(
            value(
                "SELECT extract(epoch FROM max(finished_at) - min(started_at)) FROM runs_attempt"
                " WHERE run_id = %s"
            )
        )


def measure_cpu(load: Load, folder: Path) -> dict[str, float]:
    """CPU by part, trajectories an hour and peak memory of one run with an instant model."""
    processes.become_subreaper()
    chat = write_model(folder / "model")
    write_tasks(folder / "tasks", load.num_trajectories // GROUP)
    var = folder / "var"
    var.mkdir()
    with (
        scripted_engine(load, chat, folder) as (engine_url, engine_pid),
        stack(var, num_rollout_workers=IN_FLIGHT // 64) as (url, up_pid),
    ):
        text = recipe(load, folder / "model", engine_url)
        api = prepare(url, folder / "tasks", var)
        before = processes.sample()
        with processes.PeakMemory() as memory:
            wall_s = run_on_the_stack(api, text, load, var)
        processes.reap_orphans([engine_pid, up_pid])
        after = processes.sample()
    cpu_s = {
        part: seconds - before.cpu_s.get(part, 0.0)
        for part, seconds in after.cpu_s.items()
        if part != "scripted engine"
    }
    total_s = sum(cpu_s.values())
    num_turns = load.num_trajectories * load.num_turns
    for part, seconds in sorted(cpu_s.items(), key=lambda item: -item[1]):
        print(f"{part:16} {1e3 * seconds / num_turns:7.3f} CPU-ms a turn")
    return {
        "cpu_ms_per_turn": 1e3 * total_s / num_turns,
        "cpu_ms_per_trajectory": 1e3 * total_s / load.num_trajectories,
        "trajectories_per_h": 3600 * load.num_trajectories / wall_s,
        "peak_rss_mb": memory.peak_mb,
    }


def measure_slowdown(load: Load, folder: Path) -> float:
    """Wall time of one run with delays, over the time of the delays alone."""
    chat = write_model(folder / "model")
    write_tasks(folder / "tasks", load.num_trajectories // GROUP)
    var = folder / "var"
    var.mkdir()
    with (
        scripted_engine(load, chat, folder) as (engine_url, _),
        stack(var, num_rollout_workers=IN_FLIGHT // 64) as (url, _),
    ):
        text = recipe(load, folder / "model", engine_url)
        api = prepare(url, folder / "tasks", var)
        return run_on_the_stack(api, text, load, var) / load.ideal_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--only", choices=["cpu", "slowdown"])
    parser.add_argument("--trajectories", type=int, default=768)
    options = parser.parse_args()
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="longtail-overhead-") as name:
        folder = Path(name)
        if options.only != "slowdown":
            (folder / "cpu").mkdir()
            figures |= measure_cpu(Load(options.trajectories, 20), folder / "cpu")
        if options.only != "cpu":
            ratios = []
            for number in range(3):
                (folder / f"slowdown{number}").mkdir()
                load = Load(IN_FLIGHT, 10, MEAN_DELAY_S)
                ratios.append(measure_slowdown(load, folder / f"slowdown{number}"))
            figures["slowdown_at_384"] = statistics.median(ratios)
    for key, value in figures.items():
        print(f"{key}: {value:.3f}")
    if options.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()

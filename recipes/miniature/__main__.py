"""Writes what recipes/miniature.yaml needs: `python -m recipes.miniature --seed 1 --out DIR`.

    DIR/tasks/{train,validation,held_out}/KEY/   Harbor task directories
    DIR/traces.jsonl                             traces for SFT, of training families only
    DIR/model/                                   random weights, tokenizer, chat format
    DIR/baselines.json                           what blind search solves of the held-out tasks
    DIR/manifest.json                            counts, families, hashes; written last

The same seed writes the same bytes. Held-out and validation tasks are the same for every seed.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any

from recipes.miniature.base_model import train_tokenizer, write_base_model
from recipes.miniature.baselines import measure_baselines
from recipes.miniature.families import SPLITS, load_families, shared_functions
from recipes.miniature.harbor import write_task
from recipes.miniature.tasks import Task, draw_tasks
from recipes.miniature.traces import Trace, write_trace

TURN_CAP = 10
NUM_TRACES = 900
NUM_TRAIN, NUM_VALIDATION, NUM_HELD_OUT = 256, 48, 48


def draw_split(split: str, seed: int) -> list[Task]:
    """The tasks of a split. Only training depends on the seed: the others were drawn once."""
    if split == "train":
        return draw_tasks(split, f"rl/{seed}", num_forks=2, per_repository=9)[:NUM_TRAIN]
    count = {"validation": NUM_VALIDATION, "held_out": NUM_HELD_OUT}[split]
    return draw_tasks(split, "drawn once", num_forks=2, per_repository=12)[:count]


def draw_trace_tasks(seed: int) -> list[Task]:
    """Tasks of training repositories that the reinforced stage does not see."""
    return draw_tasks("train", f"sft/{seed}", num_forks=2, per_repository=9)


def draw_traces(seed: int) -> list[Trace]:
    tasks = draw_trace_tasks(seed)
    rng = random.Random(f"traces/{seed}")  # noqa: S311
    return [write_trace(tasks[i % len(tasks)], rng) for i in range(NUM_TRACES)]


def check_disjoint() -> None:
    """Raises ValueError when two splits share a family or a function."""
    for one, two in combinations(SPLITS, 2):
        families = {f.name for f in load_families(one)} & {f.name for f in load_families(two)}
        if families or shared_functions(one, two):
            raise ValueError(f"{one} and {two} share {sorted(families) or 'a function'}")


def generate(seed: int, out: Path) -> dict[str, Any]:
    """Writes DIR (see the module), returns the manifest. Raises FileExistsError for a used DIR."""
    check_disjoint()
    tasks = {split: draw_split(split, seed) for split in SPLITS}
    for split, drawn in tasks.items():
        folder = out / "tasks" / split
        folder.mkdir(parents=True)
        for task in drawn:
            write_task(task, folder / task.key)

    traces = draw_traces(seed)
    (out / "traces.jsonl").write_text("".join(json.dumps(trace) + "\n" for trace in traces))
    tokenizer = train_tokenizer(_trace_text(trace) for trace in traces)
    write_base_model(tokenizer, seed, out / "model")
    baselines = measure_baselines(tasks["held_out"], TURN_CAP)
    (out / "baselines.json").write_text(json.dumps(baselines, indent=1) + "\n")

    manifest = {
        "seed": seed,
        "splits": {
            split: {
                "tasks": len(drawn),
                "families": dict(sorted(Counter(t.repository.family for t in drawn).items())),
                "repositories": len({t.repository.name for t in drawn}),
                "sha256": _hash_tree(out / "tasks" / split),
            }
            for split, drawn in tasks.items()
        },
        "disjoint": "no family and no function is in two splits",
        "traces": {
            "count": len(traces),
            "solved": round(sum(trace["reward"] for trace in traces) / len(traces), 4),
            "sha256": _hash_tree(out / "traces.jsonl"),
        },
        "model": {"vocabulary": tokenizer.get_vocab_size(), "sha256": _hash_tree(out / "model")},
        "baselines": {"sha256": _hash_tree(out / "baselines.json")},
    }
    (out / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    return manifest


def _trace_text(trace: Trace) -> str:
    lines = [trace["instruction"]]
    for turn in trace["turns"]:
        lines += [turn["action"], turn["observation"]]
    return "\n".join(lines)


def _hash_tree(path: Path) -> str:
    """SHA-256 over the names and contents of a file or of all files below a folder."""
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    total = sha256()
    for file in files:
        data = file.read_bytes()
        total.update(f"{file.relative_to(path)} {len(data)}\n".encode() + data)
    return total.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m recipes.miniature", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument(
        "--out", type=Path, required=True, help="a folder that does not hold these parts yet"
    )
    arguments = parser.parse_args()
    print(json.dumps(generate(arguments.seed, arguments.out), indent=1))


if __name__ == "__main__":
    main()

"""The reference engine beside its limit: multi-turn clients over HTTP, and the same decode loop bare.

    python -m benchmarks.engine [--json] [--seconds 2] [--rounds 3]

Model: 0.12 M parameters (width 64, 2 layers, vocabulary 405, context 448). A client plays
trajectories: a prompt of 120 tokens, then 10 turns that sample 8 tokens and append an observation
of 18, through workers.engines.client, all clients being threads of one process. The limit is what
the same PyTorch operations give in one process without HTTP, requests, queues or threads: as many
rows, always full and in step, prefix reuse taken for granted. Figures: generated tokens per second,
and CPU-ms per call of the engine process (user + system), of which the model's own mathematics is
the limit's. Engine and limit take turns; each figure is the best of the rounds, so that other work
on the machine weighs less.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

# Before torch: threads that spin would take the cores from what is measured.
os.environ |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}

import torch

from workers.engines.client import EngineClient
from workers.engines.reference.__main__ import keep_freed_memory
from workers.engines.reference.cache import Cache
from workers.engines.reference.forward import Rows, extend
from workers.engines.reference.model import init_model, save_model
from workers.engines.reference.sampling import Sampling, sample
from workers.engines.server import start_reference

CONFIG: dict[str, Any] = {
    "model_type": "qwen3",
    "vocab_size": 405,
    "hidden_size": 64,
    "intermediate_size": 192,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 448,
    "tie_word_embeddings": True,
}
PROMPT, NEW, OBSERVATION, TURNS = 120, 8, 18, 10


def random_ids(num: int) -> list[int]:
    return [random.randrange(405) for _ in range(num)]


def run_limit(num_rows: int, seconds: float) -> dict[str, float]:
    """All rows in step: prefill together, decode together, nothing else."""
    torch.set_num_threads(1)
    model = init_model(CONFIG, seed=0)
    cache = Cache(model.config, num_slots=num_rows, context_length=448)
    slots, sampling = list(range(num_rows)), [Sampling(max_new_tokens=NEW)] * num_rows
    num_calls, started_at, cpu = 0, time.perf_counter(), time.process_time()
    with torch.inference_mode():
        while time.perf_counter() - started_at < seconds:
            length, chunk = 0, PROMPT
            for _ in range(TURNS):
                counts = [chunk] * num_rows
                ids = torch.randint(0, 405, (chunk * num_rows,))
                for _ in range(NEW):
                    num_decoding = 0 if counts[0] > 1 else num_rows
                    rows = Rows(ids, slots, [length] * num_rows, counts, num_decoding)
                    hidden = extend(model, cache.keys, cache.values, rows)
                    length += counts[0]
                    tokens, _ = sample(model.logits(hidden), sampling, slots, [length] * num_rows)
                    ids, counts = torch.tensor(tokens), [1] * num_rows
                # The last token was sampled and not fed: it leads the next turn's chunk.
                chunk = OBSERVATION + 1
                num_calls += num_rows
    wall, cpu = time.perf_counter() - started_at, time.process_time() - cpu
    return {"tokens_per_s": num_calls * NEW / wall, "cpu_ms_per_call": 1000 * cpu / num_calls}


def run_clients(client: EngineClient, pid: int, num: int, seconds: float) -> dict[str, float]:
    stop_at = time.perf_counter() + seconds
    calls = [0] * num

    def play(number: int) -> None:
        while True:
            ids = random_ids(PROMPT)
            for turn in range(TURNS):
                if time.perf_counter() >= stop_at:
                    return
                generation = client.generate(ids, rid=f"{number}-{turn}", max_new_tokens=NEW)
                calls[number] += 1
                ids = ids + generation.output_ids + random_ids(OBSERVATION)

    threads = [threading.Thread(target=play, args=(i,)) for i in range(num)]
    started_at, cpu, own = time.perf_counter(), cpu_s(pid), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall, cpu, own = time.perf_counter() - started_at, cpu_s(pid) - cpu, time.process_time() - own
    return {
        "tokens_per_s": sum(calls) * NEW / wall,
        "cpu_ms_per_call": 1000 * cpu / sum(calls),
        "client_cpu_ms_per_call": 1000 * own / sum(calls),
    }


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def summarise(rounds: list[dict[str, float]]) -> dict[str, float]:
    best = {
        name: (max if name.endswith("per_s") else min)(each[name] for each in rounds)
        for name in rounds[0]
    }
    best["ratio"] = best["tokens_per_s"] / best["limit_tokens_per_s"]
    best["overhead_cpu_ms_per_call"] = best["cpu_ms_per_call"] - best["limit_cpu_ms_per_call"]
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 16, 64])
    arguments = parser.parse_args()
    keep_freed_memory(ctypes.CDLL(None))
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        model_dir = Path(folder) / "model"
        save_model(init_model(CONFIG, seed=0), model_dir)
        engine = start_reference(model_dir, log_path=Path(folder) / "log", context_length=448)
        try:
            engine.wait_healthy()
            with EngineClient(engine.url, max_connections=max(arguments.clients)) as client:
                run_clients(client, engine.pid, 4, 1.0)
                for num in arguments.clients:
                    rounds = [
                        run_clients(client, engine.pid, num, arguments.seconds)
                        | {f"limit_{k}": v for k, v in run_limit(num, arguments.seconds).items()}
                        for _ in range(arguments.rounds)
                    ]
                    results[f"clients_{num}"] = result = summarise(rounds)
                    print(
                        f"{num:3d} clients  {result['tokens_per_s']:6.0f} tokens/s"
                        f"  {result['cpu_ms_per_call']:.2f} CPU-ms a call"
                        f"  | limit {result['limit_tokens_per_s']:6.0f} tokens/s"
                        f"  {result['limit_cpu_ms_per_call']:.2f} CPU-ms"
                        f"  | ratio {result['ratio']:.2f}"
                        f"  | client {result['client_cpu_ms_per_call']:.2f} CPU-ms",
                        flush=True,
                    )
        finally:
            engine.stop()
    if arguments.json:
        print(json.dumps({k: {n: round(x, 4) for n, x in v.items()} for k, v in results.items()}))


if __name__ == "__main__":
    main()

"""An RL step of the trainer beside a bare torch loop on the same model and batch, in one process.

    python benchmarks/trainer.py [--json] [--size miniature|peer] [--rounds 15]

ours   read the blobs, score every token (pi_prox, entropy), metrics, update, as in a run
bare   what a script of 30 lines does: length-sorted padded micro-batches, head at trained tokens,
       the same clipped loss with log mu as the old log-probabilities, clip, torch.optim.AdamW; no
       scoring pass, no importance weights, no metrics, everything already in memory

So ours does one more forward pass than bare, and `ratio` (CPU time, ours / bare) above 1 is its
price. `half_degenerate` is the same batch with half of the groups without reward variance, which
ours does not pass forward again and bare does. tokens: all that go through the model, once.
The last line with --json is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
from torch import Tensor

from workers.engines.reference.model import Model, init_model, save_model
from workers.rl.arrays import TrajectoryArrays, encode
from workers.rl.losses import Objective
from workers.trainer.batches import read_batch
from workers.trainer.loop import RlSettings, train_rl
from workers.trainer.torch_backend import TorchBackend

GROUP = 8
LEARNING_RATE = 4e-4
MICROBATCH = 8192


@dataclass(frozen=True)
class Size:
    """A model and a batch; mean_length is that of a lognormal, cut at the context."""

    width: int
    layers: int
    ff_width: int
    vocabulary: int
    context: int
    trajectories: int
    mean_length: int
    sigma: float

    @property
    def config(self) -> dict[str, Any]:
        return {
            "model_type": "qwen3",
            "vocab_size": self.vocabulary,
            "hidden_size": self.width,
            "intermediate_size": self.ff_width,
            "num_hidden_layers": self.layers,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "max_position_embeddings": self.context,
            "tie_word_embeddings": True,
        }


SIZES = {
    "miniature": Size(64, 2, 192, 1400, 448, 64, 150, 0.4),
    # the shape of the comparison with TRL: 1.05M parameters, 16 sequences of 512
    "peer": Size(160, 4, 432, 512, 512, 16, 512, 0.0),
}


def make_trajectories(size: Size, seed: int) -> list[TrajectoryArrays]:
    """Turns of about eight tokens, half of them the policy's; mu near the uniform policy."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(size.trajectories):
        length = int(min(size.context, size.mean_length * rng.lognormal(0, size.sigma)))
        mask = (np.arange(length) // 8) % 2 == 1
        logprobs = rng.normal(-np.log(size.vocabulary), 0.2, length) * mask
        rows.append(
            TrajectoryArrays(
                tokens=rng.integers(0, size.vocabulary, length).astype(np.int32),
                mask=mask.astype(np.uint8),
                logprobs=logprobs.astype(np.float32),
                versions=np.where(mask, 0, -1).astype(np.int32),
            )
        )
    return rows


class BareLoop:
    """Plain torch, nothing of the product but the model's class."""

    def __init__(self, model: Model, rows: Sequence[TrajectoryArrays]) -> None:
        self.model = model
        self.optimizer = torch.optim.AdamW(
            model.parameters(), betas=(0.9, 0.95), weight_decay=0.0, fused=True
        )
        self.rows = rows  # by length
        self.num_trained = sum(int(row.mask.sum()) for row in rows)

    def step(self, advantages: Sequence[float]) -> None:
        self.optimizer.param_groups[0]["lr"] = LEARNING_RATE
        start = 0
        while start < len(self.rows):
            end = start + 1
            while end < len(self.rows) and (end + 1 - start) * len(self.rows[end]) <= MICROBATCH:
                end += 1
            self._accumulate(self.rows[start:end], advantages[start:end])
            start = end
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _accumulate(self, rows: Sequence[TrajectoryArrays], advantages: Sequence[float]) -> None:
        length = max(len(row) for row in rows)

        def pad(name: str) -> Tensor:
            columns = [torch.from_numpy(getattr(row, name)) for row in rows]
            return torch.stack([torch.nn.functional.pad(c, (0, length - len(c))) for c in columns])

        ids, mask = pad("tokens").long(), pad("mask")[:, 1:].bool()
        hidden = self.model.hidden(ids[:, :-1])[mask]
        distribution = torch.log_softmax(self.model.logits(hidden), -1)
        logprobs = distribution.gather(1, ids[:, 1:][mask][:, None])[:, 0]
        advantage = torch.tensor(advantages)[:, None].expand(mask.shape)[mask]
        ratio = (logprobs - pad("logprobs")[:, 1:][mask]).exp()
        gain = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.28) * advantage)
        torch.autograd.backward(-gain.sum() / self.num_trained)


def cpu_of(step: Callable[[], object]) -> tuple[float, float]:
    """CPU seconds and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    step()
    return time.process_time() - cpu, time.perf_counter() - wall


def measure(size: Size, rounds: int) -> dict[str, Any]:
    rows = sorted(make_trajectories(size, seed=1), key=len)
    num_tokens = sum(len(row) for row in rows)
    mixed = [1.0 if i % 2 else -1.0 for i in range(len(rows))]
    half = [a if i // GROUP % 2 else 0.0 for i, a in enumerate(mixed)]
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        save_model(init_model(size.config, 1), directory)
        urls = []
        for i, row in enumerate(rows):
            (directory / f"{i}.blob").write_bytes(encode(row))
            urls.append(f"file://{directory}/{i}.blob")
        backend = TorchBackend(directory, seed=1)
        backend.reset_optimizer((0.9, 0.95), 0.0)
        bare = BareLoop(init_model(size.config, 1), rows)
        settings = RlSettings(temperature=1.0, tokens_per_microbatch=MICROBATCH)

        def ours(advantages: Sequence[float]) -> None:
            batch = read_batch(
                [{"url": u, "advantage": a} for u, a in zip(urls, advantages, strict=True)],
                version=0,
                context_length=size.context,
            )
            train_rl(backend, batch, Objective(), settings, LEARNING_RATE)

        steps: dict[str, Callable[[], object]] = {
            "ours": lambda: ours(mixed),
            "bare": lambda: bare.step(mixed),
            "half_degenerate": lambda: ours(half),
        }
        for step in steps.values():  # warm-up
            step()
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in steps}
        for _ in range(rounds):  # in turns, so that a busy machine hits all alike
            for name, step in steps.items():
                times[name].append(cpu_of(step))
    result: dict[str, Any] = {
        "parameters": backend.num_parameters,
        "trajectories": len(rows),
        "tokens": num_tokens,
        "trained_tokens": bare.num_trained,
        "threads": torch.get_num_threads(),
        "rounds": rounds,
    }
    for name, pairs in times.items():
        cpu_s = statistics.median(cpu for cpu, _ in pairs)
        wall_s = statistics.median(wall for _, wall in pairs)
        result[f"{name}_step_s"] = round(wall_s, 4)
        result[f"{name}_tokens_per_s"] = round(num_tokens / wall_s)
        result[f"{name}_cpu_s_per_1k_tokens"] = round(1000 * cpu_s / num_tokens, 5)
    for name in ("ours", "half_degenerate"):
        ratios = [a / b for (a, _), (b, _) in zip(times[name], times["bare"], strict=True)]
        result["ratio" if name == "ours" else "ratio_half_degenerate"] = round(
            statistics.median(ratios), 3
        )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--size", choices=sorted(SIZES), default="miniature")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    result = measure(SIZES[arguments.size], arguments.rounds)
    for key, value in result.items():
        print(f"{key:36} {value}")
    if arguments.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()

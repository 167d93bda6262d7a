"""A model of a few thousand parameters with a byte tokenizer, and trajectories for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from workers.engines.reference.model import init_model, save_model
from workers.rl.arrays import TrajectoryArrays, encode

SPECIAL = ["<|user|>", "<|assistant|>", "<|tool|>", "<|end|>"]
CHAT_FORMAT = {
    "roles": {
        "system": ["", "\n"],
        "user": ["<|user|>", "<|end|>"],
        "assistant": ["<|assistant|>", "<|end|>"],
        "tool": ["<|tool|>", "<|end|>"],
    },
    "end": "<|end|>",
}
VOCABULARY = 256 + len(SPECIAL)
CONTEXT = 96
ALGORITHM: dict[str, Any] = {"betas": [0.9, 0.95], "weight_decay": 0.0, "max_grad_norm": 1.0}


def make_model_dir(directory: Path, seed: int = 1) -> Path:
    directory.mkdir(parents=True)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.save(str(directory / "tokenizer.json"))
    (directory / "chat_format.json").write_text(json.dumps(CHAT_FORMAT))
    config = {
        "model_type": "qwen3",
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": CONTEXT,
        "tie_word_embeddings": True,
    }
    save_model(init_model(config, seed), directory)
    return directory


def make_trajectory(
    rng: np.random.Generator, version: int = 0, length: int | None = None
) -> TrajectoryArrays:
    """Random tokens in turns of prompt or observation and action; mu is near the uniform policy."""
    length = int(rng.integers(10, CONTEXT)) if length is None else length
    mask = np.zeros(length, np.uint8)
    start = int(rng.integers(2, 6))
    while start < length:
        end = start + int(rng.integers(1, 6))
        mask[start:end] = 1
        start = end + int(rng.integers(1, 6))
    return TrajectoryArrays(
        tokens=rng.integers(0, VOCABULARY, length).astype(np.int32),
        mask=mask,
        logprobs=np.where(mask == 1, rng.normal(-5.5, 0.3, length), 0).astype(np.float32),
        versions=np.where(mask == 1, version, -1).astype(np.int32),
    )


def store(
    directory: Path, trajectories: Sequence[TrajectoryArrays], advantages: Sequence[float]
) -> list[dict[str, Any]]:
    """Writes blobs; returns the `trajectories` of a step request."""
    directory.mkdir(parents=True, exist_ok=True)
    rows = []
    for i, (trajectory, advantage) in enumerate(zip(trajectories, advantages, strict=True)):
        file = directory / f"{len(list(directory.iterdir()))}.blob"
        file.write_bytes(encode(trajectory))
        rows.append({"url": f"file://{file}", "advantage": advantage, "group": i // 4})
    return rows


def write_traces(file: Path, num_traces: int) -> Path:
    """Traces that always answer `ls <letter>` with the letter of the instruction."""
    traces = [
        {
            "system": "",
            "instruction": f"list {letter}",
            "turns": [
                {"action": f"ls {letter}", "observation": "no"},
                {"action": "submit", "observation": ""},
            ],
            "reward": 1.0,
        }
        for letter in ("abcdefgh"[i % 8] for i in range(num_traces))
    ]
    file.write_text("".join(json.dumps(trace) + "\n" for trace in traces))
    return file

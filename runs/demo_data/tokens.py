"""Tokens of a part of the attempts, as the inspector shows them: ids, loss mask, log-probs of engine and trainer.

The vocabulary is a byte-level BPE trained on the library's own texts. Without the `tokenizers` package (a web
server without workers) there are no tokens; everything else is the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from runs.demo_data.repositories import tasks_of
from runs.demo_data.texts import exchanges
from runs.services.turns import TurnValues
from workers.agent.prompts import BASH_BLOCK_SYSTEM
from workers.rl.arrays import TrajectoryArrays

SPECIAL = ("<|im_start|>", "<|im_end|>")
VOCABULARY = 4_000
Encode = Callable[[str], list[int]]


def has_tokenizers() -> bool:
    return find_spec("tokenizers") is not None


def write_tokenizer(model_dir: Path) -> Encode:
    """tokenizer.json of the demo's model, and what encodes with it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(_texts(), trainer)
    model_dir.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(model_dir / "tokenizer.json"))

    @lru_cache(maxsize=20_000)
    def encoded(text: str) -> list[int]:
        return list(tokenizer.encode(text).ids)

    return encoded


def _texts() -> Iterable[str]:
    yield BASH_BLOCK_SYSTEM
    for task in tasks_of("train", 80):
        yield task.instruction
        for options in exchanges(task).values():
            for exchange in options:
                yield exchange.action
                yield exchange.observation


def arrays_of(
    encode: Encode, instruction: str, turns: Sequence[TurnValues], rng: np.random.Generator
) -> TrajectoryArrays:
    """The chat as the engine saw it; what the policy wrote is sampled, the rest is forced."""
    start, end = SPECIAL
    opening = f"{start}system\n{BASH_BLOCK_SYSTEM}{end}\n{start}user\n{instruction}{end}\n{start}assistant\n"
    tokens = encode(opening)[:]
    versions = [-1] * len(tokens)
    for turn in turns:
        said = encode(f"{turn.action}{end}")
        assert turn.version_min is not None
        tokens += said
        versions += [turn.version_min] * len(said)
        heard = encode(f"\n{start}user\n{turn.observation}{end}\n{start}assistant\n")
        tokens += heard
        versions += [-1] * len(heard)
    mask = np.array(versions) >= 0
    surprise = np.where(rng.random(len(tokens)) < 0.7, 0.02, 1.1)
    logprobs = np.where(mask, -rng.exponential(surprise), 0.0)
    return TrajectoryArrays(
        tokens=np.array(tokens),
        mask=mask.astype(np.uint8),
        logprobs=logprobs.astype(np.float32),
        versions=np.array(versions),
    )


def trainer_logprobs(arrays: TrajectoryArrays, rng: np.random.Generator) -> NDArray[np.float32]:
    """Of the sampled tokens: the engine's, a little off, and more so where it was unsure."""
    engine = arrays.logprobs[arrays.mask == 1]
    gap = rng.laplace(0, 0.006 + 0.016 * np.minimum(1.0, -engine))
    prox: NDArray[np.float32] = np.minimum(0.0, engine + gap).astype("<f4")
    return prox


def blob_name(stage: int, group: int, member: int, number: int) -> str:
    return hashlib.sha256(f"{stage}-{group}-{member}-{number}".encode()).hexdigest()[:32]

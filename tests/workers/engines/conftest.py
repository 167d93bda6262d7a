"""Real engine processes on real sockets, with a model of 15 thousand parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from workers.engines.client import EngineClient
from workers.engines.reference.model import init_model, save_model
from workers.engines.server import EngineProcess, start_reference

VOCAB_SIZE = 61
CONTEXT_LENGTH = 512
CONFIG: dict[str, Any] = {
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": CONTEXT_LENGTH,
    "tie_word_embeddings": True,
}


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two directories of the same architecture: the old weights and the new ones."""
    directories = [tmp_path_factory.mktemp("weights") / name for name in ("old", "new")]
    for seed, directory in enumerate(directories):
        save_model(init_model(CONFIG, seed), directory)
    return directories


@pytest.fixture(scope="module")
def start_engine(
    weights: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., EngineProcess]]:
    """Starts engines that end with the module."""
    with ExitStack() as stack:

        def start(*, is_awaited: bool = True, **options: Any) -> EngineProcess:
            log_path = tmp_path_factory.mktemp("engine") / "log"
            engine = start_reference(weights[0], log_path=log_path, **options)
            stack.callback(engine.stop)
            if is_awaited:
                engine.wait_healthy()
            return engine

        yield start


@pytest.fixture(scope="module")
def engine(start_engine: Callable[..., EngineProcess]) -> EngineProcess:
    return start_engine(weight_version=3, max_running=2, max_queued=2, seed=1)


@pytest.fixture
def client(engine: EngineProcess, weights: list[Path]) -> Iterator[EngineClient]:
    """A client of the module's engine, which it leaves empty, unpaused and with its old weights."""
    with EngineClient(engine.url, timeout_s=30) as client:
        yield client
        client.pause("abort")
        client.update_weights_from_disk(str(weights[0]), 3)
        client.resume()

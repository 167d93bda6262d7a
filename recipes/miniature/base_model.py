"""The base model: a random Qwen3 of 0.15M parameters, and a tokenizer with one token per word."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from workers.engines.reference.model import init_model, save_model

SPECIAL_TOKENS = ["<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>"]
CHAT_FORMAT = {
    "roles": {role: [f"<|{role}|>", "<|end|>"] for role in ("system", "user", "assistant", "tool")},
    "end": "<|end|>",
}
CONTEXT_LENGTH = 448

# a word, number or operator with its leading blank is one piece; a number never joins a word
_PIECES = r"\n| ?[A-Za-z_]+| ?\d+| ?[-+*/%<>=!]+| ?[^\sA-Za-z_\d<>=!+\-*/%]+| +(?! )| +"
_SHELL_WORDS = (
    " bash line: command not found syntax error near unexpected token no output usage edit timeout"
)
_NUM_NUMBERS = 30
_MIN_FREQUENCY = 50


def train_tokenizer(texts: Iterable[str]) -> Tokenizer:
    """Byte-level BPE: frequent pieces, numbers, shell words are one token each, the rest bytes."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    numbers = "".join(f"{n} {n}" for n in range(_NUM_NUMBERS))
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        min_frequency=_MIN_FREQUENCY,
        special_tokens=SPECIAL_TOKENS,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator([*texts, *[numbers, _SHELL_WORDS] * _MIN_FREQUENCY], trainer)
    return tokenizer


def write_base_model(tokenizer: Tokenizer, seed: int, directory: Path) -> None:
    """config.json, model.safetensors, tokenizer.json and chat_format.json."""
    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": tokenizer.get_vocab_size(),
        "hidden_size": 64,
        "intermediate_size": 192,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000.0,
        "max_position_embeddings": CONTEXT_LENGTH,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "bos_token_id": None,
        "eos_token_id": tokenizer.token_to_id("<|end|>"),
        "torch_dtype": "float32",
    }
    save_model(init_model(config, seed), directory)
    tokenizer.save(str(directory / "tokenizer.json"))
    (directory / "chat_format.json").write_text(json.dumps(CHAT_FORMAT, indent=1) + "\n")

"""The decoder of the Qwen3 and Llama families, small enough to read: for trainer and engine alike.

    ids ─ embedding ─┬─ + [RMSNorm ─ q, k, v (─ qk-norm) ─ RoPE ─ causal attention ─ o]   x layers
                     └─ + [RMSNorm ─ SwiGLU] ─ RMSNorm ─ head ─ logits

Weights on disk have Hugging Face's names and shapes (`config.json`, `*.safetensors`): a directory
loads in `transformers`, in SGLang and here. In memory q, k, v are one matrix, as are gate and up:
fewer, larger products. Everything is float32 on the CPU.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

COMPANIONS = (
    "tokenizer.json",
    "chat_format.json",
    "tokenizer_config.json",
    "generation_config.json",
)
"""Files beside the weights that belong to the model and are carried along by `save_model`."""


@dataclass(frozen=True)
class ModelConfig:
    """The numbers of `config.json` that this decoder needs.

    `source` is the file as read: it is written back unchanged.
    """

    vocab_size: int
    width: int
    ff_width: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    max_positions: int
    norm_eps: float
    rope_theta: float
    is_tied: bool
    has_qk_norm: bool
    source: Mapping[str, Any]

    @classmethod
    def parse(cls, source: Mapping[str, Any]) -> ModelConfig:
        """Raises ValueError for a model that this decoder would compute wrongly."""
        kind = source.get("model_type")
        if kind not in ("qwen3", "llama"):
            raise ValueError(f"model_type {kind!r} is not supported: qwen3 or llama")
        # transformers 5 moved rope_theta into rope_parameters; its other keys were rope_scaling.
        rope = source.get("rope_parameters") or source.get("rope_scaling") or {}
        unsupported = {
            "rope_type": rope.get("rope_type", rope.get("type", "default")) != "default",
            "hidden_act": source.get("hidden_act", "silu") != "silu",
            "attention_bias": bool(source.get("attention_bias")),
            "mlp_bias": bool(source.get("mlp_bias")),
            "use_sliding_window": bool(source.get("use_sliding_window")),
        }
        if wrong := [key for key, is_wrong in unsupported.items() if is_wrong]:
            raise ValueError(f"config.json asks for what is not computed here: {', '.join(wrong)}")
        heads = source["num_attention_heads"]
        return cls(
            vocab_size=source["vocab_size"],
            width=source["hidden_size"],
            ff_width=source["intermediate_size"],
            num_layers=source["num_hidden_layers"],
            num_heads=heads,
            num_kv_heads=source.get("num_key_value_heads") or heads,
            head_dim=source.get("head_dim") or source["hidden_size"] // heads,
            max_positions=source["max_position_embeddings"],
            norm_eps=source.get("rms_norm_eps", 1e-6),
            rope_theta=float(rope.get("rope_theta", source.get("rope_theta", 10_000.0))),
            is_tied=bool(source.get("tie_word_embeddings", False)),
            has_qk_norm=kind == "qwen3",
            source=dict(source),
        )


class Linear(nn.Linear):
    def reset_parameters(self) -> None:
        """Nothing: weights are always loaded or drawn by `init_model`."""


class Embedding(nn.Embedding):
    def reset_parameters(self) -> None:
        """Nothing, as above."""


class Layer(nn.Module):
    """One decoder layer without its attention, in which the passes of `Model` differ."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        c = self.config = config
        self.input_norm = nn.RMSNorm(c.width, eps=c.norm_eps)
        self.post_norm = nn.RMSNorm(c.width, eps=c.norm_eps)
        if c.has_qk_norm:
            self.q_norm = nn.RMSNorm(c.head_dim, eps=c.norm_eps)
            self.k_norm = nn.RMSNorm(c.head_dim, eps=c.norm_eps)
        self.qkv = Linear(c.width, (c.num_heads + 2 * c.num_kv_heads) * c.head_dim, bias=False)
        self.o = Linear(c.num_heads * c.head_dim, c.width, bias=False)
        self.gate_up = Linear(c.width, 2 * c.ff_width, bias=False)
        self.down = Linear(c.ff_width, c.width, bias=False)

    def project(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x [.., d]; cos, sin [.., 1, hd] -> q [.., heads, hd], k and v [.., kv_heads, hd]."""
        c = self.config
        heads = self.qkv(self.input_norm(x)).unflatten(-1, (-1, c.head_dim))
        q, k, v = heads.split([c.num_heads, c.num_kv_heads, c.num_kv_heads], -2)
        if c.has_qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        return rotate(q, cos, sin), rotate(k, cos, sin), v

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """x [.., d], attended [.., heads * hd] -> the layer's output [.., d]."""
        x = x + self.o(attended)
        gate, up = self.gate_up(self.post_norm(x)).chunk(2, -1)
        y: Tensor = x + self.down(functional.silu(gate) * up)
        return y


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions in the half-split layout of Hugging Face (RoFormer, arXiv 2104.09864).

    x [.., heads, hd]; cos is [c, c] and sin [-s, s], [.., 1, hd]: three operations, not seven.
    """
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, -1), sin)


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention; q [B, heads, T, hd], k and v [B, kv_heads, T, hd] -> [B, heads, T, hd]."""
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def attend_packed(q: Tensor, k: Tensor, v: Tensor, lengths: Sequence[int]) -> Tensor:
    """The same within each document; q [heads, N, hd], k and v [kv_heads, N, hd], N = sum(lengths).

    Split, not sliced: the gradient of a split is one concatenation, of each slice a full-size zero.
    """
    parts = [t[None].split_with_sizes(list(lengths), 2) for t in (q, k, v)]
    return torch.cat([attend(q, k, v) for q, k, v in zip(*parts, strict=True)], 2)[0]


class Model(nn.Module):
    cos: Tensor
    sin: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        c = self.config = config
        self.embed = Embedding(c.vocab_size, c.width)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.num_layers))
        self.norm = nn.RMSNorm(c.width, eps=c.norm_eps)
        if not c.is_tied:
            self.head = Linear(c.width, c.vocab_size, bias=False)
        exponent = torch.arange(0, c.head_dim, 2, dtype=torch.float32) / c.head_dim
        angle = (
            torch.arange(c.max_positions, dtype=torch.float32)[:, None] * c.rope_theta**-exponent
        )
        cos, sin = angle.cos(), angle.sin()
        self.register_buffer("cos", torch.cat([cos, cos], -1), persistent=False)
        self.register_buffer("sin", torch.cat([-sin, sin], -1), persistent=False)

    def hidden(self, ids: Tensor, lengths: Sequence[int] | None = None) -> Tensor:
        """The training pass: states after the last norm, for `logits` where they are needed.

        Padded: ids [B, T] -> [B, T, d]; rows start at position 0, so padding belongs on the right.
        Packed: ids [N] and the lengths of its documents (sum N) -> [N, d]; positions restart with a
        document and attention stays inside it. Nothing is padded: faster where lengths differ.
        """
        documents = [ids.shape[-1]] if lengths is None else lengths
        positions = torch.cat([torch.arange(n) for n in documents])
        cos, sin = self.cos[positions, None], self.sin[positions, None]
        x: Tensor = self.embed(ids)
        for layer in self.each_layer():
            q, k, v = (
                t.transpose(-2, -3) for t in layer.project(x, cos, sin)
            )  # [.., heads, T, hd]
            attended = attend(q, k, v) if lengths is None else attend_packed(q, k, v, lengths)
            x = layer.finish(x, attended.transpose(-2, -3).flatten(-2))
        y: Tensor = self.norm(x)
        return y

    def logits(self, hidden: Tensor) -> Tensor:
        """[.., d] -> [.., vocabulary]."""
        return functional.linear(
            hidden, self.embed.weight if self.config.is_tied else self.head.weight
        )

    def each_layer(self) -> Iterator[Layer]:
        for layer in self.layers:
            assert isinstance(layer, Layer)
            yield layer

    def named_weights(self) -> dict[str, Tensor]:
        """Hugging Face's names -> views of the parameters: writing into a view loads it."""
        c = self.config
        weights = {
            "model.embed_tokens.weight": self.embed.weight.data,
            "model.norm.weight": self.norm.weight.data,
        }
        if not c.is_tied:
            weights["lm_head.weight"] = self.head.weight.data
        kv_rows = c.num_kv_heads * c.head_dim
        for i, layer in enumerate(self.each_layer()):
            rows = [c.num_heads * c.head_dim, kv_rows, kv_rows]
            q, k, v = layer.qkv.weight.data.split_with_sizes(rows)
            gate, up = layer.gate_up.weight.data.chunk(2)
            parts = {
                "self_attn.q_proj": q,
                "self_attn.k_proj": k,
                "self_attn.v_proj": v,
                "self_attn.o_proj": layer.o.weight.data,
                "mlp.gate_proj": gate,
                "mlp.up_proj": up,
                "mlp.down_proj": layer.down.weight.data,
                "input_layernorm": layer.input_norm.weight.data,
                "post_attention_layernorm": layer.post_norm.weight.data,
            }
            if c.has_qk_norm:
                parts["self_attn.q_norm"] = layer.q_norm.weight.data
                parts["self_attn.k_norm"] = layer.k_norm.weight.data
            weights |= {f"model.layers.{i}.{name}.weight": part for name, part in parts.items()}
        return weights


def read_config(model_dir: Path) -> ModelConfig:
    """Raises FileNotFoundError or ValueError."""
    return ModelConfig.parse(json.loads((Path(model_dir) / "config.json").read_text()))


def load_model(model_dir: Path) -> Model:
    """Raises FileNotFoundError or ValueError that say what is wrong with the directory."""
    model = Model(read_config(model_dir))
    load_weights(model, model_dir)
    return model


def load_weights(model: Model, model_dir: Path) -> None:
    """Replaces the weights of a model by those of a directory: all of them, or none and an error.

    Raises FileNotFoundError or ValueError; the files are read and checked before the first write.
    """
    model_dir = Path(model_dir)
    files = sorted(model_dir.glob("*.safetensors"))
    if not files:
        raise FileNotFoundError(f"no *.safetensors in {model_dir}")
    stored: dict[str, Tensor] = {}
    for file in files:
        try:
            stored |= load_file(file)
        except SafetensorError as error:
            raise ValueError(f"{file} is damaged: {error}") from error
    wanted = model.named_weights()
    missing = sorted(wanted.keys() - stored.keys())
    # A tied head may be stored all the same; old Llama exports carry the rotary table.
    unknown = [n for n in stored.keys() - wanted.keys() if n != "lm_head.weight"]
    unknown = sorted(n for n in unknown if not n.endswith("inv_freq"))
    if missing or unknown:
        raise ValueError(f"{model_dir}: weights missing {missing[:3]}, unknown {unknown[:3]}")
    for name, view in wanted.items():
        if view.shape != stored[name].shape:
            shapes = f"{tuple(stored[name].shape)}, expected {tuple(view.shape)}"
            raise ValueError(f"{model_dir}: {name} is {shapes}")
    for name, view in wanted.items():
        view.copy_(stored[name])


def save_model(model: Model, out_dir: Path, *, extra_from: Path | None = None) -> None:
    """Writes config.json and model.safetensors, and the tokenizer's files of `extra_from`.

    Plain writes: who publishes a directory makes that atomic.
    """
    out_dir = Path(out_dir)
    out_dir.mkdir(parents=True, exist_ok=True)
    (out_dir / "config.json").write_text(json.dumps(dict(model.config.source), indent=2) + "\n")
    weights = {name: view.contiguous() for name, view in model.named_weights().items()}
    save_file(weights, out_dir / "model.safetensors", metadata={"format": "pt"})
    for name in COMPANIONS if extra_from else ():
        file = Path(extra_from or "") / name
        if file.is_file() and file.resolve() != (out_dir / name).resolve():
            shutil.copyfile(file, out_dir / name)


def init_model(config: Mapping[str, Any], seed: int) -> Model:
    """A new model. Embeddings have std 0.1: at 0.02 branches of unit variance swamp the token."""
    model = Model(ModelConfig.parse(config))
    random = torch.Generator().manual_seed(seed)
    into_residual = 1 / math.sqrt(2 * model.config.num_layers)
    for name, view in model.named_weights().items():
        if view.dim() == 1:
            view.fill_(1.0)
            continue
        std = 0.1 if "embed_tokens" in name else 0.5 / math.sqrt(view.shape[1])
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            std *= into_residual
        view.normal_(0.0, std, generator=random)
    return model

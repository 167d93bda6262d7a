from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from workers.engines.reference.model import (
    Model,
    ModelConfig,
    init_model,
    load_model,
    load_weights,
    save_model,
)

SIZES: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}


def save_in_transformers(kind: str, out_dir: Path, **overrides: Any) -> Any:
    torch.manual_seed(3)
    config_class, model_class = {
        "qwen3": (Qwen3Config, Qwen3ForCausalLM),
        "llama": (LlamaConfig, LlamaForCausalLM),
    }[kind]
    model = model_class(config_class(**SIZES | overrides)).eval()
    for parameter in model.parameters():  # norms too: weights of one would hide a norm left out
        parameter.data.normal_(0.5 if parameter.dim() == 1 else 0.0, 0.3)
    model.save_pretrained(out_dir)
    return model


@pytest.mark.parametrize("is_tied", [True, False])
@pytest.mark.parametrize(
    ("kind", "overrides"),
    [
        ("qwen3", {"num_key_value_heads": 2, "head_dim": 16, "rope_theta": 5000.0}),
        ("qwen3", {"num_key_value_heads": 4, "head_dim": 8, "rms_norm_eps": 1e-5}),
        ("llama", {"num_key_value_heads": 1}),
        ("llama", {"num_key_value_heads": 4, "rope_theta": 500.0}),
    ],
)
def test_logits_equal_those_of_transformers(
    kind: str, overrides: dict[str, Any], is_tied: bool, tmp_path: Path
) -> None:
    theirs = save_in_transformers(kind, tmp_path, tie_word_embeddings=is_tied, **overrides)
    ours = load_model(tmp_path)
    ids = torch.randint(0, 97, (3, 40), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = theirs(ids).logits
        assert expected.std() > 0.1
        torch.testing.assert_close(ours.logits(ours.hidden(ids)), expected, atol=2e-4, rtol=1e-4)


def test_rope_theta_is_read_from_the_old_and_the_new_place() -> None:
    base = SIZES | {"model_type": "qwen3"}
    assert ModelConfig.parse(base | {"rope_theta": 7.0}).rope_theta == 7.0
    new = {"rope_parameters": {"rope_theta": 9.0, "rope_type": "default"}}
    assert ModelConfig.parse(base | new).rope_theta == 9.0


@pytest.mark.parametrize(
    "change",
    [
        {"model_type": "qwen2"},
        {"attention_bias": True},
        {"hidden_act": "gelu"},
        {"use_sliding_window": True},
        {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
        {"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5}},
    ],
)
def test_a_model_it_would_compute_wrongly_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"not supported|not computed"):
        ModelConfig.parse(SIZES | {"model_type": "llama"} | change)


@pytest.fixture
def model() -> Model:
    heads = {"num_key_value_heads": 2, "head_dim": 8, "tie_word_embeddings": True}
    return init_model(SIZES | heads | {"model_type": "qwen3", "torch_dtype": "float32"}, seed=5)


def test_a_packed_document_gives_what_it_gives_alone_values_and_gradients(model: Model) -> None:
    lengths = [17, 1, 40, 6]
    documents = [torch.randint(0, 97, (n,)) for n in lengths]

    def total(hidden: torch.Tensor) -> torch.Tensor:
        return model.logits(hidden).logsumexp(-1).sum()

    alone = torch.cat([model.hidden(ids[None])[0] for ids in documents])
    torch.autograd.backward(total(alone))
    gradients = {name: p.grad for name, p in model.named_parameters()}
    model.zero_grad(set_to_none=True)
    packed = model.hidden(torch.cat(documents), lengths)
    torch.autograd.backward(total(packed))
    torch.testing.assert_close(packed, alone, atol=1e-5, rtol=1e-5)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], atol=1e-4, rtol=1e-4)


def test_padding_on_the_right_changes_nothing(model: Model) -> None:
    ids = torch.randint(0, 97, (2, 20))
    changed = ids.clone()
    changed[:, 12:] = 0
    with torch.no_grad():
        torch.testing.assert_close(model.hidden(ids)[:, :12], model.hidden(changed)[:, :12])


def test_saved_weights_load_bitwise_and_carry_tokenizer_and_chat_format(
    model: Model, tmp_path: Path
) -> None:
    origin = tmp_path / "origin"
    origin.mkdir()
    (origin / "tokenizer.json").write_text("{}")
    (origin / "chat_format.json").write_text('{"a": 1}')
    save_model(model, tmp_path / "copy", extra_from=origin)
    assert (tmp_path / "copy" / "chat_format.json").read_text() == '{"a": 1}'
    assert json.loads((tmp_path / "copy" / "config.json").read_text()) == model.config.source
    again = load_model(tmp_path / "copy")
    for name, weight in model.named_weights().items():
        assert torch.equal(weight, again.named_weights()[name]), name


def test_what_we_save_opens_in_transformers(model: Model, tmp_path: Path) -> None:
    save_model(model, tmp_path)
    theirs = Qwen3ForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    ids = torch.randint(0, 97, (2, 30))
    with torch.no_grad():
        torch.testing.assert_close(
            model.logits(model.hidden(ids)), theirs(ids).logits, atol=1e-4, rtol=1e-4
        )


@pytest.mark.parametrize("fault", ["missing", "unknown", "shape", "damaged", "no_file"])
def test_weights_that_do_not_fit_are_refused_and_leave_the_model_as_it_was(
    model: Model, tmp_path: Path, fault: str
) -> None:
    before = {name: weight.clone() for name, weight in model.named_weights().items()}
    save_model(init_model(model.config.source, seed=6), tmp_path)
    file = tmp_path / "model.safetensors"
    weights = load_file(file)
    name = "model.layers.1.mlp.up_proj.weight"
    if fault == "missing":
        del weights[name]
    elif fault == "unknown":
        weights["model.layers.9.mlp.up_proj.weight"] = weights[name].clone()
    elif fault == "shape":
        weights[name] = weights[name][1:].clone()
    save_file(weights, file)
    if fault == "damaged":
        file.write_bytes(file.read_bytes()[:-100])
    if fault == "no_file":
        file.unlink()
    complaint = r"mlp\.up_proj|no \*\.safetensors|is damaged"
    with pytest.raises((ValueError, FileNotFoundError), match=complaint):
        load_weights(model, tmp_path)
    for name, weight in model.named_weights().items():
        assert torch.equal(weight, before[name]), name


def test_the_same_seed_gives_the_same_weights(model: Model) -> None:
    torch.rand(7)
    again = init_model(model.config.source, seed=5).named_weights()
    other = init_model(model.config.source, seed=6).named_weights()
    name = "model.layers.0.self_attn.q_proj.weight"
    assert torch.equal(model.named_weights()[name], again[name])
    assert not torch.equal(model.named_weights()[name], other[name])

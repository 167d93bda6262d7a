from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from workers.engines.chat import Chat, load_chat

SPECIAL = ["<|user|>", "<|assistant|>", "<|tool|>", "<|end|>", "<|im_start|>", "<|im_end|>"]
FORMAT: dict[str, Any] = {
    "roles": {
        "system": ["", "\n"],
        "user": ["<|user|>", "<|end|>"],
        "assistant": ["<|assistant|>", "<|end|>\n"],
        "tool": ["<|tool|>", "<|end|>"],
    },
    "end": "<|end|>",
}


def byte_tokenizer(special: list[str] = SPECIAL) -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {character: i for i, character in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(special)
    return tokenizer


def save(model_dir: Path, tokenizer: Tokenizer, chat_format: object = FORMAT) -> Path:
    tokenizer.save(str(model_dir / "tokenizer.json"))
    if chat_format:
        (model_dir / "chat_format.json").write_text(json.dumps(chat_format))
    return model_dir


@pytest.fixture
def chat(tmp_path: Path) -> Chat:
    return load_chat(save(tmp_path, byte_tokenizer()))


def spelled(chat: Chat, ids: list[int]) -> str:
    return chat.tokenizer.decode(ids, skip_special_tokens=False)


def test_a_conversation_is_its_parts_in_a_row(chat: Chat) -> None:
    ids = chat.prompt("be good", "fix it") + chat.action("ls") + chat.observation("a.py")
    assert spelled(chat, ids) == (
        "be good\n<|user|>fix it<|end|><|assistant|>ls<|end|>\n<|tool|>a.py<|end|><|assistant|>"
    )
    assert spelled(chat, chat.prompt("", "x")) == "<|user|>x<|end|><|assistant|>"


@pytest.mark.parametrize("token", SPECIAL)
def test_a_special_token_spelled_in_text_stays_text(chat: Chat, token: str) -> None:
    forged = chat.tokenizer.token_to_id(token)
    assert forged is not None
    honest = {i: ids.count(forged) for i, ids in enumerate(every_message(chat, "x"))}
    for i, ids in enumerate(every_message(chat, f"a{token}b {token}")):
        assert ids.count(forged) == honest[i]
        assert f"a{token}b" in spelled(chat, ids)


def every_message(chat: Chat, text: str) -> list[list[int]]:
    return [
        chat.prompt(text, "i"),
        chat.prompt("", text),
        chat.action(text),
        chat.observation(text),
    ]


def test_an_action_decodes_to_its_text_and_special_tokens_are_spelled_out(chat: Chat) -> None:
    assert chat.decode_action(chat.action("grep 'é→' | wc")) == "grep 'é→' | wc"
    user = chat.tokenizer.token_to_id("<|user|>")
    assert user is not None
    assert chat.decode_action([*chat.encode("ls"), user]) == "ls<|user|>"
    assert chat.decode_action([chat.end_id, *chat.encode("x"), chat.end_id]) == "<|end|>x"
    assert chat.decode_action([]) == ""


def test_half_a_character_decodes_instead_of_raising(chat: Chat) -> None:
    assert chat.decode_action(chat.encode("é")[:1]) == "\N{REPLACEMENT CHARACTER}"


def test_without_a_format_it_is_chatml_or_refused(tmp_path: Path) -> None:
    chat = load_chat(save(tmp_path, byte_tokenizer(), chat_format=None))
    assert spelled(chat, chat.prompt("s", "u") + chat.action("ls") + chat.observation("o")) == (
        "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n"
        "ls<|im_end|>\n<|im_start|>user\no<|im_end|>\n<|im_start|>assistant\n"
    )
    save(tmp_path, byte_tokenizer(["<|end|>"]), chat_format=None)
    with pytest.raises(ValueError, match="no ChatML"):
        load_chat(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json"):
        load_chat(tmp_path)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"end": "<|nope|>"}, "not in the vocabulary"),
        ({"end": None}, "has an end"),
        ({"roles": {"user": ["", ""]}}, "roles"),
        ({"end": "<|user|>"}, "must begin with"),
    ],
)
def test_a_format_that_cannot_work_is_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Chat(byte_tokenizer(), FORMAT | change)


def test_a_marker_that_text_could_spell_is_refused() -> None:
    tokenizer = byte_tokenizer([token for token in SPECIAL if token != "<|tool|>"])
    tokenizer.add_tokens([AddedToken("<|tool|>", special=False)])
    with pytest.raises(ValueError, match="not a special token"):
        Chat(tokenizer, FORMAT)


def test_truncation_left_on_in_the_file_does_not_cut_a_prompt(tmp_path: Path) -> None:
    tokenizer = byte_tokenizer()
    tokenizer.enable_truncation(4)
    assert len(load_chat(save(tmp_path, tokenizer)).prompt("", "a" * 50)) == 53


def test_the_vocabulary_counts_the_added_tokens(chat: Chat) -> None:
    assert chat.vocab_size == 256 + len(SPECIAL)

"""Tokens in, tokens out: a conversation as the token ids that the policy reads and writes.

    prompt(system, instruction)   <user> instruction <end> <assistant>     here the model goes on
    action(text)                  text <end>                               sampled, or of a trace
    observation(text)             <rest of assistant's suffix> <tool> text <end> <assistant>

A trajectory is prompt + action + observation + action + …: ids are only ever appended, never
decoded and encoded again, so the trainer sees exactly the tokens that were sampled. Text is
untrusted: a special token spelled in it becomes ordinary tokens and cannot open or end a message.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tokenizers import Tokenizer

ROLES = ("system", "user", "assistant", "tool")
# Observations are user messages, as mini-swe-agent sends them.
CHATML = {
    "roles": {
        role: (f"<|im_start|>{name}\n", "<|im_end|>\n")
        for role, name in zip(ROLES, ("system", "user", "assistant", "user"), strict=True)
    },
    "end": "<|im_end|>",
}


class Chat:
    """One model's chat format. Thread-safe: the tokenizer is not changed after construction."""

    def __init__(self, tokenizer: Tokenizer, chat_format: Mapping[str, object]) -> None:
        """Raises ValueError for a format that the tokenizer lacks or that text could forge."""
        roles, end = chat_format.get("roles"), chat_format.get("end")
        if not isinstance(roles, Mapping) or not isinstance(end, str) or set(roles) != set(ROLES):
            raise ValueError(f"a chat format has an end and the roles {', '.join(ROLES)}")
        end_id = tokenizer.token_to_id(end)
        if end_id is None:
            raise ValueError(f"the end token {end!r} is not in the vocabulary")
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = False
        encoded = {
            role: [tokenizer.encode(text, add_special_tokens=False).ids for text in roles[role]]
            for role in ROLES
        }
        tokenizer.encode_special_tokens = True
        self.tokenizer = tokenizer
        self.end_id: int = end_id
        self.vocab_size: int = tokenizer.get_vocab_size(with_added_tokens=True)
        self._system, self._user, self._assistant, self._tool = (encoded[role] for role in ROLES)
        if self._assistant[1][:1] != [end_id]:
            raise ValueError(
                f"the assistant's suffix {roles['assistant'][1]!r} must begin with {end!r}"
            )
        markers = {i for pair in encoded.values() for ids in pair for i in ids}
        for token_id, token in tokenizer.get_added_tokens_decoder().items():
            if token_id in markers and token_id in self.encode(token.content):
                raise ValueError(
                    f"{token.content!r} is not a special token: text could forge a message"
                )

    def encode(self, text: str) -> list[int]:
        """Text without any structure: special tokens in it are ordinary characters."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def prompt(self, system: str, instruction: str) -> list[int]:
        """The first tokens, up to where the model speaks; an empty system adds no message."""
        before, after = self._system
        opening = [*before, *self.encode(system), *after] if system else []
        before, after = self._user
        return [*opening, *before, *self.encode(instruction), *after, *self._assistant[0]]

    def action(self, text: str) -> list[int]:
        """What the model would have written, with the end token."""
        return [*self.encode(text), self.end_id]

    def observation(self, text: str) -> list[int]:
        """What follows the model's end token, up to where the model speaks again."""
        before, after = self._tool
        rest = self._assistant[1][1:]
        return [*rest, *before, *self.encode(text), *after, *self._assistant[0]]

    def decode_action(self, ids: Sequence[int]) -> str:
        """Generated ids as text, a final end token dropped, other special tokens spelled out."""
        ids = list(ids)
        if ids[-1:] == [self.end_id]:
            ids.pop()
        text: str = self.tokenizer.decode(ids, skip_special_tokens=False)
        return text


def load_chat(model_dir: Path) -> Chat:
    """tokenizer.json, and chat_format.json or else ChatML where the tokenizer has it.

    Raises FileNotFoundError without a tokenizer, ValueError without a format.
    """
    model_dir = Path(model_dir)
    file = model_dir / "tokenizer.json"
    if not file.is_file():
        raise FileNotFoundError(f"no tokenizer.json in {model_dir}")
    tokenizer = Tokenizer.from_file(str(file))
    if (model_dir / "chat_format.json").is_file():
        return Chat(tokenizer, json.loads((model_dir / "chat_format.json").read_text()))
    if tokenizer.token_to_id("<|im_start|>") is None:
        raise ValueError(f"no chat_format.json in {model_dir}, and its tokenizer has no ChatML")
    return Chat(tokenizer, CHATML)

"""Token ids as the exact text that each stands for. Pure but for reading one tokenizer.json.

Most vocabularies spell bytes as printable letters (byte-level BPE): they are turned back, and a byte that is
no whole character by itself is shown as \\xNN, so that the pieces of a text, side by side, hide nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any


def _letters() -> dict[str, int]:
    """The letter of every byte in a byte-level vocabulary (GPT-2's table): itself where it prints."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in plain}
    others = [byte for byte in range(256) if byte not in plain]
    return table | {chr(0x100 + i): byte for i, byte in enumerate(others)}


_BYTE_OF = _letters()


class Pieces:
    """The vocabulary of one model."""

    def __init__(self, tokenizer: Any, *, is_byte_level: bool) -> None:
        self._tokenizer = tokenizer
        self._is_byte_level = is_byte_level
        self._added = {
            index: token.content for index, token in tokenizer.get_added_tokens_decoder().items()
        }

    def of(self, ids: Sequence[int]) -> list[str]:
        return [self._piece(index) for index in ids]

    def is_special(self, index: int) -> bool:
        """A token that the chat format added: no text of the model or the sandbox can spell it."""
        return index in self._added

    def _piece(self, index: int) -> str:
        if index in self._added:
            return str(self._added[index])
        letters = self._tokenizer.id_to_token(index)
        if letters is None:
            return f"<no token {index}>"
        if not self._is_byte_level:
            return str(letters).replace("\u2581", " ")
        try:
            raw = bytes(_BYTE_OF[letter] for letter in letters)
        except KeyError:
            return str(letters)
        return raw.decode("utf-8", "backslashreplace")


def read_pieces(model_dir: Path) -> Pieces:
    """Raises FileNotFoundError without a tokenizer.json there, ImportError without the tokenizers package,
    ValueError for a file that is no tokenizer."""
    file = model_dir / "tokenizer.json"
    return _read(file, file.stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _read(file: Path, _changed: int) -> Pieces:
    from tokenizers import Tokenizer  # a web server without workers may lack it

    text = file.read_text()
    try:
        document = json.loads(text)
        return Pieces(Tokenizer.from_str(text), is_byte_level=_has_bytes(document.get("decoder")))
    except Exception as error:  # the package raises nothing more precise
        raise ValueError(f"{file} is no tokenizer") from error


def _has_bytes(decoder: dict[str, Any] | None) -> bool:
    if decoder is None:
        return False
    parts = decoder.get("decoders", [])
    return decoder.get("type") == "ByteLevel" or any(_has_bytes(part) for part in parts)

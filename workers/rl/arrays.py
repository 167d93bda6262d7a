"""The one blob of an attempt: tokens, mask, log-probabilities and weight versions.

    b"LTA1" | uint32 T | zlib(tokens i4[T] · mask u1[T] · logprobs f4[T] · versions i4[T])

Little-endian throughout. Columns instead of JSON: a 64K-token trajectory is at most 0.8 MB here and
2 MB as text, and the log-probabilities stay the sampler's own float32.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_HEADER = struct.Struct("<4sI")
_MAGIC = b"LTA1"
_COLUMNS: dict[str, np.dtype[Any]] = {
    "tokens": np.dtype("<i4"),
    "mask": np.dtype("u1"),
    "logprobs": np.dtype("<f4"),
    "versions": np.dtype("<i4"),
}
_ROW_BYTES = sum(dtype.itemsize for dtype in _COLUMNS.values())


@dataclass(frozen=True, eq=False)
class TrajectoryArrays:
    """Four columns of one length T, in the order in which the model saw the tokens.

    tokens    int32[T]    prompt, actions and observations
    mask      uint8[T]    1 where the policy sampled the token and it is trained
    logprobs  float32[T]  log mu(token) by the engine that sampled it; 0 where not sampled
    versions  int32[T]    weight version that sampled it; -1 where not sampled
    """

    tokens: NDArray[np.int32]
    mask: NDArray[np.uint8]
    logprobs: NDArray[np.float32]
    versions: NDArray[np.int32]

    def __post_init__(self) -> None:
        """Casts lists and wider types; raises ValueError where the columns do not fit together."""
        for name, dtype in _COLUMNS.items():
            column = np.asarray(getattr(self, name))
            if column.ndim != 1:
                raise ValueError(f"{name} has {column.ndim} dimensions, not one")
            object.__setattr__(self, name, column.astype(dtype, copy=False))
        lengths = {name: len(getattr(self, name)) for name in _COLUMNS}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the columns of a trajectory differ in length: {lengths}")
        if self.mask.size and self.mask.max() > 1:
            raise ValueError("mask holds a value other than 0 and 1")
        if np.any(self.versions[self.mask == 1] < 0):
            raise ValueError("a trained token has no weight version")

    def __len__(self) -> int:
        return len(self.tokens)


def encode(arrays: TrajectoryArrays) -> bytes:
    body = b"".join(getattr(arrays, name).tobytes() for name in _COLUMNS)
    return _HEADER.pack(_MAGIC, len(arrays)) + zlib.compress(body, 1)


def decode(blob: bytes) -> TrajectoryArrays:
    """The inverse of `encode`; raises ValueError for anything else (zlib checks its sum)."""
    if len(blob) < _HEADER.size or not blob.startswith(_MAGIC):
        raise ValueError("not a trajectory blob")
    _, length = _HEADER.unpack_from(blob)
    inflater = zlib.decompressobj()
    try:
        body = inflater.decompress(blob[_HEADER.size :], length * _ROW_BYTES + 1)
    except zlib.error as error:
        raise ValueError(f"corrupt trajectory blob: {error}") from error
    if len(body) != length * _ROW_BYTES or not inflater.eof:
        raise ValueError(f"corrupt trajectory blob: {len(body)} bytes for {length} tokens")
    columns: dict[str, NDArray[Any]] = {}
    start = 0
    for name, dtype in _COLUMNS.items():
        columns[name] = np.frombuffer(body, dtype, length, start)
        start += length * dtype.itemsize
    return TrajectoryArrays(**columns)

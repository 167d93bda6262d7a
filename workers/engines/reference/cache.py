"""Keys and values of sequences, kept by token prefix.

A slot holds one sequence: its tokens and, for the first `lengths[slot]` of them, keys and values. A
sequence that ended stays in its slot until the slot is the least recently used one. The next turn of a
trajectory begins with all of the last one, and siblings of a group with one prompt: both compute only
what is new.

Invariant: keys and values of a slot are those of its tokens under the weights loaded when they were
computed; `forget` drops all after an update.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from workers.engines.reference.forward import Rows
from workers.engines.reference.model import ModelConfig


class Cache:
    def __init__(self, config: ModelConfig, *, num_slots: int, context_length: int) -> None:
        """2 x 4 bytes x layers x kv_heads x head_dim per token; the system gives pages on first use."""
        shape = (config.num_layers, num_slots, context_length, config.num_kv_heads, config.head_dim)
        self.keys, self.values = torch.zeros(shape), torch.zeros(shape)
        self.tokens = np.zeros((num_slots, context_length), np.int32)
        self.lengths = np.zeros(num_slots, np.int64)
        self.is_taken = np.zeros(num_slots, bool)
        self._used_at = np.zeros(num_slots, np.int64)
        self._clock = 0

    def take(self, ids: Sequence[int]) -> tuple[int, int]:
        """A free slot for a sequence and how many of its first tokens are cached there already.

        At least the last token is left to compute: its state is what the caller wants.
        """
        wanted = np.asarray(ids, np.int32)
        differs = self.tokens[:, : len(wanted)] != wanted
        common = np.where(differs.any(1), differs.argmax(1), len(wanted))
        common = np.minimum(np.minimum(common, self.lengths), len(wanted) - 1)
        # Of equally long prefixes the one with least behind it.
        best = int((common * (self.tokens.shape[1] + 1) - self.lengths).argmax())
        num_cached = int(common[best])
        # A sequence that goes on takes its slot over. From any other one the shared part is copied:
        # that one is running, or may go on too.
        if self.is_taken[best] or self.lengths[best] > num_cached + 1:
            oldest = int(np.where(self.is_taken, np.iinfo(np.int64).max, self._used_at).argmin())
            if oldest != best:
                for store in (self.keys, self.values):
                    store[:, oldest, :num_cached] = store[:, best, :num_cached]
            best = oldest
        self.tokens[best, : len(wanted)] = wanted
        self.lengths[best] = num_cached
        self.is_taken[best] = True
        return best, num_cached

    def extended(self, rows: Rows) -> None:
        """Books what a forward pass wrote; `take` has booked the chunks' tokens."""
        d = rows.num_decoding
        starts = np.array(rows.starts)
        self.tokens[rows.slots[:d], starts[:d]] = rows.ids[:d].numpy()
        self.lengths[rows.slots] = starts + rows.counts

    def give_back(self, slot: int) -> None:
        """The sequence stays for a later one that begins with it."""
        self._clock += 1
        self._used_at[slot] = self._clock
        self.is_taken[slot] = False

    def forget(self) -> None:
        """After a weight update: nothing cached may be used again."""
        self.lengths[:] = 0

    @property
    def num_tokens(self) -> int:
        return int(self.lengths.sum())

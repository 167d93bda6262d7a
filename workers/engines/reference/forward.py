"""The engine's forward pass: new tokens of many sequences at once, on top of a KV cache.

    rows   [t][t][t] [t t t t t] [t t t]        decoding rows bring one token, the others a chunk
             └──┬──┘  └───┬───┘   └─┬─┘
    linear   all N tokens as one [N, d]         nothing is padded
    attention  together    each chunk alone     against the slot's cached keys and values

A token's state depends on its own slot only, so log-probabilities do not depend on who else is in the
batch (to rounding), and equal those of `Model.hidden` on the whole sequence.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from workers.engines.reference.model import Model


@dataclass(frozen=True)
class Rows:
    """Row r appends counts[r] tokens at positions starts[r]… of slot slots[r].

    ids [N] are the rows' tokens one row after the other; the first `num_decoding` rows have one each.
    """

    ids: Tensor
    slots: list[int]
    starts: list[int]
    counts: list[int]
    num_decoding: int


@torch.inference_mode()
def extend(model: Model, keys: Tensor, values: Tensor, rows: Rows) -> Tensor:
    """The state of each row's last token, [R, d]; every new token's key and value are cached.

    keys, values [layers, slots, context, kv_heads, hd].
    """
    starts, counts = np.array(rows.starts), np.array(rows.counts)
    ends = counts.cumsum()
    # Position of token n of row r: starts[r] + n - (where r begins in ids).
    positions = np.arange(len(rows.ids)) + (starts - ends + counts).repeat(counts)
    where = torch.from_numpy(np.array(rows.slots).repeat(counts) * keys.shape[2] + positions)
    at = torch.from_numpy(positions)
    cos, sin = model.cos[at, None], model.sin[at, None]
    sight = Sight(rows)
    x: Tensor = model.embed(rows.ids)
    last = len(model.layers) - 1
    for i, layer in enumerate(model.each_layer()):
        q, k, v = layer.project(x, cos, sin)
        keys[i].flatten(0, 1).index_copy_(0, where, k)
        values[i].flatten(0, 1).index_copy_(0, where, v)
        attended = sight.attend(q, keys[i], values[i])
        if i == last and len(x) > len(ends):
            final = torch.from_numpy(ends - 1)
            x, attended = x[final], attended[final]
        x = layer.finish(x, attended)
    y: Tensor = model.norm(x)
    return y


class Sight:
    """Which cached positions each new token sees: built once a pass, the same in every layer."""

    def __init__(self, rows: Rows) -> None:
        d = self.num_decoding = rows.num_decoding
        self.slots = torch.tensor(rows.slots[:d])
        self.span = max(rows.starts[:d], default=0) + 1
        starts = torch.tensor(rows.starts[:d])
        self.mask = (torch.arange(self.span) <= starts[:, None])[:, None, None]  # [D, 1, 1, span]
        self.chunks: list[tuple[int, int, Tensor]] = []  # slot, count, mask [count, start + count]
        for slot, start, count in zip(
            rows.slots[d:], rows.starts[d:], rows.counts[d:], strict=True
        ):
            end = start + count
            self.chunks.append(
                (slot, count, torch.arange(end) <= torch.arange(start, end)[:, None])
            )

    def attend(self, q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """q [N, heads, hd]; keys, values [slots, context, kv_heads, hd] -> [N, heads * hd]."""
        d = self.num_decoding
        parts = []
        if d:
            k = keys[:, : self.span].index_select(0, self.slots).transpose(1, 2)
            v = values[:, : self.span].index_select(0, self.slots).transpose(1, 2)
            # The query heads that share a key head stand where positions would: k, v stay as they are.
            grouped = q[:d].view(d, keys.shape[2], -1, q.shape[2])
            out = functional.scaled_dot_product_attention(grouped, k, v, self.mask)
            parts.append(out.flatten(1))
        first = d
        for slot, count, mask in self.chunks:
            chunk = q[first : first + count].transpose(0, 1)[None]
            k = keys[slot, : mask.shape[1]].transpose(0, 1)[None]
            v = values[slot, : mask.shape[1]].transpose(0, 1)[None]
            out = functional.scaled_dot_product_attention(chunk, k, v, mask, enable_gqa=True)
            parts.append(out[0].transpose(0, 1).flatten(1))
            first += count
        return torch.cat(parts) if len(parts) > 1 else parts[0]

"""Which documents share a forward pass, and where their trained tokens are in it.

A pack is the documents' tokens one after another, unpadded; attention stays inside a document:

    document 0   p p p a a o o a         p prompt, o observation, a trained (sampled by the policy)
    document 1   p p a a a
    ids          p p p a a o o │ p p a a         each up to its last trained token
    predictors       ^ ^     ^     ^ ^ ^         hidden states whose next token is trained
    targets          a a     a     a a a
    index            0 1     2     3 4 5         their places in the batch's flat columns

Per-token columns of a batch (log mu, lag, advantage ...) are flat arrays over its trained tokens in
the documents' order; `index` leads from a pack into them. So how a batch is cut into packs is
invisible to everything but the backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Document:
    """tokens int32[T]; positions int64[n]: where its trained tokens are, rising, from 1 on."""

    tokens: NDArray[np.int32]
    positions: NDArray[np.int64]

    @classmethod
    def masked(cls, tokens: NDArray[np.int32], mask: NDArray[np.generic]) -> Document:
        """Trains where mask is not 0; raises ValueError if that includes the first token."""
        positions = np.flatnonzero(mask)
        if len(positions) and positions[0] == 0:
            raise ValueError(
                "the first token of a trajectory is marked as sampled: nothing predicts it"
            )
        return cls(tokens, positions)

    @property
    def num_trained(self) -> int:
        return len(self.positions)

    @property
    def cost(self) -> int:
        """Tokens that go through the model: all before the last trained one."""
        return int(self.positions[-1]) if len(self.positions) else 0


@dataclass(frozen=True)
class Pack:
    """ids int64[N], lengths (sum N); predictors, targets, index: int64[n], n trained tokens."""

    ids: Tensor
    lengths: list[int]
    predictors: Tensor
    targets: Tensor
    index: Tensor


def plan(costs: Sequence[int], order: Sequence[int], budget: int) -> list[list[int]]:
    """Fills packs of at most `budget` tokens in the given order of document numbers.

    A document above the budget is a pack of its own; one of cost 0 (nothing to train) is in none.
    """
    packs: list[list[int]] = []
    room = 0
    for i in order:
        if costs[i] == 0:
            continue
        if not packs or costs[i] > room:
            packs.append([])
            room = budget
        packs[-1].append(i)
        room -= costs[i]
    return packs


def pack(documents: Sequence[Document], chosen: Sequence[int]) -> Pack:
    """Packs documents[i] for i in chosen, in that order; each must have a trained token."""
    first = np.concatenate([[0], np.cumsum([d.num_trained for d in documents])])
    start = 0
    ids, lengths, predictors, targets, index = [], [], [], [], []
    for i in chosen:
        document = documents[i]
        ids.append(document.tokens[: document.cost])
        lengths.append(document.cost)
        predictors.append(document.positions - 1 + start)
        targets.append(document.tokens[document.positions])
        index.append(np.arange(first[i], first[i + 1]))
        start += document.cost
    return Pack(
        ids=_int64(ids),
        lengths=lengths,
        predictors=_int64(predictors),
        targets=_int64(targets),
        index=_int64(index),
    )


def packs(
    documents: Sequence[Document], budget: int, order: Sequence[int] | None = None
) -> list[Pack]:
    """`plan` and `pack` in one; order defaults to all documents as they come."""
    order = range(len(documents)) if order is None else order
    return [pack(documents, chosen) for chosen in plan([d.cost for d in documents], order, budget)]


def document_of(documents: Sequence[Document]) -> Tensor:
    """int64[n]: for each trained token of the batch the number of its document."""
    counts = [d.num_trained for d in documents]
    return torch.repeat_interleave(torch.arange(len(documents)), torch.tensor(counts))


def _int64(parts: Sequence[NDArray[np.generic]]) -> Tensor:
    return torch.from_numpy(np.concatenate(parts).astype(np.int64))

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workers.rl.packing import Document, document_of, pack, packs, plan


def document(tokens: list[int], mask: list[int]) -> Document:
    return Document.masked(np.array(tokens, np.int32), np.array(mask))


documents = st.lists(
    st.lists(st.integers(0, 1), max_size=12).map(
        lambda mask: document(list(range(100, 101 + len(mask))), [0, *mask])
    ),
    max_size=8,
)


def test_a_pack_holds_two_documents_as_the_picture_says() -> None:
    first = document(
        [10, 11, 12, 13, 14, 15], [0, 0, 1, 1, 0, 0]
    )  # the last observation is not fed
    second = document([20, 21, 22], [0, 1, 1])
    packed = pack([first, second], [0, 1])
    assert packed.ids.tolist() == [10, 11, 12, 20, 21]
    assert packed.lengths == [3, 2]
    assert packed.predictors.tolist() == [1, 2, 3, 4]
    assert packed.targets.tolist() == [12, 13, 21, 22]
    assert packed.index.tolist() == [0, 1, 2, 3]
    assert document_of([first, second]).tolist() == [0, 0, 1, 1]


def test_a_pack_of_some_documents_points_to_their_place_in_the_batch() -> None:
    batch = [document([1, 2, 3], [0, 1, 1]), document([4, 5], [0, 1]), document([6, 7], [0, 1])]
    packed = pack(batch, [2, 0])
    assert packed.index.tolist() == [3, 0, 1]
    assert packed.targets.tolist() == [7, 2, 3]


def test_a_sampled_first_token_is_refused() -> None:
    with pytest.raises(ValueError, match="first token"):
        document([1, 2], [1, 1])


def test_a_document_above_the_budget_is_alone_and_one_without_trained_tokens_is_nowhere() -> None:
    assert plan([3, 50, 0, 4, 4], range(5), 8) == [[0], [1], [3, 4]]


@given(documents, st.integers(1, 40), st.randoms(use_true_random=False))
def test_every_trained_token_is_in_exactly_one_pack_whatever_the_budget(
    batch: list[Document], budget: int, rng: np.random.Generator
) -> None:
    order = list(range(len(batch)))
    rng.shuffle(order)
    result = packs(batch, budget, order)
    index = torch.cat([p.index for p in result]) if result else torch.tensor([])
    assert sorted(index.tolist()) == list(range(sum(d.num_trained for d in batch)))
    trained = [int(token) for d in batch for token in d.tokens[d.positions]]
    for p in result:
        assert len(p.ids) == sum(p.lengths)
        assert len(p.ids) <= budget or len(p.lengths) == 1
        assert p.targets.tolist() == [trained[i] for i in p.index.tolist()]
        # tokens of a test document count up by one, so the predictor sits right before its target
        assert (p.ids[p.predictors] + 1).tolist() == p.targets.tolist()

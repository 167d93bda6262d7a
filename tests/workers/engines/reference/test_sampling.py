from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from workers.engines.reference.sampling import Sampling, pick, sample, uniform

LOGITS = torch.tensor([[2.0, 1.0, 0.0, -1.0, -30.0, 1.0]])


def draw(num: int, **params: Any) -> tuple[torch.Tensor, list[float]]:
    """How often each of the six tokens comes in `num` draws, and their log-probabilities."""
    sampling = [Sampling.parse(params)] * num
    tokens, log_probs = sample(LOGITS.repeat(num, 1), sampling, range(num), [5] * num)
    return torch.bincount(torch.tensor(tokens), minlength=6) / num, log_probs


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_come_as_often_as_the_tempered_distribution_says(temperature: float) -> None:
    frequency, log_probs = draw(40_000, temperature=temperature)
    expected = (LOGITS[0] / temperature).softmax(-1)
    torch.testing.assert_close(frequency, expected, atol=0.01, rtol=0)
    assert set(np.round(log_probs, 4)) <= set(np.round(expected.log().tolist(), 4))


@pytest.mark.parametrize(
    ("params", "allowed"),
    [
        ({"top_k": 1}, {0}),
        ({"top_k": 2}, {0, 1}),
        ({"top_p": 0.5}, {0}),
        ({"top_p": 0.6}, {0, 1}),
        ({"min_p": 0.3}, {0, 1, 5}),
        ({"top_k": 3, "top_p": 0.99, "min_p": 0.1}, {0, 1, 5}),
        ({"temperature": 0}, {0}),
    ],
)
def test_narrowing_keeps_the_likeliest_and_the_whole_vocabularys_log_probs(
    params: dict[str, Any], allowed: set[int]
) -> None:
    frequency, log_probs = draw(2_000, **params)
    assert set(frequency.nonzero()[:, 0].tolist()) == allowed
    whole = LOGITS[0].log_softmax(-1)
    assert max(log_probs) == pytest.approx(float(whole.max()), abs=1e-5)


def test_narrowed_and_plain_rows_share_a_batch() -> None:
    rows = [Sampling(), Sampling(top_k=1), Sampling(temperature=0), Sampling(temperature=0.01)]
    tokens, _ = sample(LOGITS.repeat(4, 1), rows, [1, 2, 3, 4], [0] * 4)
    assert tokens[1:] == [0, 0, 0]


def test_a_token_that_cannot_be_is_never_drawn_even_at_the_ends_of_the_interval() -> None:
    logits = torch.full((3, 8), -torch.inf)
    logits[:, 3:5] = 0.0
    weights = logits.softmax(-1) * torch.tensor([[1.0], [0.3], [7.7]])
    for number in (0.0, 0.5, 1 - 2.0**-52):  # the last is the largest that `uniform` gives
        tokens = pick(weights, torch.full((3,), number, dtype=torch.float64))
        assert set(tokens[:, 0].tolist()) <= {3, 4}
    drawn, _ = sample(logits.repeat(1000, 1), [Sampling()] * 3000, range(3000), [0] * 3000)
    assert set(drawn) == {3, 4}


def test_a_draw_depends_on_seed_and_position_only() -> None:
    assert uniform([1, 2], [7, 7])[0] == uniform([9, 1], [7, 7])[1]
    numbers = uniform([3] * 10_000, range(10_000))
    assert len(set(numbers)) == 10_000
    counts = np.histogram(numbers, 10, (0, 1))[0]
    assert counts.min() > 850
    assert uniform([2**64 - 1], [5])[0] < 1


@pytest.mark.parametrize(
    "params",
    [
        {"temperature": -1},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"temperature": True},
        {"top_p": 1.5},
        {"min_p": -0.1},
        {"top_k": 0},
        {"max_new_tokens": 2.5},
        {"stop_token_ids": ["a"]},
        {"frequency_penalty": 0.5},
        {"unheard_of": None} | {"unheard_of_too": 1},
    ],
    ids=str,
)
def test_what_is_no_sampling_parameter_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(reversed(params))):
        Sampling.parse(params)


def test_null_and_neutral_values_are_the_defaults() -> None:
    given: dict[str, Any] = {
        "temperature": None,
        "stop": [],
        "repetition_penalty": 1.0,
        "n": 1,
        "regex": None,
    }
    assert Sampling.parse(given | {"skip_special_tokens": False}) == Sampling()

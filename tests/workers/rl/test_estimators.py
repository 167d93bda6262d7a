from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workers.rl.estimators import effective_sample_size, mismatch


def test_equal_weights_count_fully_and_one_ruling_weight_counts_as_one() -> None:
    assert effective_sample_size(torch.tensor([3.0, 3.0, 3.0])) == pytest.approx(1.0)
    assert effective_sample_size(torch.tensor([1.0, 0.0, 0.0, 0.0])) == pytest.approx(0.25)
    assert effective_sample_size(torch.tensor([1.0, 2.0])) == pytest.approx(9 / 10)


def test_a_sample_that_was_masked_away_has_size_zero_and_no_sample_has_none() -> None:
    assert effective_sample_size(torch.zeros(3)) == 0.0
    assert math.isnan(effective_sample_size(torch.zeros(0)))


@given(st.lists(st.floats(0.015625, 64, width=32), min_size=1, max_size=50), st.floats(0.5, 8))
def test_the_effective_share_lies_between_one_nth_and_one_and_ignores_the_unit(
    weights: list[float], unit: float
) -> None:
    w = torch.tensor(weights, dtype=torch.float64)
    ess = effective_sample_size(w)
    assert 1 / len(weights) - 1e-9 <= ess <= 1 + 1e-9
    assert effective_sample_size(w * unit) == pytest.approx(ess)


def test_token_means_and_trajectory_means_differ_as_computed_by_hand() -> None:
    raw = torch.tensor([1.0, 2.0, 4.0])
    prox, mu = torch.zeros(3), -raw.log()
    metrics = mismatch(
        prox, mu, raw, raw.clamp(max=2), torch.tensor([0, 0, 2]), torch.tensor([0, 0, 1])
    )
    log2 = math.log(2)
    assert metrics == pytest.approx(
        {
            "train/logprob_gap": (0 + log2 + 2 * log2) / 3,
            "train/ess": 49 / (3 * 21),
            "train/ess_truncated": 25 / (3 * 9),
            "train/logprob_gap/lag_0": log2 / 2,
            "train/ess/lag_0": 9 / 10,
            "train/ess_truncated/lag_0": 9 / 10,
            "train/logprob_gap/lag_2": 2 * log2,
            "train/ess/lag_2": 1.0,
            "train/ess_truncated/lag_2": 1.0,
            "train/logprob_gap_seq": (log2 / 2 + 2 * log2) / 2,
            "train/ess_seq": (9 / 10 + 1) / 2,
        }
    )


def test_a_nan_is_reported() -> None:
    nan = torch.tensor([math.nan, 1.0])
    metrics = mismatch(nan, torch.zeros(2), nan, nan, torch.tensor([0, 1]), torch.tensor([0, 1]))
    assert math.isnan(metrics["train/logprob_gap"])
    assert math.isnan(metrics["train/ess_seq"])
    assert math.isnan(metrics["train/ess/lag_0"])
    assert metrics["train/ess/lag_1"] == 1.0

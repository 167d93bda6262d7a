from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from workers.rl.losses import Objective, correction_weights, policy_loss, token_scale


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)


def loss_of(
    ratios: list[float], advantages: list[float], document: list[int] | None = None, **keys: Any
) -> tuple[Tensor, Tensor, int]:
    """The loss with scale 1 and w 1, its gradient by log pi, and the number of clipped tokens."""
    logprobs = torch.tensor(ratios).log().requires_grad_()
    ones, zeros = torch.ones(len(ratios)), torch.zeros(len(ratios))
    numbers = torch.tensor(document or [0] * len(ratios))
    loss, num_clipped = policy_loss(
        logprobs, zeros, ones, column(*advantages), ones, numbers, Objective(**keys)
    )
    (grad,) = torch.autograd.grad(loss, logprobs)
    return loss.detach(), grad, num_clipped


def test_inside_the_clip_the_gradient_is_ratio_times_advantage() -> None:
    loss, grad, num_clipped = loss_of([1.0, 1.1, 0.9], [2.0, 2.0, -1.0])
    assert float(loss) == pytest.approx(-(2.0 + 2.2 - 0.9))
    assert grad.tolist() == pytest.approx([-2.0, -2.2, 0.9])
    assert num_clipped == 0


def test_clip_higher_lets_good_tokens_rise_further_than_bad_ones_fall() -> None:
    # 1.25 <= 1.28 is free, 1.3 is clipped to 1.28; 0.75 < 0.8 is clipped for a bad token only
    loss, grad, num_clipped = loss_of([1.25, 1.3, 0.75, 0.75], [1.0, 1.0, -1.0, 1.0])
    assert float(loss) == pytest.approx(-(1.25 + 1.28 - 0.8 + 0.75))
    assert grad.tolist() == pytest.approx([-1.25, 0.0, 0.0, -0.75])
    assert num_clipped == 2


def test_a_bad_token_that_rose_is_pushed_back_without_limit() -> None:
    _, grad, num_clipped = loss_of([5.0], [-1.0])
    assert grad.tolist() == pytest.approx([5.0])
    assert num_clipped == 0


def test_gspo_clips_whole_sequences_by_the_geometric_mean_of_their_ratios() -> None:
    # document 0: sqrt(2.0 * 0.5) = 1 is free, both tokens alone are not; document 1: 1.5 is clipped
    loss, grad, num_clipped = loss_of(
        [2.0, 0.5, 1.5, 1.5], [1.0] * 4, [0, 0, 1, 1], level="sequence"
    )
    assert float(loss) == pytest.approx(-(1.0 + 1.0 + 1.28 + 1.28))
    assert grad.tolist() == pytest.approx([-1.0, -1.0, 0.0, 0.0])
    assert num_clipped == 2


def test_tis_truncates_icepop_masks_and_none_ignores_the_importance_weight() -> None:
    prox, mu = column(0.0, 0.0, 0.0), column(*(-math.log(w) for w in (0.4, 1.5, 5.0)))
    for keys, expected in (
        ({"correction": "tis"}, [0.4, 1.5, 2.0]),
        ({"correction": "tis", "tis_cap": 1.2}, [0.4, 1.2, 1.2]),
        ({"correction": "icepop"}, [0.0, 1.5, 0.0]),
        ({"correction": "none"}, [1.0, 1.0, 1.0]),
    ):
        raw, used = correction_weights(prox, mu, Objective.parse(keys))
        assert raw.tolist() == pytest.approx([0.4, 1.5, 5.0])
        assert used.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("correction", ["tis", "icepop"])
def test_a_nan_log_probability_is_not_hidden_by_the_correction(correction: str) -> None:
    raw, used = correction_weights(column(math.nan), column(0.0), Objective(correction=correction))
    assert math.isnan(raw)
    assert math.isnan(used)


def test_the_weight_is_detached_and_multiplies_the_clipped_loss() -> None:
    logprobs = column(math.log(1.5)).requires_grad_()
    prox = column(0.0).requires_grad_()
    _, used = correction_weights(prox, column(-math.log(1.8)), Objective())
    assert not used.requires_grad
    loss, _ = policy_loss(
        logprobs, prox.detach(), used, column(1.0), column(1.0), torch.tensor([0]), Objective()
    )
    assert float(loss.detach()) == pytest.approx(-1.8 * 1.28)


DOCUMENT = torch.tensor([0, 0, 0, 1, 2, 2])
ADVANTAGES = column(1.0, 0.0, -1.0)
EVERY = torch.tensor([True] * 3)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"loss_agg": "token_mean"}, [1 / 6] * 6),
        ({"loss_agg": "token_mean", "denominator": "nonzero"}, [1 / 5] * 3 + [0] + [1 / 5] * 2),
        ({"loss_agg": "sequence_mean"}, [1 / 9] * 3 + [1 / 3] + [1 / 6] * 2),
        ({"loss_agg": "sequence_mean", "denominator": "nonzero"}, [1 / 6] * 3 + [0] + [1 / 4] * 2),
        ({"loss_agg": "constant", "loss_constant": 10}, [1 / 30] * 6),
        (
            {"loss_agg": "constant", "loss_constant": 10, "denominator": "nonzero"},
            [1 / 20] * 3 + [0] + [1 / 20] * 2,
        ),
    ],
)
def test_each_aggregation_gives_a_token_its_share(
    keys: dict[str, Any], expected: list[float]
) -> None:
    scale = token_scale(DOCUMENT, ADVANTAGES, EVERY, Objective(**keys))
    assert scale.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("loss_agg", ["token_mean", "sequence_mean"])
def test_a_batch_without_any_advantage_has_scale_zero_not_nan(loss_agg: str) -> None:
    objective = Objective(loss_agg=loss_agg, denominator="nonzero")
    scale = token_scale(DOCUMENT, torch.zeros(3), EVERY, objective)
    assert scale.tolist() == [0.0] * 6


def test_only_the_sequences_of_an_optimizer_step_are_in_its_denominator() -> None:
    chosen = torch.tensor([False, True, True])
    scale = token_scale(DOCUMENT, ADVANTAGES, chosen, Objective())
    assert scale.tolist() == pytest.approx([0, 0, 0, 1 / 3, 1 / 3, 1 / 3])
    scale = token_scale(DOCUMENT, ADVANTAGES, chosen, Objective(loss_agg="sequence_mean"))
    assert scale.tolist() == pytest.approx([0, 0, 0, 1 / 2, 1 / 4, 1 / 4])


@pytest.mark.parametrize(
    ("algorithm", "reason"),
    [
        ({"loss_agg": "mean"}, "loss_agg is 'mean', not one of token_mean"),
        ({"correction": "mis"}, "correction is 'mis'"),
        ({"loss_agg": "constant"}, "needs a loss_constant"),
    ],
)
def test_an_algorithm_that_cannot_be_is_refused(algorithm: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Objective.parse(algorithm)


def test_parse_takes_its_own_keys_and_leaves_the_others() -> None:
    parsed = Objective.parse({"clip_high": 0.3, "advantage": "grpo", "loss_constant": None})
    assert parsed == Objective(clip_high=0.3)


tokens = st.tuples(
    st.integers(0, 3),  # document
    st.floats(-1, 1),  # log pi - log pi_prox
    st.floats(-1, 1),  # log pi_prox - log mu
    st.booleans(),  # trained or masked
)


@given(
    st.lists(tokens, min_size=1, max_size=24),
    st.lists(st.floats(-2, 2), min_size=4, max_size=4),
    st.sampled_from(["token", "sequence"]),
    st.sampled_from(["token_mean", "sequence_mean", "constant"]),
    st.sampled_from(["tis", "icepop", "none"]),
    st.lists(st.integers(0, 2), min_size=4, max_size=4),
)
def test_cutting_the_batch_into_packs_changes_neither_loss_nor_gradient(
    rows: list[tuple[int, float, float, bool]],
    sequence_advantages: list[float],
    level: str,
    loss_agg: str,
    correction: str,
    pack_of_document: list[int],
) -> None:
    objective = Objective(level=level, loss_agg=loss_agg, correction=correction, loss_constant=7.0)
    rows = sorted(rows)
    document = torch.tensor([row[0] for row in rows])
    prox = torch.zeros(len(rows))
    mu = -column(*(row[2] for row in rows))
    advantages = column(*sequence_advantages)
    every = torch.tensor([True] * 4)
    is_trained = column(*(row[3] for row in rows))
    scale = token_scale(document, advantages, every, objective) * is_trained
    _, weights = correction_weights(prox, mu, objective)

    def gradient(parts: list[Tensor]) -> tuple[float, Tensor]:
        logprobs = column(*(row[1] for row in rows)).requires_grad_()
        total = torch.zeros(())
        for i in parts:
            columns = (logprobs[i], prox[i], weights[i], advantages[document][i], scale[i])
            total = total + policy_loss(*columns, document[i], objective)[0]
        (grad,) = torch.autograd.grad(total, logprobs)
        return float(total.detach()), grad

    packs = torch.tensor(pack_of_document)[document]
    parts = [torch.nonzero(packs == p).flatten() for p in range(3)]
    whole, whole_grad = gradient([torch.arange(len(rows))])
    cut, cut_grad = gradient([part for part in parts if len(part)])
    assert cut == pytest.approx(whole, rel=1e-4, abs=1e-5)
    assert torch.allclose(cut_grad, whole_grad, rtol=1e-4, atol=1e-6)
    if level == "token":
        assert all(float(g) == 0 for g, row in zip(whole_grad, rows, strict=True) if not row[3])

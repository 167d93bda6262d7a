from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.advantages import Estimator, default_min_valid, group_advantages, group_statistics

ESTIMATORS: tuple[Estimator, ...] = ("grpo", "dr_grpo", "rloo")
rewards_of_a_group = st.lists(
    st.one_of(st.none(), st.floats(-5, 5, allow_nan=False)), min_size=2, max_size=16
).filter(lambda rewards: sum(r is not None for r in rewards) >= 2)


def test_grpo_divides_by_the_deviation_with_n_minus_one() -> None:
    # mean 1/4, squared deviations 9/16 + 3/16 = 3/4, std = sqrt(3/4 / 3) = 1/2
    advantages = group_advantages([1.0, 0.0, 0.0, 0.0])
    assert advantages == pytest.approx([1.5, -0.5, -0.5, -0.5], abs=1e-5)
    assert advantages[0] == 0.75 / (0.5 + 1e-6)


def test_dr_grpo_only_centres() -> None:
    assert group_advantages([1.0, 0.0, 0.0, 0.0], "dr_grpo") == [0.75, -0.25, -0.25, -0.25]


def test_rloo_subtracts_the_mean_of_the_others() -> None:
    assert group_advantages([1.0, 0.0, 0.5], "rloo") == pytest.approx([0.75, -0.75, 0.0])


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_an_invalid_member_does_not_vote_and_has_no_advantage(estimator: Estimator) -> None:
    with_invalid = group_advantages([1.0, None, 0.0, 0.0, None, 0.0], estimator)
    assert [a for a in with_invalid if a is not None] == group_advantages([1, 0, 0, 0], estimator)
    assert [i for i, a in enumerate(with_invalid) if a is None] == [1, 4]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_equal_rewards_have_advantage_exactly_zero(estimator: Estimator) -> None:
    # 0.1 three times has a mean other than 0.1 in floating point
    assert group_advantages([0.1, None, 0.1, 0.1], estimator) == [0.0, None, 0.0, 0.0]


def test_too_few_valid_members_are_refused_with_the_numbers() -> None:
    with pytest.raises(ValueError, match="3 of 8 members are valid, 4 are needed"):
        group_advantages([1.0, 0.0, 1.0] + [None] * 5)
    with pytest.raises(ValueError, match="1 of 8 members are valid, 2 are needed"):
        group_advantages([1.0] + [None] * 7, min_valid=1)
    assert group_advantages([1.0, 0.0] + [None] * 6, "dr_grpo", min_valid=2)[:2] == [0.5, -0.5]


def test_half_of_the_group_must_be_valid_but_never_fewer_than_two() -> None:
    assert [default_min_valid(n) for n in (1, 2, 3, 4, 5, 8)] == [2, 2, 2, 2, 3, 4]


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_not_finite_is_refused(reward: float) -> None:
    with pytest.raises(ValueError, match="not finite"):
        group_statistics([1.0, reward])


def test_statistics_that_do_not_exist_are_nan() -> None:
    empty = group_statistics([None, None])
    assert (empty.num_members, empty.num_valid, empty.is_zero_variance) == (2, 0, False)
    assert math.isnan(empty.mean)
    assert math.isnan(empty.std)
    single = group_statistics([None, 0.5])
    assert single.mean == 0.5
    assert math.isnan(single.std)


def test_an_unknown_estimator_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown advantage estimator"):
        group_advantages([0.0, 1.0], "gae")  # type: ignore[arg-type]


@given(rewards_of_a_group, st.sampled_from(ESTIMATORS))
def test_advantages_of_valid_members_sum_to_zero_and_keep_their_order(
    rewards: list[float | None], estimator: Estimator
) -> None:
    advantages = group_advantages(rewards, estimator, min_valid=2)
    pairs = [(r, a) for r, a in zip(rewards, advantages, strict=True) if r is not None]
    assert all(a is not None for _, a in pairs)
    values = [a for _, a in pairs if a is not None]
    assert math.fsum(values) == pytest.approx(0, abs=1e-6 * max(1, *map(abs, values)))
    assert [a for _, a in sorted(pairs)] == sorted(values)


@given(rewards_of_a_group)
def test_statistics_agree_with_the_standard_library(rewards: list[float | None]) -> None:
    stats, valid = group_statistics(rewards), [r for r in rewards if r is not None]
    assert stats.num_valid == len(valid)
    assert stats.mean == pytest.approx(statistics.fmean(valid))
    assert stats.std == pytest.approx(statistics.stdev(valid), abs=1e-12)


@given(rewards_of_a_group)
def test_rloo_is_each_reward_minus_the_mean_of_the_others(rewards: list[float | None]) -> None:
    advantages = group_advantages(rewards, "rloo", min_valid=2)
    for i, (reward, advantage) in enumerate(zip(rewards, advantages, strict=True)):
        if reward is not None:
            others = [r for j, r in enumerate(rewards) if j != i and r is not None]
            assert advantage == pytest.approx(reward - statistics.fmean(others), abs=1e-9)

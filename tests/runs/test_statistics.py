from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.statistics import clustered_mean, paired_difference, pass_at_k, tail_share, wilson


def test_wilson_of_the_articles_base_model() -> None:
    low, high = wilson(29, 400)

    assert (round(low, 3), round(high, 3)) == (0.051, 0.102)


def test_nothing_solved_still_has_a_width() -> None:
    estimate = clustered_mean([0.0] * 48)

    assert (estimate.mean, estimate.low) == (0.0, 0.0)
    assert estimate.high == pytest.approx(wilson(0, 48)[1])
    assert 0.07 < estimate.high < 0.08


def test_everything_solved_still_has_a_width() -> None:
    estimate = clustered_mean([1.0] * 10)

    assert estimate.high == 1.0
    assert estimate.low < 0.8


def test_the_units_are_tasks_not_attempts() -> None:
    """Four equal attempts a task say no more than one: the interval must not shrink."""
    per_task = [1.0, 0.0] * 24

    estimate = clustered_mean(per_task)
    assert estimate.high - estimate.low == pytest.approx(2 * 1.96 * 0.5 / math.sqrt(48), rel=0.1)


def test_intervals_are_the_same_every_time() -> None:
    assert clustered_mean([0.25, 0.5, 1.0, 0.0]) == clustered_mean([0.25, 0.5, 1.0, 0.0])


def test_a_paired_difference_ignores_how_hard_the_tasks_are() -> None:
    before = [0.0, 0.25, 0.5, 0.75] * 6
    after = [value + 0.25 for value in before]

    assert paired_difference(before, after).low == pytest.approx(0.25)


@given(st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_pass_at_1_is_the_mean_and_pass_at_n_is_any(counts: tuple[int, int]) -> None:
    n, c = counts

    assert pass_at_k(n, c, 1) == pytest.approx(c / n)
    assert pass_at_k(n, c, n) == (1.0 if c else 0.0)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_an_interval_contains_its_mean(per_task: list[float]) -> None:
    estimate = clustered_mean(per_task)

    assert estimate.low - 1e-9 <= estimate.mean <= estimate.high + 1e-9


def test_the_tail_is_what_comes_after_nine_of_ten() -> None:
    assert tail_share([10.0] * 9 + [40.0]) == pytest.approx(0.75)
    assert tail_share([10.0] * 10) == 0.0
    assert tail_share([]) == 0.0

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.statistics import (
    clustered_mean,
    paired_difference,
    pass_all_k,
    pass_at_k,
    sign_flip_p,
    tail_share,
    wilson,
)


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


def test_all_of_k_is_what_is_left_when_every_draw_must_solve() -> None:
    """2 of 4 solved: of the 6 pairs one has both."""
    assert pass_all_k(4, 2, 1) == pytest.approx(0.5)
    assert pass_all_k(4, 2, 2) == pytest.approx(1 / 6)
    assert pass_all_k(4, 2, 3) == 0.0
    assert pass_all_k(3, 3, 3) == 1.0
    with pytest.raises(ValueError, match="not defined"):
        pass_all_k(2, 1, 3)


def test_four_tasks_that_all_improve_are_two_of_sixteen_signs() -> None:
    """|sum| is as large with all signs kept or all flipped: p = 2/16."""
    assert sign_flip_p([0.0] * 4, [0.5] * 4) == pytest.approx(0.125)


def test_signs_that_do_as_well_count_against_the_difference() -> None:
    """Differences 3, 1, -1: sums of the 8 signings are ±5, ±3 (twice each), ±1; |3| is reached by 6."""
    assert sign_flip_p([0, 0, 1], [3, 1, 0]) == pytest.approx(6 / 8)


def test_tasks_that_do_not_differ_change_no_p_value() -> None:
    assert sign_flip_p([0.0] * 4 + [0.7] * 50, [0.5] * 4 + [0.7] * 50) == pytest.approx(0.125)
    assert sign_flip_p([0.1, 0.2], [0.1, 0.2]) == 1.0


def test_many_tasks_are_drawn_and_never_give_zero() -> None:
    before, after = [0.0] * 40, [1.0] * 40
    assert sign_flip_p(before, after) == pytest.approx(1 / 10_001)
    assert sign_flip_p(before, after) == sign_flip_p(after, before)
    mixed = sign_flip_p([0.0, 1.0] * 10, [1.0, 0.0] * 10)
    assert mixed == 1.0

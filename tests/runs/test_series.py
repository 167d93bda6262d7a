"""Buckets lose nothing, smoothing knows nothing of them, and a resume undoes what it must."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.series import (
    POINT,
    Buckets,
    Floats,
    Points,
    Smoothing,
    bucketed,
    effective,
    first_steps,
    points_of,
    smoothed,
)

values = st.lists(st.floats(), max_size=60)
finite = st.floats(allow_nan=False, allow_infinity=False, width=32)
gaps = st.floats(min_value=0, max_value=100, allow_nan=False)
widths = st.integers(min_value=1, max_value=40)
SMOOTHINGS = [
    Smoothing("none"),
    Smoothing("mean", 1),
    Smoothing("mean", 10),
    Smoothing("median", 5),
    Smoothing("ema", 0.0),
    Smoothing("ema", 0.9),
]


def _points(rows: list[tuple[int, int, float]]) -> Points:
    """(resume, step, value); a second apart."""
    packed = np.array([(r, s, v, i) for i, (r, s, v) in enumerate(rows)], dtype=POINT)
    return points_of(packed.tobytes())


def _steps(num: int) -> Floats:
    return np.arange(num, dtype=np.float64)


@given(values, st.data(), widths)
def test_buckets_keep_the_extremes_the_counts_and_what_is_not_finite(
    found: list[float], data: st.DataObject, num: int
) -> None:
    x = np.cumsum(data.draw(st.lists(gaps, min_size=len(found), max_size=len(found))))
    v = np.array(found, dtype=np.float64)

    drawn = bucketed(x, v, num)

    known = v[np.isfinite(v)]
    assert len(drawn.x) <= num
    assert drawn.count.sum() == len(v)
    assert drawn.nan.sum() == np.isnan(v).sum()
    assert drawn.plus_inf.sum() == np.isposinf(v).sum()
    assert drawn.minus_inf.sum() == np.isneginf(v).sum()
    if len(known):
        assert np.nanmin(drawn.low) == known.min()
        assert np.nanmax(drawn.high) == known.max()
    _columns_agree(drawn)


def _columns_agree(drawn: Buckets) -> None:
    full = ~np.isnan(drawn.low)
    assert np.all(np.diff(drawn.x) >= 0)
    assert np.all(drawn.low[full] <= drawn.mean[full])
    assert np.all(drawn.mean[full] <= drawn.high[full])
    assert np.all(drawn.low[full] <= drawn.last[full])
    assert np.all(drawn.last[full] <= drawn.high[full])
    assert np.all((drawn.last_index >= 0) == full)


@given(values, widths)
def test_a_curve_shorter_than_the_buckets_comes_as_it_is(found: list[float], room: int) -> None:
    v = np.array(found, dtype=np.float64)

    drawn = bucketed(_steps(len(v)), v, len(v) + room)

    assert drawn.is_raw
    assert np.array_equal(drawn.last, np.where(np.isfinite(v), v, np.nan), equal_nan=True)
    assert drawn.count.tolist() == [1] * len(v)


def test_a_single_spike_among_a_hundred_thousand_points_is_kept() -> None:
    v = np.zeros(100_000)
    v[61_803] = 7.0
    v[61_804] = math.nan

    drawn = bucketed(_steps(len(v)), v, 400)

    assert len(drawn.x) == 400
    assert not drawn.is_raw
    at = int(np.nanargmax(drawn.high))
    assert drawn.high[at] == 7.0
    assert drawn.nan[at] == 1


def test_the_mean_of_a_bucket_of_huge_values_is_finite() -> None:
    v = np.full(8, 1.7e308)

    assert bucketed(_steps(8), v, 2).mean.tolist() == [1.7e308, 1.7e308]


def test_points_at_one_place_are_one_bucket() -> None:
    drawn = bucketed(np.full(9, 3.0), _steps(9), 4)

    assert (drawn.count.tolist(), drawn.low[0], drawn.high[0]) == ([9], 0.0, 8.0)


@given(st.lists(finite, min_size=1, max_size=60), widths)
def test_buckets_cannot_change_the_smoothed_line(found: list[float], num: int) -> None:
    v, x = np.array(found), _steps(len(found))
    drawn = bucketed(x, v, num)
    for method in SMOOTHINGS:
        whole = smoothed(v, x, method, np.arange(len(v)))

        line = smoothed(v, x, method, drawn.last_index)

        # numpy adds the rows of tables of different shapes in different orders
        rounding = 1e-9 * np.abs(v).max()
        assert line == pytest.approx(whole[drawn.last_index], rel=1e-9, abs=rounding)


@given(finite, st.integers(min_value=1, max_value=50), st.data())
def test_a_constant_stays_constant(value: float, num: int, data: st.DataObject) -> None:
    x = np.cumsum(data.draw(st.lists(gaps, min_size=num, max_size=num)))
    for method in SMOOTHINGS:
        line = smoothed(np.full(num, value), x, method, np.arange(num))

        assert line == pytest.approx(np.full(num, value), rel=1e-12)


@given(st.lists(st.floats(width=32), min_size=1, max_size=60))
def test_a_smoothed_line_has_a_gap_where_the_value_is_not_finite(found: list[float]) -> None:
    v = np.array(found)
    for method in SMOOTHINGS:
        line = smoothed(v, _steps(len(v)), method, np.arange(len(v)))

        assert np.array_equal(np.isnan(line), ~np.isfinite(v))


def test_smoothed_lines_by_hand() -> None:
    v, x, every = np.array([1.0, 2.0, math.nan, 6.0]), _steps(4), np.arange(4)

    def line(kind: str, amount: float) -> list[float]:
        found = smoothed(v, x, Smoothing(kind, amount), every)  # type: ignore[arg-type]
        return [round(value, 6) for value in found.tolist() if not math.isnan(value)]

    assert line("mean", 2) == [1.0, 1.5, 4.0]
    assert line("mean", 10) == [1.0, 1.5, 3.0]
    assert line("median", 3) == [1.0, 1.5, 2.0]
    # 6 lies two places after 2: what was before fades by 0.5 ** (2 / 1.5), in units of the median distance.
    past, fade = (1 * 0.5 ** (1 / 1.5) + 2, 0.5 ** (1 / 1.5) + 1), 0.5 ** (2 / 1.5)
    assert line("ema", 0.5)[-1] == round((past[0] * fade + 6) / (past[1] * fade + 1), 6)


def test_evenly_spaced_points_fade_by_the_weight_itself() -> None:
    v = np.array([0.0, 1.0, 1.0])

    line = smoothed(v, _steps(3), Smoothing("ema", 0.5), np.arange(3))

    assert line.tolist() == pytest.approx([0, 1 / 1.5, 1.5 / 1.75])


def test_a_later_life_counts_and_what_it_undid_is_apart() -> None:
    points = _points([(0, 1, 1.0), (0, 2, 2.0), (0, 3, 3.0), (0, 4, 4.0), (1, 3, 30.0)])

    kept, ghosts = effective(points, first_steps(points, {}))

    assert list(zip(kept.resume, kept.step, kept.value, strict=True)) == [
        (0, 1, 1.0),
        (0, 2, 2.0),
        (1, 3, 30.0),
    ]
    # Step 4 was undone too, although the new life has not reached it yet.
    assert list(zip(ghosts.step, ghosts.value, strict=True)) == [(3, 3.0), (4, 4.0)]


@pytest.mark.parametrize("late", [[], [(1, 6, 6.0)]])
def test_a_curve_that_is_seldom_reported_is_undone_where_the_later_life_began(
    late: list[tuple[int, int, float]],
) -> None:
    points = _points([(0, 1, 1.0), (0, 4, 4.0), *late])

    kept, ghosts = effective(points, first_steps(points, {0: 1, 1: 3}))

    assert kept.step.tolist() == [1, *(step for _, step, _ in late)]
    assert ghosts.step.tolist() == [4]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), unique=True, max_size=30))
def test_each_step_counts_once_and_no_point_is_lost(cursors: list[tuple[int, int]]) -> None:
    points = _points([(r, s, float(r)) for r, s in sorted(cursors)])

    kept, ghosts = effective(points, first_steps(points, {}))

    assert len(set(kept.step.tolist())) == len(kept)
    assert len(kept) + len(ghosts) == len(cursors)
    assert np.all(np.diff(kept.step) > 0)
    highest = {s: max(r for r, other in cursors if other == s) for _, s in cursors}
    assert all(highest[s] == r for r, s in zip(kept.resume, kept.step, strict=True))

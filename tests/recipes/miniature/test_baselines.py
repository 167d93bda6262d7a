from __future__ import annotations

import numpy as np
import pytest

from recipes.miniature.baselines import bootstrap, measure_baselines, solve_rates
from recipes.miniature.tasks import Task


class Toy(Task):
    """Four candidates: the second only satisfies the visible tests, the third repairs the bug."""

    def __init__(self) -> None:
        self.__dict__["candidates"] = (None,) * 4

    def outcome(self, candidate: int) -> tuple[str, float]:
        return [("FAILED 1/2", 0.0), ("OK", 0.0), ("OK", 1.0), ("timeout", 0.0)][candidate]


def test_blind_search_on_four_candidates_by_hand() -> None:
    rates = solve_rates(Toy(), 5)
    # a stop within k tries: 1 - C(2, k) / C(4, k); half of the stops are the repair
    assert rates["distinct"] == pytest.approx([1 / 4, 5 / 12, 1 / 2, 1 / 2, 1 / 2])
    assert rates["with_repetition"] == pytest.approx([(1 - 0.5**k) / 2 for k in range(1, 6)])
    assert rates["in_listed_order"] == [0.0, 0.0, 0.0, 0.0, 0.0]


def test_blind_search_agrees_with_a_simulation(tasks: list[Task]) -> None:
    task = tasks[1]
    rng = np.random.default_rng(0)
    num_candidates, cap, wins = len(task.candidates), 5, 0.0
    for _ in range(4000):
        for candidate in rng.permutation(num_candidates)[:cap]:
            result, reward = task.outcome(int(candidate))
            if result == "OK":
                wins += reward
                break
    assert solve_rates(task, cap)["distinct"][-1] == pytest.approx(wins / 4000, abs=0.03)


def test_the_interval_is_over_tasks() -> None:
    values = np.array([[0.0], [1.0]] * 24)
    low, high = bootstrap(values)
    assert low[0] == pytest.approx(0.354, abs=0.02)
    assert high[0] == pytest.approx(0.646, abs=0.02)
    low, high = bootstrap(np.full((48, 2), 0.25))
    assert low == pytest.approx([0.25, 0.25])
    assert high == pytest.approx([0.25, 0.25])


def test_the_baselines_rise_with_the_tries(tasks: list[Task]) -> None:
    baselines = measure_baselines(tasks[:10], 10)
    for name in ("distinct", "with_repetition", "in_listed_order"):
        rates = [point["pass_at_1"] for point in baselines[name]]
        assert [point["tries"] for point in baselines[name]] == list(range(1, 11))
        assert rates == sorted(rates)
        assert all(p["low"] <= p["pass_at_1"] <= p["high"] for p in baselines[name])
    assert baselines["distinct"][0] == baselines["with_repetition"][0]
    assert baselines["distinct"][9]["pass_at_1"] > baselines["with_repetition"][9]["pass_at_1"]

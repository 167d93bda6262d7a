"""What search without learning solves: the figures to put beside a policy's.

A searcher tries k candidates, stops and submits at the first `OK`, and is graded, like every
trajectory, in the state it leaves: after k failed tries that is a failing candidate, so it scores 0
whether or not it submits.

- `distinct`: candidates in any order, none twice.
- `with_repetition`: every try drawn from all candidates.
- `in_listed_order`: candidates 1, 2, 3 ...: the script that needs no model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recipes.miniature.tasks import Task

NUM_DRAWS = 10_000
BOOTSTRAP_SEED = 20_240_501


def solve_rates(task: Task, max_tries: int) -> dict[str, list[float]]:
    """Exact expected reward of each searcher on one task, for k = 1 .. max_tries."""
    outcomes = [task.outcome(k) for k in range(len(task.candidates))]
    n = len(outcomes)
    stops = [result == "OK" for result, _ in outcomes]
    num_stops = sum(stops)
    # given that a searcher stopped, each candidate that prints OK is equally likely
    good = sum(reward for _, reward in outcomes) / num_stops
    all_failed, distinct, repeated = 1.0, [], []
    for k in range(1, max_tries + 1):
        left = n - (k - 1)
        all_failed *= max(0, left - num_stops) / left if left > 0 else 0.0
        distinct.append((1 - all_failed) * good)
        repeated.append((1 - (1 - num_stops / n) ** k) * good)
    first = stops.index(True)
    listed = [outcomes[first][1] if first < k else 0.0 for k in range(1, max_tries + 1)]
    return {"distinct": distinct, "with_repetition": repeated, "in_listed_order": listed}


def bootstrap(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """95 % percentile intervals of the means over tasks; values [tasks, k] -> two of [k]."""
    draws = np.random.default_rng(BOOTSTRAP_SEED).multinomial(
        len(values), np.full(len(values), 1 / len(values)), size=NUM_DRAWS
    )
    low, high = np.percentile(draws @ values / len(values), [2.5, 97.5], axis=0)
    return low, high


def measure_baselines(tasks: Sequence[Task], max_tries: int) -> dict[str, Any]:
    """The content of baselines.json."""
    rates = [solve_rates(task, max_tries) for task in tasks]
    result: dict[str, Any] = {
        "tasks": len(tasks),
        "max_tries": max_tries,
        "mean_candidates": round(sum(len(t.candidates) for t in tasks) / len(tasks), 2),
        "interval": f"95 % task-clustered bootstrap, {NUM_DRAWS} draws",
    }
    for name in rates[0]:
        values = np.array([rate[name] for rate in rates])
        low, high = bootstrap(values)
        result[name] = [
            {
                "tries": k + 1,
                "pass_at_1": round(mean, 4),
                "low": round(low[k], 4),
                "high": round(high[k], 4),
            }
            for k, mean in enumerate(values.mean(axis=0))
        ]
    return result

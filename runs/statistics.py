"""Pure statistics of evaluations: estimates and intervals whose independent units are tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

NUM_DRAWS = 10_000
SEED = 20_260_101
Z95 = 1.959963984540054


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float


def wilson(successes: float, n: float) -> tuple[float, float]:
    """Wilson's 95 % score interval of a proportion (Wilson 1927). n must be positive."""
    p = successes / n
    centre = p + Z95**2 / (2 * n)
    half = Z95 * math.sqrt(p * (1 - p) / n + Z95**2 / (4 * n**2))
    scale = 1 + Z95**2 / n
    low = 0.0 if successes == 0 else (centre - half) / scale
    high = 1.0 if successes == n else (centre + half) / scale
    return low, high


def clustered_mean(per_task: Sequence[float]) -> Estimate:
    """Mean over tasks with a task-clustered percentile bootstrap (10,000 draws, fixed seed).

    per_task: [num_tasks] mean reward of each task's attempts, in [0, 1]. When none or all are solved the
    bootstrap has no width; then Wilson with n = tasks. Raises ValueError without tasks.
    """
    values = np.asarray(per_task, dtype=float)
    if values.size == 0:
        raise ValueError("an estimate needs at least one task")
    mean = float(values.mean())
    if mean in (0.0, 1.0):
        low, high = wilson(mean * values.size, values.size)
        return Estimate(mean, low, high)
    low, high = _bootstrap_interval(values)
    return Estimate(mean, low, high)


def paired_difference(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """Mean of second − first over the same tasks, task-clustered bootstrap. Same order, same length."""
    difference = np.asarray(second, dtype=float) - np.asarray(first, dtype=float)
    low, high = _bootstrap_interval(difference)
    return Estimate(float(difference.mean()), low, high)


def _bootstrap_interval(values: np.ndarray) -> tuple[float, float]:
    draws = np.random.default_rng(SEED).integers(0, values.size, size=(NUM_DRAWS, values.size))
    low, high = np.percentile(values[draws].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def pass_at_k(n: int, c: int, k: int) -> float:
    """Unbiased pass@k of c solved among n attempts: 1 − C(n−c, k)/C(n, k) (Chen et al. 2021)."""
    if not 0 <= c <= n or not 1 <= k <= n:
        raise ValueError(f"pass@{k} of {c} in {n} is not defined")
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def pass_all_k(n: int, c: int, k: int) -> float:
    """pass^k: the chance that k attempts drawn from n, c of them solved, are all solved: C(c, k)/C(n, k)
    (Yao et al. 2024, tau-bench)."""
    if not 0 <= c <= n or not 1 <= k <= n:
        raise ValueError(f"pass^{k} of {c} in {n} is not defined")
    return math.comb(c, k) / math.comb(n, k)


MAX_EXACT_SIGNS = 12


def sign_flip_p(first: Sequence[float], second: Sequence[float]) -> float:
    """Two-sided p-value of a paired permutation test over tasks: had the arms been alike, each task's difference
    could as well have the other sign. All 2^n signs up to 12 tasks that differ, else 10,000 draws (fixed seed,
    (hits + 1)/(draws + 1)). Same order, same length; 1 when no task differs."""
    difference = np.asarray(second, dtype=float) - np.asarray(first, dtype=float)
    difference = difference[difference != 0]  # a task without a difference has none to flip
    n = difference.size
    if n == 0:
        return 1.0
    observed = abs(difference.sum()) - 1e-9
    if n <= MAX_EXACT_SIGNS:
        bits = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
        return float(np.mean(np.abs((1 - 2 * bits) @ difference) >= observed))
    signs = np.random.default_rng(SEED).choice([-1.0, 1.0], size=(NUM_DRAWS, n))
    hits = int(np.count_nonzero(np.abs(signs @ difference) >= observed))
    return (hits + 1) / (NUM_DRAWS + 1)


def tail_share(durations_s: Sequence[float]) -> float:
    """Share of a window's rollout time after 90 % of its trajectories had finished (article, figure 5).

    durations_s: when each trajectory finished, seconds after the window began.
    """
    if not durations_s:
        return 0.0
    ends = sorted(durations_s)
    last = ends[-1]
    if last <= 0:
        return 0.0
    ninetieth = ends[math.ceil(0.9 * len(ends)) - 1]
    return (last - ninetieth) / last

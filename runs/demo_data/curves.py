"""What the trainer reports of one step: synthetic, with the article's levels (figure 9)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

SPIKE = 0.77


def training_metrics(
    rng: np.random.Generator,
    *,
    step: int,
    num_steps: int,
    is_zero_gradient: bool,
    is_broken: bool,
    lags: Sequence[int],
    trained_tokens: int,
    mean_tokens: float,
    update_s: float,
    learning_rate: float,
) -> dict[str, float]:
    """is_broken: loss and gradient were not finite, and the update was skipped."""
    done = step / num_steps
    gap = 0.0116 - 0.0012 * done + rng.normal(0, 0.00025)
    ess = min(0.99, 0.93 + rng.normal(0, 0.008))
    grad_norm = float(rng.lognormal(math.log(0.07), 0.28))
    if step == max(1, round(num_steps * 140 / 145)):
        grad_norm = SPIKE
    if is_zero_gradient:
        grad_norm = 0.0
    values = {
        "train/loss": 0.0 if is_zero_gradient else float(rng.normal(0, 0.012)),
        "train/grad_norm": grad_norm,
        "train/skipped": 0.0,
        "train/clip_fraction": 0.0,
        "train/entropy": float(0.42 - 0.05 * done + rng.normal(0, 0.012)),
        "train/zero_gradient": float(is_zero_gradient),
        "train/learning_rate": learning_rate,
        "train/tokens": float(trained_tokens),
        "train/tokens_per_s": trained_tokens / update_s,
        "train/logprob_gap": float(gap),
        "train/logprob_gap_seq": float(gap + rng.normal(0, 0.0001)),
        "train/ess": float(ess),
        "train/ess_truncated": float(min(0.995, ess + 0.012)),
        "train/ess_seq": float(min(0.99, ess + rng.normal(0, 0.003))),
        "rollout/response_tokens": mean_tokens,
    }
    for lag in lags:
        values[f"train/logprob_gap/lag_{lag}"] = float(
            gap * (0.82 + 0.05 * lag) + rng.normal(0, 0.0002)
        )
        lag_ess = min(0.995, 0.962 - 0.009 * lag + rng.normal(0, 0.006))
        values[f"train/ess/lag_{lag}"] = float(lag_ess)
        values[f"train/ess_truncated/lag_{lag}"] = float(min(0.998, lag_ess + 0.01))
    if is_broken:
        values |= {"train/loss": math.nan, "train/grad_norm": math.inf, "train/skipped": 1.0}
    return values


def sft_loss(rng: np.random.Generator, step: int, num_steps: int) -> float:
    return float(0.46 + 0.62 * math.exp(-6 * step / num_steps) + rng.normal(0, 0.015))


def sft_learning_rate(step: int, num_steps: int, peak: float = 1e-5) -> float:
    warmup = min(30, num_steps // 4)
    if step <= warmup:
        return peak * step / warmup
    return peak * max(0.0, 1 - (step - warmup) / (num_steps - warmup))

"""What a step reports about the distance between the trainer's policy and the one that sampled.

    gap   mean |log pi_prox - log mu|                  Miles: train_rollout_logprob_abs_diff
    ess   (sum w)^2 / (N sum w^2),  w = pi_prox / mu   1: all weights equal; 1/N: one rules

Lag = the trainer's weight version minus the token's. Lag 0 is the mismatch of two programs that run
the same weights; lag >= 1 adds staleness. Token means weight long trajectories more; the `_seq`
figures are means over trajectories. NaN and infinity are results here, never replaced.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def effective_sample_size(weights: Tensor) -> float:
    """Weights [n] -> the effective share of them in (0, 1]; NaN for none, 0 when all are 0."""
    w = weights.double()
    if not len(w):
        return math.nan
    squares = (w * w).sum()
    return 0.0 if squares == 0 else float(w.sum() ** 2 / (len(w) * squares))


def mismatch(
    prox: Tensor, mu: Tensor, raw: Tensor, used: Tensor, lag: Tensor, document: Tensor
) -> dict[str, float]:
    """Columns [n] of all trained tokens of a step -> metrics by name.

    raw, used: importance weights before and after truncation or masking (`correction_weights`).
    """
    gap = (prox - mu).abs().double()
    metrics = _summarise("", gap, raw, used)
    for value in sorted(set(lag.tolist())):
        chosen = lag == value
        metrics |= _summarise(f"/lag_{value}", gap[chosen], raw[chosen], used[chosen])
    _, place, counts = torch.unique(document, return_inverse=True, return_counts=True)
    zeros = torch.zeros(len(counts), dtype=torch.float64)

    def total(values: Tensor) -> Tensor:
        return zeros.index_add(0, place, values.double())

    ess = total(raw) ** 2 / (counts * total(raw.double() ** 2))
    metrics["train/logprob_gap_seq"] = float((total(gap) / counts).mean())
    metrics["train/ess_seq"] = float(ess.mean())
    return metrics


def _summarise(suffix: str, gap: Tensor, raw: Tensor, used: Tensor) -> dict[str, float]:
    return {
        f"train/logprob_gap{suffix}": float(gap.mean()),
        f"train/ess{suffix}": effective_sample_size(raw),
        f"train/ess_truncated{suffix}": effective_sample_size(used),
    }

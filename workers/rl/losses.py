"""The policy loss: decoupled PPO with clip-higher, TIS or IcePop, over a global batch.

    L = - sum_t  scale_t · w_t · min(rho_t A, clip(rho_t, 1 - clip_low, 1 + clip_high) A)

    rho_t    pi / pi_prox                  level token     PPO, arXiv:1707.06347; DAPO, 2503.14476
             exp(mean_t log pi/pi_prox)    level sequence  GSPO, arXiv:2507.18071
    w_t      pi_prox / mu, detached        decoupled PPO   AReaL, arXiv:2505.24298
             min(w, tis_cap)               tis             fengyao.notion.site/off-policy-rl
             w if low <= w <= high else 0  icepop          ringtech.notion.site/icepop
             1                             none
    scale_t  1 / N                         token_mean      DAPO; N trained tokens
             1 / (B n_i)                   sequence_mean   GRPO, arXiv:2402.03300; B sequences
             1 / (B C)                     constant        Dr. GRPO, 2503.20783; C loss_constant

scale is computed once per optimizer step over its whole batch (`token_scale`), so how the batch is
cut into packs cannot change the loss or its gradient. Columns are flat over trained tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

MAX_LOG_RATIO = 20.0
"""exp(20) is 5e8: far outside every clip, and its square still fits float32. NaN passes through."""

_CHOICES = {
    "level": ("token", "sequence"),
    "loss_agg": ("token_mean", "sequence_mean", "constant"),
    "denominator": ("all", "nonzero"),
    "correction": ("tis", "icepop", "none"),
}


@dataclass(frozen=True)
class Objective:
    """The keys of a recipe's `algorithm` that shape the loss; defaults as in the recipe schema."""

    clip_low: float = 0.2
    clip_high: float = 0.28
    level: str = "token"
    loss_agg: str = "token_mean"
    loss_constant: float | None = None
    denominator: str = "all"
    correction: str = "tis"
    tis_cap: float = 2.0
    icepop_low: float = 0.5
    icepop_high: float = 2.0

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if (value := getattr(self, name)) not in choices:
                raise ValueError(f"{name} is {value!r}, not one of {', '.join(choices)}")
        if self.loss_agg == "constant" and not self.loss_constant:
            raise ValueError(
                "loss_agg: constant needs a loss_constant (tokens, e.g. the token cap)"
            )

    @classmethod
    def parse(cls, algorithm: Mapping[str, Any]) -> Objective:
        """Takes what it knows; the recipe schema has refused unknown keys before."""
        known = cls.__dataclass_fields__
        return cls(**{k: v for k, v in algorithm.items() if k in known and v is not None})


def correction_weights(prox: Tensor, mu: Tensor, objective: Objective) -> tuple[Tensor, Tensor]:
    """Log-probabilities [n] -> (w = pi_prox/mu, w as the loss uses it), both detached."""
    raw = (prox - mu).detach().clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
    match objective.correction:
        case "tis":
            return raw, raw.clamp(max=objective.tis_cap)
        case "icepop":
            is_kept = (raw >= objective.icepop_low) & (raw <= objective.icepop_high)
            return raw, torch.where(is_kept | raw.isnan(), raw, 0.0)
    return raw, torch.ones_like(raw)


def token_scale(
    document: Tensor, advantages: Tensor, chosen: Tensor, objective: Objective
) -> Tensor:
    """The share of each trained token in the loss of ONE optimizer step; 0 for all others.

    document int64[n]: the sequence of each token; advantages [B] and chosen bool[B]: one per
    sequence, chosen by this optimizer step -> float32[n]. With denominator `nonzero`, sequences of
    advantage 0 count neither tokens nor sequences.
    """
    is_counted = chosen & (advantages != 0) if objective.denominator == "nonzero" else chosen
    lengths = torch.bincount(document, minlength=len(advantages))
    num_sequences = is_counted.sum()
    match objective.loss_agg:
        case "token_mean":
            share = torch.full_like(advantages, 1.0) / lengths[is_counted].sum()
        case "sequence_mean":
            share = 1.0 / (num_sequences * lengths)
        case _:
            assert objective.loss_constant is not None
            share = torch.full_like(advantages, 1.0) / (num_sequences * objective.loss_constant)
    return torch.where(is_counted, share, 0.0)[document].to(torch.float32)


def policy_loss(
    logprobs: Tensor,
    prox: Tensor,
    weights: Tensor,
    advantages: Tensor,
    scale: Tensor,
    document: Tensor,
    objective: Objective,
) -> tuple[Tensor, int]:
    """All columns [n]; logprobs carries the gradient, the others are constants.

    document: any numbering of the sequences in this pack; whole sequences only (level `sequence`
    averages over them). Returns the sum (not a mean: scale holds the denominator) and the number of
    tokens on which the clip was the binding term.
    """
    log_ratio = logprobs - prox
    if objective.level == "sequence":
        log_ratio = _mean_by(log_ratio, document)
    ratio = log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
    free = ratio * advantages
    clipped = ratio.clamp(1 - objective.clip_low, 1 + objective.clip_high) * advantages
    is_clipped = (clipped < free) & (scale > 0)
    loss = -(scale * weights * torch.minimum(free, clipped)).sum()
    return loss, int(is_clipped.sum())


def _mean_by(values: Tensor, document: Tensor) -> Tensor:
    """Each value replaced by the mean over its document."""
    size = int(document.max()) + 1 if len(document) else 0
    total = torch.zeros(size, dtype=values.dtype).index_add(0, document, values)
    return (total / torch.bincount(document, minlength=size).clamp(min=1))[document]

"""From logits to tokens: what a request may ask for, and the draw.

The log-probability of a sampled token is that of softmax(logits / temperature) over the whole
vocabulary, which is what the trainer recomputes; top_k, top_p and min_p narrow the draw and leave it
as it is. Greedy decoding (temperature 0) reports temperature 1, as SGLang does.

A draw is the inverse of the cumulative distribution at a number hashed from (seed, position): one
number a token, and who shares the batch cannot change it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

# Keys of SGLang that are not implemented: accepted at the value that changes nothing.
NEUTRAL: dict[str, Any] = {
    "min_new_tokens": 0,
    "stop": None,
    "stop_regex": None,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
    "repetition_penalty": 1.0,
    "n": 1,
    "json_schema": None,
    "regex": None,
    "ebnf": None,
    "structural_tag": None,
    "logit_bias": None,
    "custom_params": None,
    "beam_width": None,
}
IGNORED = {  # they shape text and streams, not tokens
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "no_stop_trim",
    "stream_interval",
}


class Sampling(BaseModel):
    """SGLang's sampling_params, as far as they are implemented; defaults are SGLang's."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    max_new_tokens: Annotated[int, Field(ge=1)] = 128
    temperature: Annotated[float, Field(ge=0)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Field(ge=1)] | Literal[-1] = -1
    min_p: Annotated[float, Field(ge=0, le=1)] = 0.0
    stop_token_ids: list[int] = []
    ignore_eos: bool = False
    sampling_seed: int | None = None

    @property
    def is_narrowed(self) -> bool:
        return self.top_k > 0 or self.top_p < 1 or self.min_p > 0

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Sampling:
        """Raises ValueError with a sentence for the client; a null means the default."""
        own: dict[str, Any] = {}
        for key, value in given.items():
            if key in NEUTRAL:
                if value and value != NEUTRAL[key]:
                    raise ValueError(f"{key} is not supported by the reference engine")
            elif key not in IGNORED and value is not None:
                own[key] = value
        try:
            return cls(**own)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            raise ValueError(
                f"sampling_params.{key}: {first['msg']}, got {first['input']!r}"
            ) from None


def sample(
    logits: Tensor, wanted: Sequence[Sampling], seeds: Sequence[int], positions: Sequence[int]
) -> tuple[list[int], list[float]]:
    """logits [R, vocabulary] -> a token and its log-probability for each row."""
    temperatures = [s.temperature or 1.0 for s in wanted]
    if any(t != 1.0 for t in temperatures):
        logits = logits / torch.tensor(temperatures)[:, None]
    log_probs = logits.log_softmax(-1)
    weights = log_probs.exp()
    for row, s in enumerate(wanted):
        if s.is_narrowed:
            weights[row] = narrow(weights[row], s)
    tokens = pick(weights, torch.from_numpy(uniform(seeds, positions)))
    greedy = [row for row, s in enumerate(wanted) if s.temperature == 0]
    if greedy:
        tokens[greedy] = log_probs[greedy].argmax(-1, keepdim=True)
    return tokens[:, 0].tolist(), log_probs.gather(-1, tokens)[:, 0].tolist()


def pick(weights: Tensor, numbers: Tensor) -> Tensor:
    """The tokens [R, 1] at numbers [R] in [0, 1) of the cumulative weights [R, vocabulary].

    In float64 and with a number below 1, one of weight zero cannot come.
    """
    cumulative = weights.cumsum(-1, dtype=torch.float64)
    return torch.searchsorted(cumulative, cumulative[:, -1:] * numbers[:, None], right=True)


def narrow(weights: Tensor, s: Sampling) -> Tensor:
    """Zeroes what top_k, then top_p, then min_p exclude; weights [vocabulary]."""
    ordered, order = weights.sort(descending=True, stable=True)
    keep = torch.ones_like(ordered, dtype=torch.bool)
    if s.top_k > 0:
        keep[s.top_k :] = False
    kept = ordered * keep
    # The token that crosses top_p is kept, so one always is.
    keep &= kept.cumsum(-1) - kept <= s.top_p * kept.sum()
    keep &= ordered >= s.min_p * ordered[0]
    return torch.zeros_like(weights).scatter_(0, order, ordered * keep)


def uniform(
    seeds: Sequence[int], positions: Sequence[int]
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """One number in [0, 1) for each (seed, position): splitmix64 (Steele et al., 2014)."""
    x = np.array(seeds, np.uint64) + np.array(positions, np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    x ^= x >> np.uint64(31)
    return (x >> np.uint64(12)).astype(np.float64) * 2.0**-52

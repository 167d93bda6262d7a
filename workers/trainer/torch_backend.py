"""The policy in plain torch on one CPU process: the small backend, and the oracle of larger ones.

What a backend owes the loops (`loop.py`), and all they ask of it; a sharded backend runs the same
calls on every rank and keeps vocabulary, pipeline and data parallelism to itself:

    score(pack, T)            log pi and entropy of the trained tokens, no gradient
    accumulate(pack, T, loss) forward, loss(log pi) -> scalar, backward; gradients add up
    step(lr, max_norm)        clip, optimizer step unless the norm is not finite, gradients to zero
    reset_optimizer(...)      a fresh AdamW: moments of another stage do not leak into this one
    save(dir), load(dir)      weights, optimizer, random state: the next step is the same to the bit
    export(dir)               the weights in Hugging Face's layout, for the engines

Losses see per-token log-probabilities, never logits: those stay inside the backend.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from workers.engines.reference.model import load_model, save_model
from workers.rl.packing import Pack
from workers.trainer.optimizer import AdamW

_STATE = "state.pt"


class TorchBackend:
    def __init__(self, model_dir: Path, *, seed: int) -> None:
        """Raises FileNotFoundError or ValueError for a model directory that cannot be loaded."""
        torch.manual_seed(seed)
        self._model_dir = model_dir
        self.model = load_model(model_dir)
        self._parameters = list(self.model.parameters())
        self.reset_optimizer(betas=(0.9, 0.999), weight_decay=0.0)

    @property
    def num_parameters(self) -> int:
        return sum(p.numel() for p in self._parameters)

    @property
    def max_positions(self) -> int:
        return self.model.config.max_positions

    def reset_optimizer(self, betas: Sequence[float], weight_decay: float) -> None:
        self._optimizer = AdamW(self._parameters, betas, weight_decay)

    def score(self, pack: Pack, temperature: float) -> tuple[Tensor, Tensor]:
        """float32[n] each: log-probability of every target, entropy (nats) of its distribution."""
        with torch.no_grad():
            distribution = functional.log_softmax(self._logits(pack, temperature), -1)
            logprobs = distribution.gather(1, pack.targets[:, None])[:, 0]
            return logprobs, -(distribution.exp() * distribution).sum(-1)

    def accumulate(self, pack: Pack, temperature: float, loss: Callable[[Tensor], Tensor]) -> float:
        """Adds the gradient of loss(log-probabilities float32[n]); returns the loss."""
        logits = self._logits(pack, temperature)
        value = loss(-functional.cross_entropy(logits, pack.targets, reduction="none"))
        torch.autograd.backward(value)
        return float(value.detach())

    def step(self, learning_rate: float, max_grad_norm: float) -> float:
        """The gradient norm before clipping; if it is not finite, weights and moments stay.

        Zero gradients still take a step: the moments decay and momentum moves the weights, as in
        every trainer that feeds a batch of zero advantages through.
        """
        norm = float(torch.nn.utils.clip_grad_norm_(self._parameters, max_grad_norm))
        if math.isfinite(norm):
            self._optimizer.step(learning_rate)
        self._optimizer.zero_grad()
        return norm

    def save(self, directory: Path) -> None:
        state = {
            "model": self.model.state_dict(),
            "optimizer": self._optimizer.state(),
            "random": torch.get_rng_state(),
        }
        torch.save(state, directory / _STATE)

    def load(self, directory: Path) -> None:
        """Raises ValueError when the state is of another model."""
        state = torch.load(directory / _STATE, weights_only=True)
        try:
            self.model.load_state_dict(state["model"])
        except RuntimeError as error:
            raise ValueError(f"the checkpoint in {directory} is of another model") from error
        self._optimizer.load(state["optimizer"])
        torch.set_rng_state(state["random"])

    def export(self, directory: Path) -> None:
        save_model(self.model, directory, extra_from=self._model_dir)

    def _logits(self, pack: Pack, temperature: float) -> Tensor:
        """[n, vocabulary] at the predictors only, over the temperature as in the sampler."""
        hidden = self.model.hidden(pack.ids, pack.lengths)
        return self.model.logits(hidden[pack.predictors]) / temperature

"""AdamW by torch's own fused kernel, without the `Optimizer` class around it.

Constructing any `torch.optim.Optimizer` imports the compiler (3.4 s of CPU, measured with torch 2.13),
which a trainer that starts for a stage of minutes would pay each time it starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim.adamw import adamw

_EPSILON = 1e-8


class AdamW:
    """Decoupled weight decay (arXiv:1711.05101). Gradients are always there: zero, never None."""

    def __init__(
        self, parameters: Sequence[Parameter], betas: Sequence[float], weight_decay: float
    ) -> None:
        self._parameters: list[Tensor] = [p.detach() for p in parameters]  # the same storage
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        self._gradients = [p.grad for p in parameters if p.grad is not None]
        self._betas = tuple(betas)
        self._weight_decay = weight_decay
        self._mean = [torch.zeros_like(p) for p in self._parameters]
        self._square = [torch.zeros_like(p) for p in self._parameters]
        self._steps = [torch.zeros(()) for _ in self._parameters]

    def step(self, learning_rate: float) -> None:
        adamw(
            self._parameters,
            self._gradients,
            self._mean,
            self._square,
            [],
            self._steps,
            fused=True,
            amsgrad=False,
            beta1=self._betas[0],
            beta2=self._betas[1],
            lr=learning_rate,
            weight_decay=self._weight_decay,
            eps=_EPSILON,
            maximize=False,
        )

    def zero_grad(self) -> None:
        for gradient in self._gradients:
            gradient.zero_()

    def state(self) -> dict[str, Any]:
        return {
            "betas": self._betas,
            "weight_decay": self._weight_decay,
            "mean": self._mean,
            "square": self._square,
            "steps": self._steps,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Takes over a `state` of the same parameters, in the same order."""
        self._betas, self._weight_decay = tuple(state["betas"]), state["weight_decay"]
        for name, columns in (
            ("mean", self._mean),
            ("square", self._square),
            ("steps", self._steps),
        ):
            for column, stored in zip(columns, state[name], strict=True):
                column.copy_(stored)

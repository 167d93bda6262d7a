"""The two ways to train: imitate traces (SFT), and one step of policy optimisation (RL).

    SFT    shuffle ─ packs of tokens_per_batch ─┬─ accumulate ─ step ─┐  each pack is one update
                                                └──────<──────────────┘
    RL     batch ─ score all: pi_prox, entropy ─ w, mismatch metrics ─ minibatch 1..k
                      minibatch: scale over all its tokens ─ packs ─ accumulate ... ─ step

Invariants of the RL step: pi_prox is scored before the first update; trajectories without advantage
are scored (they are in the metrics and the denominator) but not passed forward again, for their
gradient is exactly 0; how the tokens are cut into packs changes nothing but speed. With one
minibatch rho is 1 and the clip inert, so clip_fraction is 0.

Metrics of an RL step, `tokens` being all trained tokens of its batch:

    train/loss             mean over its optimizer steps
    train/grad_norm        before clipping, the largest of its optimizer steps
    train/skipped          1 if a norm was not finite: that optimizer step was left out
    train/clip_fraction    tokens on which the clip was the binding term / tokens
    train/entropy          of pi_prox, nats, mean over tokens
    train/logprob_gap, train/ess, train/ess_truncated [/lag_k], train/..._seq      rl.estimators
    train/zero_gradient    1 when every advantage is 0
    train/tokens           trained tokens
    train/tokens_per_s     the same / seconds of the update
    train/learning_rate
    rollout/response_tokens  trained tokens of a trajectory, mean
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor

from workers.rl.estimators import mismatch
from workers.rl.losses import Objective, correction_weights, policy_loss, token_scale
from workers.rl.packing import Pack, pack, packs, plan
from workers.trainer.batches import Batch, Traces
from workers.trainer.torch_backend import TorchBackend

Report = Callable[[dict[str, Any]], None]

NUM_REPORTS = 100
"""Progress messages of an SFT stage, at most: one for each point of its curve."""


class _Parsed:
    @classmethod
    def parse(cls, keys: Mapping[str, Any]) -> Self:
        """Takes what it knows: the recipe schema has refused unknown keys before."""
        known = {f.name for f in fields(cls)}  # type: ignore[arg-type]
        return cls(**{k: v for k, v in keys.items() if k in known})


@dataclass(frozen=True)
class SftSettings(_Parsed):
    epochs: float
    learning_rate: float
    tokens_per_batch: int
    warmup_steps: int = 30
    observation_weight: float = 0.0
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.98)
    max_grad_norm: float = 1.0

    def learning_rate_at(self, step: int, num_steps: int) -> float:
        """Linear warm-up times a cosine from 1 to 0.05; step counts from 0."""
        cosine = 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / num_steps))
        return self.learning_rate * min(1.0, (step + 1) / max(1, self.warmup_steps)) * cosine


@dataclass(frozen=True)
class RlSettings(_Parsed):
    temperature: float
    """Of the sampler: the trainer divides its logits by the same."""
    num_minibatches: int = 1
    tokens_per_microbatch: int = 8192
    max_grad_norm: float = 1.0
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.0


def train_sft(
    backend: TorchBackend,
    traces: Traces,
    settings: SftSettings,
    *,
    seed: int,
    report: Report,
    max_seconds: float | None = None,
) -> dict[str, Any]:
    """Imitates all traces. The same seed gives the same weights, unless max_seconds ends it early.

    report receives {step, num_steps, loss, action_loss, learning_rate, grad_norm, tokens}: loss is
    weighted as trained, action_loss the mean over action tokens, both since the last report.
    """
    batches = sft_plan(traces, settings, seed)
    backend.reset_optimizer(settings.betas, settings.weight_decay)
    started, every = time.monotonic(), math.ceil(len(batches) / NUM_REPORTS)
    num_tokens = num_skipped = 0
    losses: list[float] = []
    actions = torch.zeros(2, dtype=torch.float64)  # sum of losses, number of action tokens

    def loss(logprobs: Tensor, weights: Tensor) -> Tensor:
        is_action = weights == 1
        actions.add_(torch.stack([-logprobs.detach()[is_action].sum(), is_action.sum()]))
        return -(weights * logprobs).sum() / weights.sum()

    for step, chosen in enumerate(batches, 1):
        packed = pack(traces.documents, chosen)
        pack_loss = partial(loss, weights=traces.weights[packed.index])
        losses.append(backend.accumulate(packed, 1.0, pack_loss))
        learning_rate = settings.learning_rate_at(step - 1, len(batches))
        grad_norm = backend.step(learning_rate, settings.max_grad_norm)
        num_skipped += not math.isfinite(grad_norm)
        num_tokens += len(packed.ids)
        is_late = max_seconds is not None and time.monotonic() - started > max_seconds
        is_last = step == len(batches) or is_late
        if step % every == 0 or is_last:
            report(
                {
                    "step": step,
                    "num_steps": len(batches),
                    "loss": sum(losses) / len(losses),
                    "action_loss": float(actions[0] / actions[1]),
                    "learning_rate": learning_rate,
                    "grad_norm": grad_norm,
                    "tokens": num_tokens,
                }
            )
            losses.clear()
            actions.zero_()
        if is_last:
            break
    return {
        "num_steps": step,
        "tokens": num_tokens,
        "num_traces": len(traces.documents),
        "num_truncated": traces.num_truncated,
        "num_skipped": num_skipped,
        "train_s": time.monotonic() - started,
    }


def sft_plan(traces: Traces, settings: SftSettings, seed: int) -> list[list[int]]:
    """The traces of every update: shuffled anew each epoch, a fractional last epoch cut short."""
    shuffler = random.Random(seed)  # noqa: S311 - repeatable on purpose
    costs = [d.cost for d in traces.documents]
    batches: list[list[int]] = []
    num_epochs = math.ceil(settings.epochs)
    for _ in range(num_epochs):
        order = list(range(len(costs)))
        shuffler.shuffle(order)
        batches += plan(costs, order, settings.tokens_per_batch)
    return batches[: max(1, round(len(batches) * settings.epochs / num_epochs))]


def train_rl(
    backend: TorchBackend,
    batch: Batch,
    objective: Objective,
    settings: RlSettings,
    learning_rate: float,
    keep: Callable[[Tensor], None] = lambda _: None,
) -> dict[str, Any]:
    """One RL step -> {metrics, logprob_s, update_s}; see the module for names and invariants.

    keep is shown log pi_prox of the trained tokens, in document order.
    """
    started = time.monotonic()
    prox, entropy = _score(backend, batch, settings)
    keep(prox)
    raw, weights = correction_weights(prox, batch.mu, objective)
    metrics = mismatch(prox, batch.mu, raw, weights, batch.lag, batch.document)
    scored = time.monotonic()
    advantages = batch.advantages[batch.document]
    num_clipped = 0

    def loss(logprobs: Tensor, i: Tensor, scale: Tensor) -> Tensor:
        nonlocal num_clipped
        columns = (prox[i], weights[i], advantages[i], scale[i], batch.document[i])
        value, clipped = policy_loss(logprobs, *columns, objective)
        num_clipped += clipped
        return value

    losses, norms = [], []
    for chosen in _minibatches(len(batch.documents), settings.num_minibatches):
        scale = token_scale(batch.document, batch.advantages, chosen, objective) * batch.is_kept
        total = 0.0
        for packed in _live_packs(batch, scale, settings.tokens_per_microbatch):
            pack_loss = partial(loss, i=packed.index, scale=scale)
            total += backend.accumulate(packed, settings.temperature, pack_loss)
        losses.append(total)
        norms.append(backend.step(learning_rate, settings.max_grad_norm))
    update_s = time.monotonic() - scored
    metrics |= {
        "train/loss": sum(losses) / len(losses),
        "train/grad_norm": float(torch.tensor(norms).max()),  # keeps NaN, as Python's max does not
        "train/skipped": float(not all(map(math.isfinite, norms))),
        "train/clip_fraction": num_clipped / len(prox),
        "train/entropy": float(entropy.mean()),
        "train/zero_gradient": float(not batch.advantages.any()),
        "train/tokens": float(len(prox)),
        "train/tokens_per_s": len(prox) / update_s,
        "train/learning_rate": learning_rate,
        "rollout/response_tokens": len(prox) / len(batch.documents),
    }
    return {
        "metrics": metrics,
        "logprob_s": scored - started,
        "update_s": update_s,
    }


def _score(backend: TorchBackend, batch: Batch, settings: RlSettings) -> tuple[Tensor, Tensor]:
    """log pi_prox and entropy of all trained tokens of the batch."""
    prox, entropy = torch.zeros_like(batch.mu), torch.zeros_like(batch.mu)
    for packed in packs(batch.documents, settings.tokens_per_microbatch):
        prox[packed.index], entropy[packed.index] = backend.score(packed, settings.temperature)
    return prox, entropy


def _minibatches(num_documents: int, num_minibatches: int) -> Iterator[Tensor]:
    """bool[B] each: near-equal shares of the trajectories, by the process's random state."""
    if num_minibatches == 1:
        yield torch.ones(num_documents, dtype=torch.bool)
        return
    order = torch.randperm(num_documents)
    for part in order.tensor_split(min(num_minibatches, num_documents)):
        chosen = torch.zeros(num_documents, dtype=torch.bool)
        chosen[part] = True
        yield chosen


def _live_packs(batch: Batch, scale: Tensor, budget: int) -> list[Pack]:
    """Packs of the trajectories from which a gradient can come."""
    share = torch.zeros(len(batch.documents)).index_add(0, batch.document, scale)
    live = torch.nonzero((share > 0) & (batch.advantages != 0)).flatten()
    return packs(batch.documents, budget, live.tolist())

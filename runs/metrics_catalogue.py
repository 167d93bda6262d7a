"""Every curve by name: its unit, its definition, the population it is taken over (docs: metrics).

A name with a suffix (`train/ess/lag_2`) is described by the longest name it begins with.
"""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypeAliasType, TypedDict

Population = TypeAliasType("Population", Literal["valid", "all", "trained", "none"])


class MetricDefinition(TypedDict):
    """What a curve means. population: whose trajectories or tokens it is taken over."""

    name: str
    unit: str
    definition: str
    population: Population


def _define(name: str, unit: str, population: Population, definition: str) -> MetricDefinition:
    return MetricDefinition(name=name, unit=unit, definition=definition, population=population)


CATALOGUE: tuple[MetricDefinition, ...] = (
    _define("reward/mean", "reward", "valid", "Mean reward of the valid trajectories of a step."),
    _define("train/loss", "", "trained", "The policy loss over the global batch."),
    _define("train/grad_norm", "", "trained", "Norm of the gradient before clipping."),
    _define(
        "train/skipped",
        "",
        "trained",
        "1 when the update was not applied because its loss or gradient was not finite, else 0.",
    ),
    _define(
        "train/clip_fraction",
        "share",
        "trained",
        "Share of trained tokens whose ratio was clipped; 0 with one optimizer step a batch.",
    ),
    _define("train/entropy", "nats", "trained", "Mean entropy of the policy at trained tokens."),
    _define(
        "train/kl", "nats", "trained", "k3 estimate of the KL to the reference, where one is used."
    ),
    _define("train/learning_rate", "", "none", "The learning rate of the step."),
    _define(
        "train/logprob_gap",
        "nats",
        "trained",
        "Mean |log pi_prox - log mu| over trained tokens; by lag (weight versions between trainer and "
        "token): lag 0 is engine mismatch, more is staleness.",
    ),
    _define(
        "train/logprob_gap_seq",
        "nats",
        "trained",
        "Mean over trajectories of the mean |log pi_prox - log mu| of their tokens.",
    ),
    _define(
        "train/ess",
        "share",
        "trained",
        "Effective sample size (sum w)^2 / (N sum w^2) of w = pi_prox / mu over trained tokens; by lag.",
    ),
    _define(
        "train/ess_truncated",
        "share",
        "trained",
        "The effective sample size with the weights as used, after truncation or masking; by lag.",
    ),
    _define(
        "train/ess_seq",
        "share",
        "trained",
        "Mean over trajectories of their effective sample size.",
    ),
    _define(
        "train/zero_gradient", "", "valid", "1 when no group of the step has mixed rewards, else 0."
    ),
    _define("train/tokens", "tokens", "trained", "Tokens trained in the step."),
    _define(
        "train/tokens_per_s", "tokens/s", "trained", "Trained tokens per second of the update."
    ),
    _define("time/wait_s", "s", "none", "Time of a step spent waiting for ready groups."),
    _define("time/logprob_s", "s", "none", "Time of a step spent recomputing log-probabilities."),
    _define("time/update_s", "s", "none", "Time of a step in forward, backward and optimizer."),
    _define("time/publish_s", "s", "none", "Time to publish weights; not part of the step's sum."),
    _define(
        "rollout/staleness_mean",
        "versions",
        "trained",
        "Token-weighted mean of the trainer's version - the version of a trajectory's oldest token.",
    ),
    _define("rollout/staleness_max", "versions", "trained", "The largest staleness of the step."),
    _define(
        "rollout/staleness_in_flight",
        "versions",
        "trained",
        "Mean of newest - oldest version within a trajectory: what went by while it ran.",
    ),
    _define(
        "rollout/staleness_in_queue",
        "versions",
        "trained",
        "Mean of trainer's version - newest version of a trajectory: what went by while it waited.",
    ),
    _define(
        "rollout/trajectories_per_h",
        "1/h",
        "valid",
        "Completed trajectories per hour; failures apart.",
    ),
    _define(
        "rollout/tail_share",
        "share",
        "all",
        "Share of a window's rollout time after 90 % of its trajectories had finished.",
    ),
    _define(
        "rollout/selection_bias",
        "",
        "all",
        "Mean turns and reward of finished, consumed and discarded members: they are not missing at random.",
    ),
    _define(
        "rollout/groups_mixed", "groups", "valid", "Groups of the step with more than one reward."
    ),
    _define(
        "rollout/valid_share",
        "share",
        "all",
        "Share of the step's members whose reward may be used.",
    ),
    _define("rollout/turns_mean", "turns", "valid", "Mean turns of the trajectories of a step."),
    _define(
        "rollout/output_tokens_mean",
        "tokens",
        "valid",
        "Mean sampled tokens of the trajectories of a step.",
    ),
    _define(
        "rollout/response_tokens",
        "tokens",
        "trained",
        "Mean trained tokens of a trajectory of the step.",
    ),
    _define("sft/loss", "nats", "trained", "Mean cross-entropy of the batch's weighted tokens."),
    _define("sft/learning_rate", "", "none", "The learning rate of the SFT step."),
)
_BY_NAME = {entry["name"]: entry for entry in CATALOGUE}


def definition_of(name: str) -> MetricDefinition | None:
    """The entry of a curve, or of the longest name that `name` begins with."""
    while name:
        if name in _BY_NAME:
            return _BY_NAME[name]
        name = name.rpartition("/")[0]
    return None


def unit_of(name: str) -> str:
    entry = definition_of(name)
    return entry["unit"] if entry else ""

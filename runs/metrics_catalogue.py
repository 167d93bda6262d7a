"""Every curve by name: its label, unit, definition, the population it is taken over (docs: metrics).

A name with a suffix (`train/ess/lag_2`) is described by the longest name it begins with.
"""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypeAliasType, TypedDict

Population = TypeAliasType("Population", Literal["valid", "all", "trained", "none"])

GROUPS = {
    "reward": "Reward",
    "train": "Training",
    "rollout": "Rollout",
    "time": "Time of a step",
    "sft": "Supervised fine-tuning",
}
"""Titles of the first words of names, in the order in which pages show them."""


class MetricDefinition(TypedDict):
    """What a curve means. population: whose trajectories or tokens it is taken over."""

    name: str
    label: str
    group: str
    unit: str
    definition: str
    population: Population


class ThresholdRow(TypedDict):
    """A line to hold a curve against: a limit of the recipe, or a figure of the article."""

    label: str
    value: float


def _define(
    name: str, label: str, unit: str, population: Population, definition: str
) -> MetricDefinition:
    return MetricDefinition(
        name=name,
        label=label,
        group=group_of(name),
        unit=unit,
        definition=definition,
        population=population,
    )


def group_of(name: str) -> str:
    """The title of the first word of a name."""
    prefix = name.partition("/")[0]
    return GROUPS.get(prefix, prefix.replace("_", " ").capitalize())


CATALOGUE: tuple[MetricDefinition, ...] = (
    _define(
        "reward/mean",
        "Reward",
        "reward",
        "valid",
        "Mean reward of the valid trajectories of a step.",
    ),
    _define("train/loss", "Policy loss", "", "trained", "The policy loss over the global batch."),
    _define(
        "train/grad_norm", "Gradient norm", "", "trained", "Norm of the gradient before clipping."
    ),
    _define(
        "train/skipped",
        "Skipped updates",
        "",
        "trained",
        "1 when the update was not applied because its loss or gradient was not finite, else 0.",
    ),
    _define(
        "train/clip_fraction",
        "Clipped tokens",
        "share",
        "trained",
        "Share of trained tokens whose ratio was clipped; 0 with one optimizer step a batch.",
    ),
    _define(
        "train/entropy",
        "Entropy",
        "nats",
        "trained",
        "Mean entropy of the policy at trained tokens.",
    ),
    _define(
        "train/kl",
        "KL to the reference",
        "nats",
        "trained",
        "k3 estimate of the KL to the reference, where one is used.",
    ),
    _define("train/learning_rate", "Learning rate", "", "none", "The learning rate of the step."),
    _define(
        "train/logprob_gap",
        "Log-prob gap",
        "nats",
        "trained",
        "Mean |log pi_prox - log mu| over trained tokens; by lag (weight versions between trainer and "
        "token): lag 0 is engine mismatch, more is staleness.",
    ),
    _define(
        "train/logprob_gap_seq",
        "Log-prob gap a trajectory",
        "nats",
        "trained",
        "Mean over trajectories of the mean |log pi_prox - log mu| of their tokens.",
    ),
    _define(
        "train/ess",
        "Effective sample size",
        "share",
        "trained",
        "Effective sample size (sum w)^2 / (N sum w^2) of w = pi_prox / mu over trained tokens; by lag.",
    ),
    _define(
        "train/ess_truncated",
        "Truncated ESS",
        "share",
        "trained",
        "The effective sample size with the weights as used, after truncation or masking; by lag.",
    ),
    _define(
        "train/ess_seq",
        "ESS a trajectory",
        "share",
        "trained",
        "Mean over trajectories of their effective sample size.",
    ),
    _define(
        "train/zero_gradient",
        "Zero-gradient steps",
        "",
        "valid",
        "1 when no group of the step has mixed rewards, else 0.",
    ),
    _define("train/tokens", "Tokens trained", "tokens", "trained", "Tokens trained in the step."),
    _define(
        "train/tokens_per_s",
        "Training speed",
        "tokens/s",
        "trained",
        "Trained tokens per second of the update.",
    ),
    _define("time/wait_s", "Wait", "s", "none", "Time of a step spent waiting for ready groups."),
    _define(
        "time/logprob_s",
        "Log-prob",
        "s",
        "none",
        "Time of a step spent recomputing log-probabilities.",
    ),
    _define(
        "time/update_s", "Update", "s", "none", "Time of a step in forward, backward and optimizer."
    ),
    _define(
        "time/publish_s",
        "Publish",
        "s",
        "none",
        "Time to publish weights; not part of the step's sum.",
    ),
    _define(
        "rollout/staleness_mean",
        "Staleness",
        "versions",
        "trained",
        "Token-weighted mean of the trainer's version - the version of a trajectory's oldest token.",
    ),
    _define(
        "rollout/staleness_max",
        "Staleness, oldest",
        "versions",
        "trained",
        "The largest staleness of the step.",
    ),
    _define(
        "rollout/staleness_in_flight",
        "Staleness in flight",
        "versions",
        "trained",
        "Mean of newest - oldest version within a trajectory: what went by while it ran.",
    ),
    _define(
        "rollout/staleness_in_queue",
        "Staleness in the queue",
        "versions",
        "trained",
        "Mean of trainer's version - newest version of a trajectory: what went by while it waited.",
    ),
    _define(
        "rollout/trajectories_per_h",
        "Trajectories an hour",
        "1/h",
        "valid",
        "Completed trajectories per hour; failures apart.",
    ),
    _define(
        "rollout/tail_share",
        "Tail share",
        "share",
        "all",
        "Share of a window's rollout time after 90 % of its trajectories had finished.",
    ),
    _define(
        "rollout/selection_bias",
        "Selection bias",
        "",
        "all",
        "Mean turns and reward of finished, consumed and discarded members: they are not missing at random.",
    ),
    _define(
        "rollout/groups_mixed",
        "Groups with mixed rewards",
        "groups",
        "valid",
        "Groups of the step with more than one reward.",
    ),
    _define(
        "rollout/valid_share",
        "Valid share",
        "share",
        "all",
        "Share of the step's members whose reward may be used.",
    ),
    _define(
        "rollout/turns_mean", "Turns", "turns", "valid", "Mean turns of the trajectories of a step."
    ),
    _define(
        "rollout/output_tokens_mean",
        "Output tokens",
        "tokens",
        "valid",
        "Mean sampled tokens of the trajectories of a step.",
    ),
    _define(
        "rollout/response_tokens",
        "Response length",
        "tokens",
        "trained",
        "Mean trained tokens of a trajectory of the step.",
    ),
    _define(
        "sft/loss",
        "SFT loss",
        "nats",
        "trained",
        "Mean cross-entropy of the batch's weighted tokens.",
    ),
    _define(
        "sft/learning_rate", "SFT learning rate", "", "none", "The learning rate of the SFT step."
    ),
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


def label_of(name: str) -> str:
    """The short label of a curve; a suffix follows in words: `train/ess/lag_2` is "Effective sample size, lag 2"."""
    entry = definition_of(name)
    label, known = (entry["label"], entry["name"]) if entry else ("", "")
    rest = name.removeprefix(known).strip("/").replace("/", ", ").replace("_", " ")
    return f"{label}, {rest}" if label and rest else label or rest


def thresholds_of(name: str, recipe: dict[str, Any]) -> list[ThresholdRow]:
    """The lines that are known for a curve of a run: its recipe's limits, the article's figures."""
    lines = [ThresholdRow(label="article", value=value) for value in _ARTICLE.get(name, [])]
    lines += [
        ThresholdRow(label=label, value=float(value))
        for label, value in _limits(name, recipe)
        if value is not None
    ]
    return lines


_ARTICLE = {"train/ess_seq": [0.93], "train/logprob_gap_seq": [0.011]}


def _limits(name: str, recipe: dict[str, Any]) -> list[tuple[str, Any]]:
    agent = recipe.get("agent", {})
    stage: dict[str, Any] = next((s for s in recipe.get("stages", []) if s.get("kind") == "rl"), {})
    hard = stage.get("max_token_staleness")
    if hard is None and "max_staleness" in stage:
        hard = 3 * stage["max_staleness"]
    limits = {
        "train/grad_norm": [("clip", stage.get("algorithm", {}).get("max_grad_norm"))],
        "rollout/staleness_max": [("hard bound", hard)],
        "rollout/staleness_mean": [("max_staleness", stage.get("max_staleness"))],
        "rollout/turns_mean": [("turn cap", agent.get("turn_cap"))],
        "rollout/output_tokens_mean": [("token cap", agent.get("token_cap"))],
        "rollout/response_tokens": [("token cap", agent.get("token_cap"))],
    }
    return limits.get(name, [])

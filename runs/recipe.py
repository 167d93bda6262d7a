"""The recipe schema: what a team writes, with defaults and every rule that needs no database.

`load(text)` gives a Recipe or raises Invalid with a pointer and a sentence per wrong field. What needs
the database or the machine (task sets exist, splits are disjoint, capacity) is `runs/services/preflight.py`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from controlplane.errors import FieldError, Invalid
from runs.advantages import default_min_valid

_UNITS = {
    "_s": "s",
    "_mb": "MiB",
    "_bytes": "bytes",
    "context_length": "tokens",
    "token_cap": "tokens",
    "tokens_per_batch": "tokens",
    "tokens_per_microbatch": "tokens",
    "staleness": "versions",
}


def _add_units(schema: dict[str, Any]) -> None:
    """The unit that a name ends with, for whoever draws a form."""
    for name, field in schema.get("properties", {}).items():
        unit = next((unit for end, unit in _UNITS.items() if name.endswith(end)), None)
        if unit is not None:
            field["unit"] = unit


class _Strict(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        json_schema_extra=_add_units,
    )


class Model(_Strict):
    path: str
    """A directory in the Hugging Face layout with tokenizer.json: the run's weight version 0."""
    context_length: int = Field(default=65_536, ge=16)
    """Positions of the model that are used: no trajectory is longer."""


class Agent(_Strict):
    format: Literal["raw", "bash_block"] = "bash_block"
    """How an action is written: the whole answer, or its ```bash block."""
    system: str = ""
    """The system message; empty for none."""
    turn_cap: int = Field(default=80, ge=1)
    """Turns of a trajectory."""
    turn_token_cap: int = Field(default=8_192, ge=1)
    """Sampled tokens of a turn."""
    token_cap: int = Field(default=65_536, ge=16)
    """Tokens of a trajectory in all, at most the context length."""
    observation_bytes: int = Field(default=16_384, ge=64)
    """What of an output the model sees; the rest is cut with a notice."""
    no_action_cap: int = Field(default=3, ge=1)
    """Answers without an action, in a row, that end a trajectory."""


class Timeouts(_Strict):
    """Seconds, a chain: llm_call < turn < agent < trajectory; the sandbox outlives them all."""

    start_s: float = Field(default=60, gt=0)
    """Start of a sandbox."""
    setup_s: float = Field(default=300, gt=0)
    """The task's set-up in it."""
    llm_call_s: float = Field(default=600, gt=0)
    """One model call."""
    command_s: float = Field(default=60, gt=0)
    """One command of the agent."""
    turn_s: float = Field(default=700, gt=0)
    """A model call and its command; more than a call."""
    agent_s: float = Field(default=5_400, gt=0)
    """All turns together; more than a turn."""
    verify_s: float = Field(default=600, gt=0)
    """The hidden tests."""
    trajectory_s: float = Field(default=7_200, gt=0)
    """Everything of one attempt; more than the agent."""


class SandboxPlan(_Strict):
    driver: Literal["local"] = "local"
    """Who makes sandboxes."""
    memory_mb: int = Field(default=512, ge=16)
    """Of one sandbox; beyond it its processes are killed."""
    disk_mb: int = Field(default=64, ge=1)
    """Of one sandbox."""
    max_processes: int = Field(default=64, ge=4)
    """Of one sandbox."""
    lifetime_s: float = Field(default=9_000, gt=0)
    """A sandbox is removed after it, whatever it does."""
    max_concurrent: int = Field(default=64, ge=1)
    """Sandboxes of the run at once."""


class Engines(_Strict):
    kind: Literal["reference", "attach"] = "reference"
    """`reference` is started here; `attach` are servers of somebody else."""
    urls: list[str] = []
    """kind attach: servers that somebody else runs, one engine each."""
    num_engines: int = Field(default=1, ge=1, le=512)
    """Inference servers."""
    max_running: int = Field(default=64, ge=1)
    """Sequences that one engine generates at once."""
    max_queued: int = Field(default=512, ge=1)
    """Requests that wait in one engine; beyond it refuses with 503."""
    threads: int = Field(default=1, ge=1)
    """CPU threads of one engine."""

    @model_validator(mode="after")
    def _urls_belong_to_attach(self) -> Self:
        if (self.kind == "attach") != bool(self.urls):
            raise ValueError("kind attach needs urls, and urls need kind attach")
        return self


class Trainer(_Strict):
    backend: Literal["torch"] = "torch"
    """What takes the optimizer's steps."""
    threads: int = Field(default=1, ge=1)
    """CPU threads of the trainer."""
    checkpoint_every: int = Field(default=10, ge=1)
    """Steps between checkpoints; the last step has one too."""
    keep_checkpoints: int = Field(default=3, ge=1)
    """The newest of each stage that are kept."""
    max_auto_resumes: int = Field(default=3, ge=0)
    """Lives of the trainer that follow by themselves after the first."""


class Rollout(_Strict):
    max_in_flight: int = Field(default=64, ge=1)
    """Trajectories at once."""
    max_infra_attempts: int = Field(default=4, ge=1)
    """All attempts of one trajectory, the first included; a class may grant fewer (failures.POLICIES)."""


class Algorithm(_Strict):
    """GRPO and its variants; formulas in domain.md, "Mathematics"."""

    advantage: Literal["grpo", "dr_grpo", "rloo"] = "grpo"
    """How rewards of a group become advantages."""
    clip_low: float = Field(default=0.2, gt=0)
    """The ratio is clipped at 1 - this."""
    clip_high: float = Field(default=0.28, gt=0)
    """The ratio is clipped at 1 + this."""
    level: Literal["token", "sequence"] = "token"
    """Ratios of tokens, or of whole sequences (GSPO)."""
    loss_agg: Literal["token_mean", "sequence_mean", "constant"] = "token_mean"
    """How token losses become one: over all tokens, over sequences, or by a constant."""
    loss_constant: float | None = Field(default=None, gt=0)
    """What the loss is divided by with loss_agg: constant."""
    correction: Literal["tis", "icepop", "none"] = "tis"
    """What is done about engine mismatch and staleness: truncate the weight, mask the token, nothing."""
    tis_cap: float = Field(default=2.0, gt=0)
    """Weights above it are truncated."""
    icepop_low: float = Field(default=0.5, gt=0)
    """Tokens with a weight below it are masked."""
    icepop_high: float = Field(default=2.0, gt=0)
    """Tokens with a weight above it are masked."""
    zero_variance: Literal["keep", "resample"] = "keep"
    """Groups whose rewards are all equal: trained with advantage 0, or drawn again."""
    denominator: Literal["all", "nonzero"] = "all"
    """Tokens that the loss is averaged over: all, or those with an advantage."""
    num_minibatches: int = Field(default=1, ge=1)
    """Optimizer steps of a batch."""
    learning_rate: float = Field(default=1e-6, gt=0)
    """At the first step."""
    lr_decay: float = Field(default=0.0, ge=0, le=1)
    """Linear: the share of the learning rate that is lost by the last step."""
    betas: tuple[float, float] = (0.9, 0.95)
    """Of AdamW."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Of AdamW."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """The gradient is clipped to this norm."""
    tokens_per_microbatch: int = Field(default=8_192, ge=1)
    """What one forward pass holds."""

    @model_validator(mode="after")
    def _constant_has_its_number(self) -> Self:
        if (self.loss_agg == "constant") != (self.loss_constant is not None):
            raise ValueError("loss_constant goes with loss_agg: constant, and only with it")
        return self


class EvalStage(_Strict):
    kind: Literal["eval"]
    """Measures the weights; nothing is trained."""
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,40}$")
    """Unique in the run."""
    task_set: str
    """One of task_sets."""
    attempts: int = Field(default=4, ge=1, le=64)
    """Trajectories of each task."""
    temperature: float = Field(default=1.0, ge=0, le=2)
    """Of sampling."""
    num_tasks: int | None = Field(default=None, ge=1)
    """The first so many tasks; all by default."""


class SftStage(_Strict):
    kind: Literal["sft"]
    """Imitates traces."""
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,40}$")
    """Unique in the run."""
    traces: str
    """JSONL file of traces (docs/recipes.md)."""
    epochs: float = Field(default=1.0, gt=0)
    """Passes over the traces."""
    learning_rate: float = Field(default=1e-5, gt=0)
    """After the warm-up."""
    warmup_steps: int = Field(default=30, ge=0)
    """Steps to the full learning rate."""
    tokens_per_batch: int = Field(default=8_192, ge=1)
    """Of one optimizer step."""
    observation_weight: float = Field(default=0.0, ge=0, le=1)
    """Weight of tokens that the model did not write; 0 leaves them out."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Of AdamW."""
    betas: tuple[float, float] = (0.9, 0.98)
    """Of AdamW."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """The gradient is clipped to this norm."""


class RlStage(_Strict):
    kind: Literal["rl"]
    """Learns from rewards (GRPO and its variants)."""
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,40}$")
    """Unique in the run."""
    task_set: str
    """One of task_sets, of the train split."""
    num_steps: int = Field(ge=1)
    """Optimizer steps."""
    groups_per_step: int = Field(default=8, ge=1)
    """Tasks of a step."""
    group_size: int = Field(default=8, ge=2)
    """Trajectories of a task: its baseline."""
    min_valid: int | None = Field(default=None, ge=2)
    """Fewer valid members drop the group; default half of it, never below 2."""
    max_staleness: int = Field(default=2, ge=0)
    """Weight versions between a trajectory's opening and its step, in the mean: bounds admission."""
    max_token_staleness: int | None = Field(default=None, ge=0)
    """The hard bound in weight versions; default 3 x max_staleness."""
    max_dropped_groups_per_step: int = Field(default=64, ge=1)
    """Beyond it the run says that its tasks may be unfit."""
    temperature: float = Field(default=1.0, gt=0, le=2)
    """Of sampling; the trainer divides its logits by the same."""
    algorithm: Algorithm = Algorithm()
    """The loss and its optimizer."""

    @property
    def required_valid(self) -> int:
        return self.min_valid or default_min_valid(self.group_size)

    @property
    def hard_staleness(self) -> int:
        if self.max_token_staleness is None:
            return 3 * self.max_staleness
        return self.max_token_staleness

    @model_validator(mode="after")
    def _min_valid_fits(self) -> Self:
        if self.required_valid > self.group_size:
            raise ValueError(f"min_valid {self.min_valid} is above group_size {self.group_size}")
        if self.hard_staleness < self.max_staleness:
            raise ValueError("max_token_staleness must not be below max_staleness")
        return self


AnyStage = Annotated[EvalStage | SftStage | RlStage, Field(discriminator="kind")]


class Recipe(_Strict):
    """One file: model, task sets, ordered stages, limits, algorithm, engines, sandboxes."""

    version: Literal[1] = 1
    """Of this schema."""
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,60}$")
    """Lower case, digits and hyphens."""
    description: str = ""
    """Shown with the recipe and its runs."""
    seed: int = Field(default=1, ge=0, lt=2**31)
    """Of weights, task order and sampling."""
    model: Model
    """The first weights."""
    task_sets: dict[str, str]
    """Names used by the stages: the name of an imported task set, or name@version."""
    agent: Agent = Agent()
    """The loop that turns model output into actions, and its caps."""
    timeouts: Timeouts = Timeouts()
    """A chain: llm_call < turn < agent < trajectory; the sandbox outlives them."""
    sandbox: SandboxPlan = SandboxPlan()
    """The isolated place where actions run."""
    engines: Engines = Engines()
    """Inference servers."""
    trainer: Trainer = Trainer()
    """The process that takes optimizer steps."""
    rollout: Rollout = Rollout()
    """How many trajectories, and how often they are tried again."""
    stages: list[AnyStage] = Field(min_length=1)
    """In order; each starts from the weights before it."""

    @model_validator(mode="after")
    def _rules(self) -> Self:
        for rule in (
            self._stage_names_are_unique,
            self._task_sets_exist,
            self._timeouts_form_a_chain,
            self._tokens_fit_the_context,
            self._admission_can_fill,
        ):
            rule()
        return self

    def _stage_names_are_unique(self) -> None:
        names = [stage.name for stage in self.stages]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"stages: two are called {name}; give each its own name")

    def _task_sets_exist(self) -> None:
        for index, stage in enumerate(self.stages):
            if not isinstance(stage, SftStage) and stage.task_set not in self.task_sets:
                raise ValueError(
                    f"stages/{index}/task_set: {stage.task_set} is not one of task_sets "
                    f"({', '.join(self.task_sets) or 'none'})"
                )

    def _timeouts_form_a_chain(self) -> None:
        t = self.timeouts
        chain = [
            ("timeouts/llm_call_s", t.llm_call_s),
            ("timeouts/turn_s", t.turn_s),
            ("timeouts/agent_s", t.agent_s),
            ("timeouts/trajectory_s", t.trajectory_s),
        ]
        for (low_name, low), (high_name, high) in pairwise(chain):
            if low >= high:
                raise ValueError(
                    f"{high_name}: {high:g} s must be more than {low_name} ({low:g} s)"
                )
        needed = t.start_s + t.setup_s + t.agent_s + t.verify_s
        if self.sandbox.lifetime_s < needed:
            raise ValueError(
                f"sandbox/lifetime_s: {self.sandbox.lifetime_s:g} s is shorter than start + setup + "
                f"agent + verify ({needed:g} s); the sandbox would die under its agent"
            )

    def _tokens_fit_the_context(self) -> None:
        if self.agent.token_cap > self.model.context_length:
            raise ValueError(
                f"agent/token_cap: {self.agent.token_cap} is more than model/context_length "
                f"({self.model.context_length})"
            )
        if self.agent.turn_token_cap >= self.agent.token_cap:
            raise ValueError("agent/turn_token_cap: must be below agent/token_cap")

    def _admission_can_fill(self) -> None:
        for index, stage in enumerate(self.stages):
            if not isinstance(stage, RlStage):
                continue
            admitted = (stage.max_staleness + 1) * stage.groups_per_step * stage.group_size
            if self.rollout.max_in_flight > admitted:
                least = (
                    -(-self.rollout.max_in_flight // (stage.groups_per_step * stage.group_size)) - 1
                )
                raise ValueError(
                    f"stages/{index}/max_staleness: {stage.max_staleness} admits at most {admitted} "
                    f"trajectories, fewer than rollout/max_in_flight ({self.rollout.max_in_flight}); "
                    f"set max_staleness to {least} or more, or lower max_in_flight"
                )


def parse(data: Any) -> Recipe:
    """Raises Invalid with one FieldError per wrong field, pointers as in the YAML."""
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        raise Invalid(
            "The recipe has errors.",
            code="recipe_invalid",
            errors=[_field_error(entry["loc"], entry["msg"]) for entry in error.errors()],
        ) from error


def load(text: str) -> Recipe:
    """A recipe from YAML. Raises Invalid."""
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise Invalid(f"The recipe is not YAML: {error}", code="recipe_not_yaml") from error
    if not isinstance(data, dict):
        raise Invalid("The recipe is empty or not a mapping.", code="recipe_not_yaml")
    return parse(data)


def _field_error(location: tuple[int | str, ...], message: str) -> FieldError:
    message = message.removeprefix("Value error, ")
    tags = {"eval", "sft", "rl"}
    path = [str(part) for part in location if part not in tags]
    head, _, rest = message.partition(": ")
    if rest and "/" in head and " " not in head:
        return FieldError(f"/{head}", rest)
    return FieldError("/" + "/".join(path), message)

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


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Model(_Strict):
    path: str
    """A directory in the Hugging Face layout with tokenizer.json: the run's weight version 0."""
    context_length: int = Field(default=65_536, ge=16)


class Agent(_Strict):
    format: Literal["raw", "bash_block"] = "bash_block"
    system: str = ""
    turn_cap: int = Field(default=80, ge=1)
    turn_token_cap: int = Field(default=8_192, ge=1)
    token_cap: int = Field(default=65_536, ge=16)
    observation_bytes: int = Field(default=16_384, ge=64)
    no_action_cap: int = Field(default=3, ge=1)


class Timeouts(_Strict):
    """Seconds, a chain: llm_call < turn < agent < trajectory; the sandbox outlives them all."""

    start_s: float = Field(default=60, gt=0)
    setup_s: float = Field(default=300, gt=0)
    llm_call_s: float = Field(default=600, gt=0)
    command_s: float = Field(default=60, gt=0)
    turn_s: float = Field(default=700, gt=0)
    agent_s: float = Field(default=5_400, gt=0)
    verify_s: float = Field(default=600, gt=0)
    trajectory_s: float = Field(default=7_200, gt=0)


class SandboxPlan(_Strict):
    driver: Literal["local"] = "local"
    memory_mb: int = Field(default=512, ge=16)
    disk_mb: int = Field(default=64, ge=1)
    max_processes: int = Field(default=64, ge=4)
    lifetime_s: float = Field(default=9_000, gt=0)
    max_concurrent: int = Field(default=64, ge=1)


class Engines(_Strict):
    kind: Literal["reference", "attach"] = "reference"
    urls: list[str] = []
    """kind attach: servers that somebody else runs, one engine each."""
    num_engines: int = Field(default=1, ge=1, le=512)
    max_running: int = Field(default=64, ge=1)
    max_queued: int = Field(default=512, ge=1)
    threads: int = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _urls_belong_to_attach(self) -> Self:
        if (self.kind == "attach") != bool(self.urls):
            raise ValueError("kind attach needs urls, and urls need kind attach")
        return self


class Trainer(_Strict):
    backend: Literal["torch"] = "torch"
    threads: int = Field(default=1, ge=1)
    checkpoint_every: int = Field(default=10, ge=1)
    keep_checkpoints: int = Field(default=3, ge=1)
    max_auto_resumes: int = Field(default=3, ge=0)


class Rollout(_Strict):
    max_in_flight: int = Field(default=64, ge=1)
    max_infra_attempts: int = Field(default=4, ge=1)
    """All attempts of one trajectory, the first included; a class may grant fewer (failures.POLICIES)."""


class Algorithm(_Strict):
    """GRPO and its variants; formulas in domain.md, "Mathematics"."""

    advantage: Literal["grpo", "dr_grpo", "rloo"] = "grpo"
    clip_low: float = Field(default=0.2, gt=0)
    clip_high: float = Field(default=0.28, gt=0)
    level: Literal["token", "sequence"] = "token"
    loss_agg: Literal["token_mean", "sequence_mean", "constant"] = "token_mean"
    loss_constant: float | None = Field(default=None, gt=0)
    correction: Literal["tis", "icepop", "none"] = "tis"
    tis_cap: float = Field(default=2.0, gt=0)
    icepop_low: float = Field(default=0.5, gt=0)
    icepop_high: float = Field(default=2.0, gt=0)
    zero_variance: Literal["keep", "resample"] = "keep"
    denominator: Literal["all", "nonzero"] = "all"
    num_minibatches: int = Field(default=1, ge=1)
    learning_rate: float = Field(default=1e-6, gt=0)
    lr_decay: float = Field(default=0.0, ge=0, le=1)
    """Linear: the share of the learning rate that is lost by the last step."""
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = Field(default=0.0, ge=0)
    max_grad_norm: float = Field(default=1.0, gt=0)
    tokens_per_microbatch: int = Field(default=8_192, ge=1)

    @model_validator(mode="after")
    def _constant_has_its_number(self) -> Self:
        if (self.loss_agg == "constant") != (self.loss_constant is not None):
            raise ValueError("loss_constant goes with loss_agg: constant, and only with it")
        return self


class EvalStage(_Strict):
    kind: Literal["eval"]
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,40}$")
    task_set: str
    attempts: int = Field(default=4, ge=1, le=64)
    temperature: float = Field(default=1.0, ge=0, le=2)
    num_tasks: int | None = Field(default=None, ge=1)


class SftStage(_Strict):
    kind: Literal["sft"]
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,40}$")
    traces: str
    """JSONL file of traces (docs/recipes.md)."""
    epochs: float = Field(default=1.0, gt=0)
    learning_rate: float = Field(default=1e-5, gt=0)
    warmup_steps: int = Field(default=30, ge=0)
    tokens_per_batch: int = Field(default=8_192, ge=1)
    observation_weight: float = Field(default=0.0, ge=0, le=1)
    weight_decay: float = Field(default=0.0, ge=0)
    betas: tuple[float, float] = (0.9, 0.98)
    max_grad_norm: float = Field(default=1.0, gt=0)


class RlStage(_Strict):
    kind: Literal["rl"]
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,40}$")
    task_set: str
    num_steps: int = Field(ge=1)
    groups_per_step: int = Field(default=8, ge=1)
    group_size: int = Field(default=8, ge=2)
    min_valid: int | None = Field(default=None, ge=2)
    """Fewer valid members drop the group; default half of it, never below 2."""
    max_staleness: int = Field(default=2, ge=0)
    max_token_staleness: int | None = Field(default=None, ge=0)
    """The hard bound in weight versions; default 3 x max_staleness."""
    max_dropped_groups_per_step: int = Field(default=64, ge=1)
    temperature: float = Field(default=1.0, gt=0, le=2)
    algorithm: Algorithm = Algorithm()

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
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,60}$")
    description: str = ""
    seed: int = Field(default=1, ge=0, lt=2**31)
    model: Model
    task_sets: dict[str, str]
    """Names used by the stages: the name of an imported task set, or name@version."""
    agent: Agent = Agent()
    timeouts: Timeouts = Timeouts()
    sandbox: SandboxPlan = SandboxPlan()
    engines: Engines = Engines()
    trainer: Trainer = Trainer()
    rollout: Rollout = Rollout()
    stages: list[AnyStage] = Field(min_length=1)

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

"""How large a demo run is, and the recipe that says so."""

from __future__ import annotations

from dataclasses import dataclass, replace

TRAIN_SET = "demo-swe-train"
HELD_OUT_SET = "demo-swe-held-out"
NUM_TRAIN_TASKS = 1_200
NUM_HELD_OUT_TASKS = 100


@dataclass(frozen=True)
class Shape:
    """Sizes and settings of one demo run; defaults are the article's 384-trajectory run."""

    name: str = "demo-145"
    description: str = ""
    num_steps: int = 145
    groups_per_step: int = 8
    group_size: int = 8
    max_staleness: int = 5
    max_in_flight: int = 384
    turn_cap: int = 80
    token_cap: int = 65_536
    num_engines: int = 24
    num_eval_tasks: int = 100
    eval_attempts: int = 4
    solve_rates: tuple[float, float, float] = (0.073, 0.128, 0.275)
    sft_steps: int = 480
    num_resumes: int = 3
    num_pauses: int = 2
    learning_rate: float = 1e-6
    advantage: str = "grpo"
    update_s: float = 131.0
    logprob_s: float = 17.0
    max_infra_attempts: int = 3
    salt: int = 1
    """Of the random numbers: with seed 0, one whose run comes near the article's figures."""
    docker_in_flight: int = 128
    """What the first evaluations get: the article's local Docker stage."""

    @property
    def required_valid(self) -> int:
        return max(2, -(-self.group_size // 2))

    @property
    def hard_staleness(self) -> int:
        return 3 * self.max_staleness

    @property
    def checkpoint_every(self) -> int:
        return 10 if self.num_steps >= 60 else 3

    @property
    def crash_steps(self) -> tuple[int, ...]:
        """The steps in whose training the trainer dies: a few steps after a checkpoint."""
        every = self.checkpoint_every
        places = (0.26, 0.58, 0.84)[: self.num_resumes]
        last = [int(self.num_steps * place) // every * every for place in places]
        behind = (7, 4, 6) if every == 10 else (3, 2, 2)
        return tuple(k + b for k, b in zip(last, behind, strict=False) if k + b < self.num_steps)

    @property
    def pause_steps(self) -> tuple[int, ...]:
        return tuple(max(2, int(self.num_steps * p)) for p in (0.14, 0.7)[: self.num_pauses])

    @property
    def outage_step(self) -> int:
        """While this step collects, four engines are lost."""
        return max(2, int(self.num_steps * 0.4))


MAIN_DESCRIPTION = (
    "DEMO DATA: nothing here was run. A synthetic run of the shape of the article's 384-trajectory run "
    "(Qwen3-30B-A3B-Instruct, 145 steps of 8 x 8, three resumes), so that every page can be seen at size. "
    "Sandboxes are labelled docker and e2b as there; texts are shorter than their token counts."
)
OTHER_DESCRIPTION = (
    "DEMO DATA: nothing here was run. A clone of demo-145 with half the turns, groups of 4 and Dr. GRPO, "
    "to compare with."
)


def main_shape(scale: float) -> Shape:
    """The large run, or a smaller one that still has every kind of thing."""
    return replace(
        Shape(description=MAIN_DESCRIPTION),
        num_steps=max(12, round(145 * scale)),
        num_eval_tasks=min(NUM_HELD_OUT_TASKS, max(8, round(100 * scale))),
        sft_steps=max(40, round(480 * scale)),
    )


def other_shape(scale: float) -> Shape:
    """A shorter run of another recipe."""
    return Shape(
        name="demo-60",
        description=OTHER_DESCRIPTION,
        num_steps=max(6, round(60 * scale)),
        group_size=4,
        max_in_flight=192,
        turn_cap=40,
        token_cap=32_768,
        num_engines=12,
        num_eval_tasks=max(8, round(50 * scale)),
        eval_attempts=4,
        solve_rates=(0.073, 0.12, 0.213),
        sft_steps=max(40, round(480 * scale)),
        num_resumes=1,
        num_pauses=0,
        learning_rate=2e-6,
        advantage="dr_grpo",
        update_s=40.0,
        logprob_s=6.0,
    )


def recipe_source(shape: Shape, model: str) -> str:
    """The recipe of the run, as somebody would have written it. model: the path of its directory."""
    urls = "\n".join(
        f"    - http://demo-inference-{index // 8 + 1}:{30000 + index % 8}"
        for index in range(shape.num_engines)
    )
    return f"""\
# Demo data of `manage.py seed_demo`: a recipe in the shape of the article's. It cannot be launched here:
# its model and its engines do not exist.
version: 1
name: {shape.name}
description: >-
  {shape.description}
seed: 20260
model:
  path: {model}
  context_length: 65536
task_sets:
  train: {TRAIN_SET}
  held_out: {HELD_OUT_SET}
agent:
  format: bash_block
  turn_cap: {shape.turn_cap}
  turn_token_cap: 8192
  token_cap: {shape.token_cap}
  observation_bytes: 16384
timeouts:
  start_s: 60
  setup_s: 300
  llm_call_s: 600
  command_s: 60
  turn_s: 700
  agent_s: 5400
  verify_s: 600
  trajectory_s: 7200
sandbox:
  driver: local
  memory_mb: 4096
  disk_mb: 8192
  max_processes: 512
  lifetime_s: 9000
  max_concurrent: {shape.max_in_flight}
engines:
  kind: attach
  max_running: 16
  urls:
{urls}
trainer:
  backend: torch
  threads: 8
  checkpoint_every: {shape.checkpoint_every}
  keep_checkpoints: 3
  max_auto_resumes: 3
rollout:
  max_in_flight: {shape.max_in_flight}
  max_infra_attempts: {shape.max_infra_attempts}
stages:
  - kind: eval
    name: base
    task_set: held_out
    attempts: {shape.eval_attempts}
    num_tasks: {shape.num_eval_tasks}
  - kind: sft
    name: sft-training
    traces: demo/open-swe-traces.jsonl
    epochs: 1
    learning_rate: 1.0e-5
    tokens_per_batch: 65536
  - kind: eval
    name: sft
    task_set: held_out
    attempts: {shape.eval_attempts}
    num_tasks: {shape.num_eval_tasks}
  - kind: rl
    name: rl-training
    task_set: train
    num_steps: {shape.num_steps}
    groups_per_step: {shape.groups_per_step}
    group_size: {shape.group_size}
    max_staleness: {shape.max_staleness}
    algorithm:
      advantage: {shape.advantage}
      learning_rate: {shape.learning_rate:.1e}
      tis_cap: 2.0
  - kind: eval
    name: rl
    task_set: held_out
    attempts: {shape.eval_attempts}
    num_tasks: {shape.num_eval_tasks}
"""

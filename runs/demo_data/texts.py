"""What agents write and sandboxes answer: a library of exchanges, filled in for a task's repository."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from string import Template
from typing import Literal, NamedTuple

import yaml

from runs.demo_data.repositories import DemoTask
from sandboxes.drivers.base import ExecResult
from workers.agent import prompts
from workers.agent.tools import ObservationPolicy, observation_text, storable

Phase = Literal["look", "read", "reproduce", "edit", "test"]
PHASES: tuple[Phase, ...] = ("look", "read", "reproduce", "edit", "test")
_POLICY = ObservationPolicy(max_bytes=2_600)


class Exchange(NamedTuple):
    """An action and its observation, as a turn stores them. weight: how often, beside its phase's others."""

    action: str
    command: str
    observation: str
    log: str
    exit_code: int | None
    is_timed_out: bool
    truncated_bytes: int
    weight: float


@dataclass(frozen=True)
class _Shape:
    phase: Phase
    thought: str
    command: str
    output: str
    exit_code: int = 0
    is_timed_out: bool = False
    weight: float = 1.0


class _At(Template):
    delimiter = "@"


def _library() -> tuple[_Shape, ...]:
    """exchanges.yaml, its shared outputs put in, and the long ones made."""
    document = yaml.safe_load(Path(__file__).with_name("exchanges.yaml").read_text())
    outputs = document["outputs"] | {
        "many_files": "\n".join(f"./docs/_build/html/page-{n:04d}.html" for n in range(240)),
        "build_log": "\n".join(
            f"@{{package}} build {n:03d}: \x1b[36mcompiling\x1b[0m part{n:03d}.c ... ok"
            for n in range(90)
        ),
        "report": ", ".join(f'{{"id": {n}, "outcome": "passed"}}' for n in range(420)),
    }
    return tuple(
        _Shape(**{**entry, "output": outputs.get(entry["output"][1:], entry["output"])})
        for entry in document["exchanges"]
    )


_LIBRARY = _library()


@lru_cache(maxsize=1_024)
def exchanges(task: DemoTask) -> dict[str, tuple[Exchange, ...]]:
    """By phase, what may happen in this task's repository; `submit` and `no_action` have one each."""
    values = {
        "package": task.repository.package,
        "module": task.module,
        "function": task.function,
        "cls": task.cls,
        "number": task.number,
    }
    found: dict[str, tuple[Exchange, ...]] = {
        phase: tuple(_filled(shape, values) for shape in _LIBRARY if shape.phase == phase)
        for phase in PHASES
    }
    submit = _Shape(
        phase="test",
        thought="The tests pass and the tree is clean, so I submit.",
        command=f"echo {prompts.SUBMIT_SENTINEL}",
        output=f"{prompts.SUBMIT_SENTINEL}\n",
    )
    found["submit"] = (_filled(submit, values),)
    said = "I think that the problem lies in the registry. Let me know how to go on."
    found["no_action"] = (unrun(said, prompts.BLOCK_COUNT.format(count=0)),)
    return found


def unrun(action: str, observation: str) -> Exchange:
    """A turn without a command: nothing was run."""
    return Exchange(
        action=action,
        command="",
        observation=observation,
        log="",
        exit_code=None,
        is_timed_out=False,
        truncated_bytes=0,
        weight=1.0,
    )


def _filled(shape: _Shape, values: dict[str, object]) -> Exchange:
    command = _At(shape.command).substitute(values)
    output = storable(_At(shape.output).substitute(values))
    result = ExecResult(
        exit_code=shape.exit_code,
        output=output,
        truncated_bytes=0,
        timed_out=shape.is_timed_out,
        duration_s=0.0,
    )
    observation, truncated = observation_text("bash_block", result, _POLICY)
    is_plain = "\x1b" not in output and "\r" not in output and not truncated
    return Exchange(
        action=f"{shape.thought}\n\n```bash\n{command}\n```",
        command=command,
        observation=observation,
        log="" if is_plain else output,
        exit_code=shape.exit_code,
        is_timed_out=shape.is_timed_out,
        truncated_bytes=truncated,
        weight=shape.weight,
    )

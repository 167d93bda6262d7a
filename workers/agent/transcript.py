"""What a trajectory leaves behind: its tokens, and one record a turn."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import numpy as np

from sandboxes.failures import Failure, FailureClass, FailureStage
from workers.engines.client import Generation
from workers.rl.arrays import TrajectoryArrays


@dataclass(slots=True)
class TurnRecord:
    """One turn as it is stored: filled while it happens, recorded even if the sandbox dies under
    the command.
    """

    index: int
    started_at: float
    """Unix seconds."""
    llm_s: float
    queue_s: float | None
    """Of llm_s, the wait in the engine's queue."""
    finish_reason: str
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    version_min: int
    """The oldest and the newest weights that sampled a token of it."""
    version_max: int
    action: str
    """The model's text."""
    command: str = ""
    observation: str = ""
    """The text the model reads."""
    log: str = ""
    """The output with its escape sequences and what the model did not see; empty where it equals
    the observation.
    """
    exit_code: int | None = None
    exec_s: float = 0.0
    is_timed_out: bool = False
    truncated_bytes: int = 0
    """Bytes of the output that are not in the observation."""


@dataclass
class Transcript:
    """The tokens of a trajectory as the engine sees them, one entry a token in each column, and
    running totals.
    """

    tokens: array[int] = field(default_factory=lambda: array("i"))
    mask: array[int] = field(default_factory=lambda: array("B"))
    logprobs: array[float] = field(default_factory=lambda: array("f"))
    versions: array[int] = field(default_factory=lambda: array("i"))
    num_turns: int = 0
    num_llm_errors: int = 0
    """Model calls that failed, tried again or not."""
    llm_s: float = 0.0
    exec_s: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0

    def append(self, forced: list[int], generation: Generation) -> None:
        """One model call: the tokens that the policy did not choose (prompt, observation, a missing
        end token), then what it sampled.

        Raises Failure(infer, infer_infra) for an answer without any token, and appends nothing.
        """
        ids = generation.output_ids
        if not ids:
            problem = "the engine's answer has no token"
            raise Failure(FailureStage.INFER, FailureClass.INFER_INFRA, problem)
        self.tokens.extend(forced)
        self.tokens.extend(ids)
        self.mask.frombytes(bytes(len(forced)) + b"\x01" * len(ids))
        self.logprobs.extend([0.0] * len(forced))
        self.logprobs.extend(generation.logprobs)
        self.versions.extend([-1] * len(forced))
        self.versions.extend(generation.versions)
        self.llm_s += generation.latency_s
        self.prompt_tokens += generation.prompt_tokens
        self.cached_tokens += generation.cached_tokens
        self.output_tokens += len(ids)

    def arrays(self) -> TrajectoryArrays:
        return TrajectoryArrays(
            tokens=np.array(self.tokens, dtype=np.int32),
            mask=np.array(self.mask, dtype=np.uint8),
            logprobs=np.array(self.logprobs, dtype=np.float32),
            versions=np.array(self.versions, dtype=np.int32),
        )

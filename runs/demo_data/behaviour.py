"""What one attempt is like: how it ends, how many turns, how long each took. Pure, seeded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

AGENT_S = 5_400.0
COMMAND_S = 60.0
"""A command that takes as long was stopped."""
MEDIAN_SOLVED_TURNS = 8
PROMPT_TOKENS = 1_650

# How an attempt that does not solve its task ends, beside the turn cap.
_OTHER_ENDS = (
    ("submitted", 0.012),
    ("token_cap", 0.010),
    ("turn_token_cap", 0.006),
    ("time_cap", 0.004),
    ("no_action", 0.003),
    ("loop", 0.006),
)


@dataclass(slots=True)
class Behaviour:
    """One attempt, were nothing to go wrong. Arrays have one entry a turn."""

    stop_reason: str
    is_solved: bool
    llm_s: Floats
    queue_s: Floats
    exec_s: Floats
    output_tokens: Ints
    observation_tokens: Ints
    start_s: float
    setup_s: float
    verify_s: float
    teardown_s: float
    loops_from: int
    """From this turn on the agent repeats itself; num_turns when it never does."""

    @property
    def num_turns(self) -> int:
        return len(self.llm_s)

    def first_turn_s(self) -> float:
        """Seconds from the claim to the first model call."""
        return self.start_s + self.setup_s

    def turn_starts(self) -> Floats:
        """Seconds from the claim to the start of each turn."""
        spent = np.cumsum(self.llm_s + self.exec_s)
        return self.first_turn_s() + np.concatenate(([0.0], spent[:-1]))

    def agent_end_s(self) -> float:
        return float(self.first_turn_s() + self.llm_s.sum() + self.exec_s.sum())


def draw_behaviour(
    rng: np.random.Generator,
    *,
    is_solved: bool,
    turn_cap: int,
    token_cap: int,
    driver: str,
    slowness: float,
) -> Behaviour:
    """slowness: how much longer than others its model calls take (a straggler's is large)."""
    stop_reason = _end_of(rng, is_solved=is_solved)
    num_turns = _turns_of(rng, stop_reason, is_solved=is_solved, turn_cap=turn_cap)
    growth = 1 + 0.5 * np.arange(num_turns) / turn_cap
    llm_s = rng.lognormal(1.23, 0.62, num_turns) * growth * slowness
    exec_s = rng.lognormal(-1.15, 0.9, num_turns) + (0.26 if driver == "e2b" else 0.02)
    slow_command = rng.random(num_turns) < 0.003
    exec_s[slow_command] = COMMAND_S
    output = np.clip(rng.lognormal(5.93, 0.55, num_turns), 24, 4_000)
    observed = np.clip(rng.lognormal(4.6, 0.9, num_turns), 12, 3_000)
    room = token_cap - PROMPT_TOKENS - 64
    total = float(output.sum() + observed.sum())
    if stop_reason == "token_cap" or total > room:
        factor = room / total
        output, observed = output * factor, observed * factor
    if stop_reason == "turn_token_cap":
        output[-1] = 8_192
        factor = min(1.0, (room - 8_192) / total)
        output[:-1] *= factor
        observed *= factor
    if stop_reason == "time_cap":
        llm_s *= (AGENT_S - exec_s.sum()) / llm_s.sum()
    elif (spent := float(llm_s.sum() + exec_s.sum())) > AGENT_S:
        llm_s *= 0.97 * AGENT_S / spent
        exec_s *= 0.97 * AGENT_S / spent
    repeats = not is_solved and num_turns > 20 and rng.random() < 0.45
    is_docker = driver == "docker"
    return Behaviour(
        stop_reason=stop_reason,
        is_solved=is_solved,
        llm_s=llm_s,
        queue_s=np.minimum(rng.exponential(0.02, num_turns), llm_s / 2),
        exec_s=exec_s,
        output_tokens=np.maximum(1, output).astype(np.int64),
        observation_tokens=np.maximum(1, observed).astype(np.int64),
        start_s=float(rng.lognormal(*((2.46, 0.45) if is_docker else (0.64, 0.28)))),
        setup_s=float(rng.lognormal(*((2.3, 0.3) if is_docker else (2.86, 0.25)))),
        verify_s=float(rng.lognormal(*((3.1, 0.5) if is_docker else (3.43, 0.45)))),
        teardown_s=float(rng.lognormal(0.1, 0.5)),
        loops_from=int(num_turns * rng.uniform(0.35, 0.8)) if repeats else num_turns,
    )


def _end_of(rng: np.random.Generator, *, is_solved: bool) -> str:
    draw = rng.random()
    if is_solved:
        return "turn_cap" if draw < 0.08 else "submitted"
    for reason, share in _OTHER_ENDS:
        if draw < share:
            return reason
        draw -= share
    return "turn_cap"


def _turns_of(rng: np.random.Generator, stop_reason: str, *, is_solved: bool, turn_cap: int) -> int:
    if stop_reason == "turn_cap":
        return turn_cap
    if is_solved:
        turns = round(float(rng.lognormal(np.log(MEDIAN_SOLVED_TURNS), 0.6)))
        return int(min(max(turns, 3), turn_cap - 1))
    low, high = {
        "submitted": (0.15, 0.9),
        "token_cap": (0.55, 0.95),
        "turn_token_cap": (0.1, 0.8),
        "time_cap": (0.5, 0.9),
        "no_action": (0.04, 0.2),
        "loop": (0.3, 0.85),
    }[stop_reason]
    return max(3, int(turn_cap * rng.uniform(low, high)))

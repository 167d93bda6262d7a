"""Traces for the supervised stage: what hasty colleagues did on training repositories, good or bad.

They show the format (`try K`, `submit`) and a mediocre search: most give up early, some repeat
themselves, few go down the list. What the reinforced stage adds is which of these habits pays.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TypedDict

from recipes.miniature.tasks import Task

MAX_TRIES = 9
SUBMIT = "submit"


class Turn(TypedDict):
    action: str
    observation: str


class Trace(TypedDict):
    """A line of traces.jsonl."""

    system: str
    instruction: str
    turns: list[Turn]
    reward: float


@dataclass(frozen=True)
class Habit:
    share: float
    goes_on: float
    """Probability of another try after a failed one; else it submits what is there."""
    repeats: float
    """Probability that a further try is one of the earlier ones."""
    is_orderly: bool = False
    """Takes the candidates from the first on, each after its predecessor; otherwise any order."""


HABITS = (
    Habit(share=0.55, goes_on=0.35, repeats=0.15),
    Habit(share=0.20, goes_on=0.85, repeats=0.0),
    Habit(share=0.25, goes_on=0.85, repeats=0.0, is_orderly=True),
)
IGNORES_SUCCESS = 0.05


def write_trace(task: Task, rng: random.Random) -> Trace:
    habit = rng.choices(HABITS, [h.share for h in HABITS])[0]
    tried: list[int] = []
    turns: list[Turn] = []
    reward = 0.0
    while len(turns) < MAX_TRIES:
        candidate = _choose(habit, tried, len(task.candidates), rng)
        tried.append(candidate)
        result, reward = task.outcome(candidate)
        turns.append({"action": f"try {candidate + 1}", "observation": try_answer(result, tried)})
        if rng.random() >= (IGNORES_SUCCESS if result == "OK" else habit.goes_on):
            break
    turns.append({"action": SUBMIT, "observation": ""})
    return {"system": "", "instruction": task.instruction, "turns": turns, "reward": reward}


def try_answer(result: str, tried: list[int]) -> str:
    """What `try` prints (check.py in harbor/environment); candidates counted from 0."""
    return result if result == "OK" else f"{result} tried " + " ".join(str(k + 1) for k in tried)


def _choose(habit: Habit, tried: list[int], num_candidates: int, rng: random.Random) -> int:
    if habit.is_orderly:
        return len(tried) % num_candidates
    if tried and rng.random() < habit.repeats:
        return rng.choice(tried)
    return rng.choice([k for k in range(num_candidates) if k not in tried] or tried)

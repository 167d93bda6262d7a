"""The turns of an attempt as they are stored: texts of its task, times of its plan."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache

import numpy as np

from runs.demo_data.behaviour import COMMAND_S, PROMPT_TOKENS
from runs.demo_data.plan import Plan
from runs.demo_data.records import AttemptPlan
from runs.demo_data.repositories import DemoTask
from runs.demo_data.texts import PHASES, Exchange, exchanges, unrun
from runs.services.turns import TurnValues
from workers.agent.prompts import CUT_SHORT

# By how far an attempt is, how likely each of PHASES is.
_MIXES = (
    (0.12, (0.75, 0.25, 0.0, 0.0, 0.0)),
    (0.3, (0.25, 0.45, 0.25, 0.05, 0.0)),
    (0.6, (0.1, 0.25, 0.2, 0.35, 0.1)),
    (2.0, (0.05, 0.15, 0.1, 0.3, 0.4)),
)


@lru_cache(maxsize=2_048)
def _choices(task: DemoTask, stretch: int) -> tuple[list[Exchange], np.ndarray]:
    """What can happen in this stretch of an attempt, and its cumulative weights."""
    library = exchanges(task)
    found: list[Exchange] = []
    weights: list[float] = []
    for phase, share in zip(PHASES, _MIXES[stretch][1], strict=True):
        usual = [e for e in library[phase] if not e.is_timed_out]
        total = sum(e.weight for e in usual)
        found += usual
        weights += [share * e.weight / total for e in usual]
    return found, np.cumsum(weights)


def script(plan: AttemptPlan, task: DemoTask, rng: np.random.Generator) -> list[Exchange]:
    """What the agent did, turn by turn: looking first, testing last, or the same again and again."""
    behaviour = plan.behaviour
    num = behaviour.num_turns
    draws = rng.random(num)
    length = max(num, 20)
    places = np.searchsorted([m[0] for m in _MIXES], np.arange(num) / length)
    found = []
    for stretch in range(len(_MIXES)):
        options, cumulative = _choices(task, stretch)
        picks = np.searchsorted(cumulative, draws[places == stretch] * cumulative[-1])
        found += [options[i] for i in np.minimum(picks, len(options) - 1)]
    if behaviour.loops_from < num:
        again = found[behaviour.loops_from]
        found[behaviour.loops_from :] = [again] * (num - behaviour.loops_from)
    library = exchanges(task)
    slow = [e for phase in PHASES for e in library[phase] if e.is_timed_out]
    for index in np.flatnonzero(behaviour.exec_s > 0.9 * COMMAND_S).tolist():
        found[index] = slow[index % len(slow)]
    if behaviour.stop_reason == "submitted":
        found[-1] = library["submit"][0]
    elif behaviour.stop_reason == "no_action":
        found[-3:] = [library["no_action"][0]] * 3
    elif behaviour.stop_reason == "turn_token_cap":
        thought = "I will think about every caller. " * 40
        found[-1] = unrun(thought, CUT_SHORT.format(limit=8_192))
    return found


def turns_of(
    run: Plan, attempt: AttemptPlan, task: DemoTask, began: datetime, seed: int
) -> Iterator[TurnValues]:
    """began: when the run did."""
    num = attempt.num_turns
    if not num or attempt.started_at is None:
        return
    behaviour, member = attempt.behaviour, attempt.member
    group = member.group
    rng = np.random.default_rng(
        [seed, group.stage.index, group.index, member.index, attempt.number]
    )
    said = script(attempt, task, rng)
    starts = (behaviour.turn_starts()[:num] + attempt.started_at).tolist()
    output = behaviour.output_tokens[:num]
    grown = np.cumsum(output + behaviour.observation_tokens[:num])
    prompt = PROMPT_TOKENS + grown - output - behaviour.observation_tokens[:num]
    cached = np.concatenate(([min(512, PROMPT_TOKENS)], prompt[:-1] + output[:-1]))
    rows = zip(
        said,
        starts,
        behaviour.llm_s.tolist(),
        behaviour.queue_s.tolist(),
        behaviour.exec_s.tolist(),
        prompt.tolist(),
        output.tolist(),
        cached.tolist(),
        strict=False,
    )
    for index, (
        text,
        start,
        llm_s,
        queue_s,
        exec_s,
        num_prompt,
        num_output,
        num_cached,
    ) in enumerate(rows):
        version = run.version_at(start)
        yield TurnValues(
            turn_index=index,
            started_at=began + timedelta(seconds=start),
            llm_s=round(llm_s, 3),
            queue_s=round(queue_s, 4),
            exec_s=round(exec_s, 3),
            action=text.action,
            command=text.command,
            observation=text.observation,
            log=text.log,
            exit_code=text.exit_code,
            finish_reason="length" if num_output == 8_192 else "stop",
            prompt_tokens=num_prompt,
            output_tokens=num_output,
            cached_tokens=num_cached,
            version_min=version,
            version_max=version,
            is_timed_out=text.is_timed_out,
            truncated_bytes=text.truncated_bytes,
        )

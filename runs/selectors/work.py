"""What a run's attempts came to: where their time, turns and tokens went. One query for all of it.

Every trajectory has one fate, so that counts, turns and tokens of the fates add up to the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Literal, NamedTuple

from django.db import connection
from typing_extensions import TypeAliasType, TypedDict

Fate = TypeAliasType(
    "Fate",
    Literal[
        "trained",
        "zero_advantage",
        "waiting",
        "open",
        "stale",
        "released",
        "invalid",
        "superseded",
        "cancelled",
    ],
)
TimePart = TypeAliasType(
    "TimePart", Literal["start", "setup", "llm", "exec", "verify", "teardown", "other"]
)
TimePopulation = TypeAliasType(
    "TimePopulation", Literal["finished_ok", "finished", "with_in_flight"]
)
SelectionPopulation = TypeAliasType(
    "SelectionPopulation", Literal["finished", "consumed", "discarded", "waiting"]
)

FATES: tuple[Fate, ...] = Fate.__value__.__args__
CONSUMED: tuple[Fate, ...] = ("trained", "zero_advantage")
DISCARDED: tuple[Fate, ...] = ("stale", "released", "invalid", "superseded", "cancelled")
MEASURED = ("start", "setup", "llm", "exec", "verify", "teardown")


class FateTotalRow(TypedDict):
    """RL trajectories with one fate, and the turns and sampled tokens that were spent on them.

    Turns and tokens of an attempt that the infrastructure failed count as invalid, also where a later attempt
    of the same trajectory completed.
    """

    fate: Fate
    trajectories: int
    turns: int
    tokens: int


class TimeShareRow(TypedDict):
    part: TimePart
    mean_s: float
    share: float


class TimeSplitRow(TypedDict):
    """Where the time of an attempt goes, means over its population of all stages. The parts add up to mean_s.

    queue_s is the wait before the attempt began, which is not part of it. other is what no stage accounts for.
    """

    population: TimePopulation
    num_attempts: int
    mean_s: float
    queue_s: float
    parts: list[TimeShareRow]


class SelectionRow(TypedDict):
    """RL trajectories of one population: finished = consumed + discarded + waiting, in every sum.

    mean_reward is over the num_valid that have one; those that are waiting lie in a group that no step has claimed.
    """

    population: SelectionPopulation
    num: int
    num_valid: int
    sum_turns: int
    sum_reward: float
    mean_turns: float | None
    mean_reward: float | None


class CallsRow(TypedDict):
    """Model calls of all attempts: turns that came back and calls that failed (tried again or not)."""

    calls: int
    errors: int
    error_rate: float | None


class LoopRow(TypedDict):
    """One trajectory as a loop, means over completed attempts of all stages; outcomes are of the newest attempts."""

    trajectories: int
    solved: int
    unsolved: int
    invalid: int
    cancelled: int
    running: int
    mean_turns: float | None
    start_s: float | None
    llm_s_per_turn: float | None
    exec_s_per_turn: float | None
    verify_s: float | None


class Cell(NamedTuple):
    """Sums over the attempts of one (kind of stage, attempt status, fate); newest_* over the deciding ones."""

    kind: str
    status: str
    fate: Fate
    attempts: int
    turns: int
    tokens: int
    errors: int
    timed: int
    duration_s: float
    queue_s: float
    start: float
    setup: float
    llm: float
    exec: float
    verify: float
    teardown: float
    newest: int
    newest_turns: int
    valid: int
    solved: int
    reward: float
    recent: int


class InFlight(NamedTuple):
    """Attempts in flight: their age, and what their recorded turns took so far."""

    num: int = 0
    age_s: float = 0.0
    queue_s: float = 0.0
    llm_s: float = 0.0
    exec_s: float = 0.0


_WORK = """
SELECT
  stage.kind, attempt.status, attempt.cancel_reason, trajectory.status, grp.status, grp.drop_reason,
  coalesce(trajectory.advantage, 0) <> 0 AS has_advantage,
  count(*), sum(attempt.num_turns), sum(attempt.output_tokens), sum(attempt.num_llm_errors),
  count(*) FILTER (WHERE attempt.started_at IS NOT NULL AND attempt.finished_at IS NOT NULL),
  coalesce(sum(date_part('epoch', attempt.finished_at - attempt.started_at)), 0),
  coalesce(sum(date_part('epoch', attempt.started_at - attempt.created_at))
    FILTER (WHERE attempt.finished_at IS NOT NULL), 0),
  coalesce(sum((attempt.timings->>'start')::float8), 0),
  coalesce(sum((attempt.timings->>'setup')::float8), 0),
  coalesce(sum((attempt.timings->>'llm')::float8), 0),
  coalesce(sum((attempt.timings->>'exec')::float8), 0),
  coalesce(sum((attempt.timings->>'verify')::float8), 0),
  coalesce(sum((attempt.timings->>'teardown')::float8), 0),
  count(*) FILTER (WHERE attempt.number = trajectory.num_attempts),
  coalesce(sum(trajectory.num_turns) FILTER (WHERE attempt.number = trajectory.num_attempts), 0),
  count(trajectory.reward) FILTER (WHERE attempt.number = trajectory.num_attempts),
  count(*) FILTER (WHERE attempt.number = trajectory.num_attempts AND trajectory.reward >= 1),
  coalesce(sum(trajectory.reward) FILTER (WHERE attempt.number = trajectory.num_attempts), 0),
  count(*) FILTER (WHERE attempt.number = trajectory.num_attempts AND trajectory.status = 'completed'
    AND trajectory.finished_at >= %(since)s)
FROM runs_attempt AS attempt
JOIN runs_trajectory AS trajectory ON trajectory.id = attempt.trajectory_id
JOIN runs_group AS grp ON grp.id = trajectory.group_id
JOIN runs_stage AS stage ON stage.id = attempt.stage_id
WHERE attempt.run_id = %(run)s
GROUP BY stage.kind, attempt.status, attempt.cancel_reason, trajectory.status, grp.status, grp.drop_reason,
  has_advantage
"""


def work(run_id: int, *, since: datetime) -> list[Cell]:
    """The cells of a run; `recent` counts trajectories that completed after `since`.

    The newest attempt of a trajectory, whose number is the number of attempts, speaks for it.
    """
    with connection.cursor() as cursor:
        cursor.execute(_WORK, {"run": run_id, "since": since})
        return [
            Cell(kind, status, fate_of(ended_as, cancelled, group, dropped, has_advantage), *sums)
            for kind, status, cancelled, ended_as, group, dropped, has_advantage, *sums in (
                cursor.fetchall()
            )
        ]


_OF_CANCELLED: dict[str, Fate] = {
    "stale": "stale",
    "group_released": "released",
    "superseded": "superseded",
}
_OF_DROPPED: dict[str, Fate] = {
    "stale": "stale",
    "superseded": "superseded",
    "too_few_valid": "invalid",
    "zero_variance": "zero_advantage",
}


def fate_of(
    trajectory: str,
    cancel_reason: str,
    group: str,
    drop_reason: str,
    has_advantage: bool,  # noqa: FBT001
) -> Fate:
    """What became of a trajectory: its status, its attempt's cancel reason, its group's status and drop reason."""
    if trajectory == "open":
        return "open"
    if trajectory == "failed":
        return "invalid"
    if trajectory == "cancelled":
        return _OF_CANCELLED.get(cancel_reason, "cancelled")
    if group == "dropped":
        return _OF_DROPPED.get(drop_reason, "cancelled")
    if group == "consumed":
        return "trained" if has_advantage else "zero_advantage"
    return "waiting"


def fates(cells: Iterable[Cell]) -> list[FateTotalRow]:
    """Goodput and its waste: RL stages only. Fates that nothing has are there with zeros."""
    rows = {fate: FateTotalRow(fate=fate, trajectories=0, turns=0, tokens=0) for fate in FATES}
    for cell in cells:
        if cell.kind != "rl":
            continue
        rows[cell.fate]["trajectories"] += cell.newest
        spent = rows["invalid" if cell.status == "failed" else cell.fate]
        spent["turns"] += cell.turns
        spent["tokens"] += cell.tokens
    return list(rows.values())


def selection(cells: Iterable[Cell]) -> list[SelectionRow]:
    """Members are not missing at random (invariant 2): who was consumed, who was not."""
    rl = [cell for cell in cells if cell.kind == "rl" and cell.fate != "open"]
    populations: dict[SelectionPopulation, Callable[[Cell], bool]] = {
        "finished": lambda cell: True,  # noqa: ARG005
        "consumed": lambda cell: cell.fate in CONSUMED,
        "discarded": lambda cell: cell.fate in DISCARDED,
        "waiting": lambda cell: cell.fate == "waiting",
    }
    return [_selected(name, [c for c in rl if has(c)]) for name, has in populations.items()]


def _selected(name: SelectionPopulation, cells: list[Cell]) -> SelectionRow:
    num = sum(cell.newest for cell in cells)
    num_valid = sum(cell.valid for cell in cells)
    turns = sum(cell.newest_turns for cell in cells)
    reward = sum(cell.reward for cell in cells)
    return SelectionRow(
        population=name,
        num=num,
        num_valid=num_valid,
        sum_turns=turns,
        sum_reward=reward,
        mean_turns=turns / num if num else None,
        mean_reward=reward / num_valid if num_valid else None,
    )


def calls(cells: Iterable[Cell], in_flight_turns: int = 0) -> CallsRow:
    found = list(cells)
    errors = sum(cell.errors for cell in found)
    total = sum(cell.turns for cell in found) + errors + in_flight_turns
    return CallsRow(calls=total, errors=errors, error_rate=errors / total if total else None)


def time_splits(cells: Iterable[Cell], in_flight: InFlight) -> list[TimeSplitRow]:
    """The same split over three populations: averages over what ended well hide what hangs."""
    found = list(cells)
    ok = [cell for cell in found if cell.status == "completed"]
    return [
        _time_split("finished_ok", ok, InFlight()),
        _time_split("finished", found, InFlight()),
        _time_split("with_in_flight", found, in_flight),
    ]


def _time_split(name: TimePopulation, cells: list[Cell], live: InFlight) -> TimeSplitRow:
    num = sum(cell.timed for cell in cells) + live.num
    total = sum(cell.duration_s for cell in cells) + live.age_s
    sums = {part: float(sum(getattr(cell, part) for cell in cells)) for part in MEASURED}
    sums["llm"] += live.llm_s
    sums["exec"] += live.exec_s
    sums["other"] = max(0.0, total - sum(sums.values()))
    whole = sum(sums.values())
    return TimeSplitRow(
        population=name,
        num_attempts=num,
        mean_s=whole / num if num else 0.0,
        queue_s=(sum(cell.queue_s for cell in cells) + live.queue_s) / num if num else 0.0,
        parts=[
            TimeShareRow(
                part=part,  # type: ignore[typeddict-item]
                mean_s=value / num if num else 0.0,
                share=value / whole if whole else 0.0,
            )
            for part, value in sums.items()
        ],
    )


def loop(cells: Iterable[Cell]) -> LoopRow:
    found = list(cells)
    ok = [cell for cell in found if cell.status == "completed"]
    num, turns = sum(cell.timed for cell in ok), sum(cell.turns for cell in ok)

    def per(total: float, n: int) -> float | None:
        return total / n if n else None

    valid = sum(cell.valid for cell in found)
    solved = sum(cell.solved for cell in found)
    failed = sum(cell.newest for cell in found if cell.status == "failed" and cell.fate != "open")
    return LoopRow(
        trajectories=sum(cell.newest for cell in found),
        solved=solved,
        unsolved=valid - solved,
        invalid=failed,
        cancelled=sum(cell.newest for cell in found if cell.status == "cancelled"),
        running=sum(cell.newest for cell in found if cell.fate == "open"),
        mean_turns=per(turns, num),
        start_s=per(sum(cell.start + cell.setup for cell in ok), num),
        llm_s_per_turn=per(sum(cell.llm for cell in ok), turns),
        exec_s_per_turn=per(sum(cell.exec for cell in ok), turns),
        verify_s=per(sum(cell.verify for cell in ok), num),
    )

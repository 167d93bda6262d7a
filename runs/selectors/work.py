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
WITH facts AS (
  SELECT
    stage.kind, attempt.status, attempt.num_turns, attempt.output_tokens, attempt.num_llm_errors,
    attempt.created_at, attempt.started_at, attempt.finished_at, attempt.timings,
    trajectory.reward, trajectory.status AS ended_as, trajectory.num_turns AS ended_turns,
    trajectory.finished_at AS ended_at,
    row_number() OVER (PARTITION BY attempt.trajectory_id ORDER BY attempt.number DESC) = 1 AS is_newest,
    CASE
      WHEN trajectory.status = 'open' THEN 'open'
      WHEN trajectory.status = 'failed' THEN 'invalid'
      WHEN trajectory.status = 'cancelled' THEN
        CASE attempt.cancel_reason WHEN 'stale' THEN 'stale' WHEN 'group_released' THEN 'released'
          WHEN 'superseded' THEN 'superseded' ELSE 'cancelled' END
      WHEN grp.status = 'consumed' THEN
        CASE WHEN coalesce(trajectory.advantage, 0) = 0 THEN 'zero_advantage' ELSE 'trained' END
      WHEN grp.status = 'dropped' THEN
        CASE grp.drop_reason WHEN 'too_few_valid' THEN 'invalid' WHEN 'zero_variance' THEN 'zero_advantage'
          ELSE grp.drop_reason END
      ELSE 'waiting'
    END AS fate
  FROM runs_attempt AS attempt
  JOIN runs_trajectory AS trajectory ON trajectory.id = attempt.trajectory_id
  JOIN runs_group AS grp ON grp.id = trajectory.group_id
  JOIN runs_stage AS stage ON stage.id = attempt.stage_id
  WHERE attempt.run_id = %(run)s
), timed AS (
  SELECT *, started_at IS NOT NULL AND finished_at IS NOT NULL AS is_timed FROM facts
)
SELECT
  kind, status, fate, count(*), sum(num_turns), sum(output_tokens), sum(num_llm_errors),
  count(*) FILTER (WHERE is_timed),
  coalesce(sum(extract(epoch FROM finished_at - started_at)) FILTER (WHERE is_timed), 0)::float8,
  coalesce(sum(extract(epoch FROM started_at - created_at)) FILTER (WHERE is_timed), 0)::float8,
  coalesce(sum((timings->>'start')::float8) FILTER (WHERE is_timed), 0),
  coalesce(sum((timings->>'setup')::float8) FILTER (WHERE is_timed), 0),
  coalesce(sum((timings->>'llm')::float8) FILTER (WHERE is_timed), 0),
  coalesce(sum((timings->>'exec')::float8) FILTER (WHERE is_timed), 0),
  coalesce(sum((timings->>'verify')::float8) FILTER (WHERE is_timed), 0),
  coalesce(sum((timings->>'teardown')::float8) FILTER (WHERE is_timed), 0),
  count(*) FILTER (WHERE is_newest),
  coalesce(sum(ended_turns) FILTER (WHERE is_newest), 0),
  count(reward) FILTER (WHERE is_newest),
  count(*) FILTER (WHERE is_newest AND reward >= 1),
  coalesce(sum(reward) FILTER (WHERE is_newest), 0)::float8,
  count(*) FILTER (WHERE is_newest AND ended_as = 'completed' AND ended_at >= %(since)s)
FROM timed GROUP BY kind, status, fate
"""


def work(run_id: int, *, since: datetime) -> list[Cell]:
    """The cells of a run; `recent` counts trajectories that completed after `since`."""
    with connection.cursor() as cursor:
        cursor.execute(_WORK, {"run": run_id, "since": since})
        return [Cell(*row) for row in cursor.fetchall()]


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

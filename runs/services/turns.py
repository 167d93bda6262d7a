"""Turns are written by COPY, many attempts at once, and only for attempts whose lease still holds."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db import IntegrityError, connection, transaction

from controlplane.live import followed, publish
from runs.events import TurnsAdded, trajectory_topic


class TurnValues(NamedTuple):
    """One turn, in the order of the columns."""

    turn_index: int
    started_at: datetime
    llm_s: float
    queue_s: float | None
    exec_s: float
    action: str
    command: str
    observation: str
    log: str
    exit_code: int | None
    finish_reason: str
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    version_min: int | None
    version_max: int | None
    is_timed_out: bool
    truncated_bytes: int


@dataclass(frozen=True)
class AttemptTurns:
    """New turns of one attempt, in order, under the lease that they were made under."""

    project_id: int
    trajectory_id: int
    attempt_id: int
    token: uuid.UUID
    turns: Sequence[TurnValues]


COPY_TURNS = (
    "COPY runs_turn (attempt_id, index, started_at, llm_s, queue_s, exec_s, action, command, observation, log,"
    " exit_code, finish_reason, prompt_tokens, output_tokens, cached_tokens, version_min,"
    " version_max, is_timed_out, truncated_bytes) FROM STDIN"
)


def copy_turns(batch: Sequence[AttemptTurns]) -> set[int]:
    """Write the batch in one transaction; returns the attempts whose lease is gone: their rows are discarded.

    May be called again with a batch whose commit nobody heard of. Raises DatabaseError; ValueError for text
    that is none.
    """
    try:
        return _copy(batch)
    except IntegrityError:
        return _copy(batch, is_again=True)


@transaction.atomic
def _copy(batch: Sequence[AttemptTurns], *, is_again: bool = False) -> set[int]:
    ids = [entry.attempt_id for entry in batch]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, lease_token FROM runs_attempt WHERE id = ANY(%s)"
            " AND status IN ('starting', 'running', 'grading') ORDER BY id FOR SHARE",
            [ids],
        )
        tokens = dict(cursor.fetchall())
        kept = [entry for entry in batch if tokens.get(entry.attempt_id) == entry.token]
        if is_again:
            for entry in kept:
                indexes = [turn.turn_index for turn in entry.turns]
                cursor.execute(
                    "DELETE FROM runs_turn WHERE attempt_id = %s AND index = ANY(%s)",
                    [entry.attempt_id, indexes],
                )
        # Django's cursor hands COPY through as psycopg's: its errors would not be DatabaseErrors
        with connection.wrap_database_errors, cursor.copy(COPY_TURNS) as copy:
            for entry in kept:
                for turn in entry.turns:
                    copy.write_row((entry.attempt_id, *turn))
    _tell(kept)
    return set(ids) - {entry.attempt_id for entry in kept}


def _tell(batch: Sequence[AttemptTurns]) -> None:
    topics = {trajectory_topic(e.project_id, e.trajectory_id): e for e in batch if e.turns}
    for topic in followed(list(topics)):
        entry = topics[topic]
        publish(
            topic,
            TurnsAdded(
                trajectory=entry.trajectory_id,
                attempt=entry.attempt_id,
                first_index=entry.turns[0].turn_index,
                last_index=entry.turns[-1].turn_index,
            ),
        )

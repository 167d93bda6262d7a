"""The whole log of an attempt as numbered lines: commands and outputs turn by turn, then the verifier.

PostgreSQL splits, numbers and searches, so a page costs its own lines only on the wire, and a pattern is
matched by an engine without catastrophic backtracking, under a time limit.
"""

from __future__ import annotations

from typing import Any, Literal

from django.db import DataError, OperationalError, connection, transaction
from typing_extensions import TypeAliasType, TypedDict

from controlplane.accounts.access import Actor
from controlplane.errors import Invalid
from runs.selectors.inspector import attempt_of

MAX_LINE_CHARS = 4_000
MAX_LINES = 2_000
DEFAULT_LINES = 500
SEARCH_MS = 3_000

LogPart = TypeAliasType("LogPart", Literal["command", "output", "verifier"])
_PARTS: tuple[LogPart, ...] = ("command", "output", "verifier")


class LogLineRow(TypedDict):
    """Line `number` of the log, from 1. A longer `length` than its text: `turn_text` has the rest from `start`."""

    number: int
    turn: int | None
    part: LogPart
    text: str
    length: int
    start: int
    source: Literal["command", "observation", "log", "verifier"]


class LogRow(TypedDict):
    """Lines from a number on; with a search, those that match and how many do."""

    attempt: int
    total: int
    num_hits: int | None
    lines: list[LogLineRow]


# A last newline ends the last line; it does not begin another.
_LINES = """
WITH parts AS (
    SELECT index AS turn, 0 AS part, 'command' AS source, command AS body
    FROM runs_turn WHERE attempt_id = %(attempt)s AND command <> ''
    UNION ALL
    SELECT index, 1, CASE WHEN log = '' THEN 'observation' ELSE 'log' END,
           CASE WHEN log = '' THEN observation ELSE log END
    FROM runs_turn WHERE attempt_id = %(attempt)s AND (log <> '' OR observation <> '')
    UNION ALL
    SELECT NULL, 2, 'verifier', grade ->> 'output'
    FROM runs_attempt WHERE id = %(attempt)s AND grade ->> 'output' <> ''
), split AS (
    SELECT turn, part, source, line, ord
    FROM parts, unnest(string_to_array(
        CASE WHEN right(body, 1) = E'\\n' THEN left(body, -1) ELSE body END, E'\\n'
    )) WITH ORDINALITY AS at (line, ord)
), lines AS MATERIALIZED (
    SELECT row_number() OVER (ORDER BY turn NULLS LAST, part, ord) AS number,
           turn, part, source, line, length(line) AS size,
           sum(length(line) + 1) OVER (PARTITION BY turn, part ORDER BY ord)
               - length(line) - 1 AS start
    FROM split
), wanted AS (
    SELECT *, count(*) OVER () AS num_hits FROM lines WHERE {condition}
)
SELECT (SELECT count(*) FROM lines), (SELECT count(*) FROM wanted),
       number, turn, part, source, left(line, {max_chars}), size, start
FROM (SELECT 1) AS once
LEFT JOIN (
    SELECT * FROM wanted WHERE number >= %(first)s ORDER BY number LIMIT %(limit)s
) AS page ON true
ORDER BY number
"""


def attempt_log(
    actor: Actor,
    trajectory_id: int,
    *,
    attempt: int | None = None,
    first: int = 1,
    limit: int = DEFAULT_LINES,
    q: str = "",
    is_regex: bool = False,
) -> LogRow:
    """Raises NotFound; Invalid for a pattern that is none, or that takes too long."""
    found = attempt_of(actor, trajectory_id, attempt)
    condition = "true"
    if q:
        condition = "line ~* %(q)s" if is_regex else "position(lower(%(q)s) IN lower(line)) > 0"
    sql = _LINES.format(condition=condition, max_chars=MAX_LINE_CHARS)
    values = {"attempt": found["id"], "first": first, "limit": limit, "q": q}
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL statement_timeout = {SEARCH_MS}")
            cursor.execute(sql, values)
            rows = cursor.fetchall()
            cursor.execute("SET LOCAL statement_timeout = DEFAULT")
    except DataError as error:
        raise Invalid("This is not a regular expression that PostgreSQL reads.") from error
    except OperationalError as error:
        if "statement timeout" not in str(error):
            raise
        raise Invalid("This search takes too long; give a simpler pattern.") from error
    total, num_hits = rows[0][:2]
    return LogRow(
        attempt=found["number"],
        total=total,
        num_hits=num_hits if q else None,
        lines=[_line(row[2:]) for row in rows if row[2] is not None],
    )


def _line(row: tuple[Any, ...]) -> LogLineRow:
    number, turn, part, source, text, size, start = row
    return LogLineRow(
        number=number,
        turn=turn,
        part=_PARTS[part],
        text=text,
        length=size,
        start=int(start),
        source=source,
    )

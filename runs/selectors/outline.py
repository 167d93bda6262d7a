"""The outline of an attempt: every turn without its texts, and where to look first."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from django.db.models import F, Func, TextField, Value
from django.db.models.functions import Coalesce, Left, Length
from typing_extensions import TypedDict

from controlplane.accounts.access import Actor
from runs.models import Turn
from runs.selectors.inspector import attempt_of

MAX_OUTLINE_BYTES = 400_000
"""Of all command previews together."""
PREVIEW_CHARS = 120
MIN_REPEATS = 3
MAX_REPEATS = 20


# What edits a file or runs tests is guessed from the words of a shell command.
_EDIT = re.compile(
    r"\bsed\s+(-\w+\s+)*-\w*i|\btee\b|\bpatch\b|\bgit\s+apply\b|\bapply_patch\b|\bstr_replace\b"
    r"|\bperl\s+-\w*i|(?<![0-9&>])>>?\s*(?!/dev/|&)[\w./\"'$~-]|\b(mv|cp|rm)\s|^try\s+\d"
)
_TEST = re.compile(
    r"\b(pytest|py\.test|tox|nox|unittest|nosetests|runtests|ctest|jest|vitest|mocha|rspec|phpunit)\b"
    r"|\b(go|cargo|npm|yarn|pnpm|make|mvn|gradle|bazel|manage\.py)\s+(run\s+)?(test|check)\b"
    r"|\btest\w*\.(sh|py)\b|^try\s+\d"
)
# Control characters cost six bytes in JSON and mean nothing in one line: their pictures.
_PICTURES = {code: 0x2400 + code for code in range(32)} | {127: 0x2421}


class RepeatRow(TypedDict):
    """One command that the agent ran MIN_REPEATS times or more, oldest first."""

    command: str
    turns: list[int]


class OutlineColumns(TypedDict):
    """One entry a turn in every column. offset_s counts from the attempt's start."""

    index: list[int]
    offset_s: list[float]
    llm_s: list[float]
    queue_s: list[float | None]
    exec_s: list[float]
    prompt_tokens: list[int]
    output_tokens: list[int]
    exit_code: list[int | None]
    preview: list[str]


class SkeletonRow(TypedDict):
    """An attempt without its texts. The lists name turns; `repeated` those whose command came before."""

    attempt: int
    started_at: datetime | None
    turn_cap: int | None
    token_cap: int | None
    turns: OutlineColumns
    errors: list[int]
    timeouts: list[int]
    cut: list[int]
    no_action: list[int]
    repeated: list[int]
    repeats: list[RepeatRow]
    first_edit: int | None
    first_test: int | None
    submit: int | None


def skeleton(actor: Actor, trajectory_id: int, *, attempt: int | None = None) -> SkeletonRow:
    """The outline: at most 1 MB for 10,000 turns. Raises NotFound."""
    caps = {name: F(f"run__recipe__agent__{name}") for name in ("turn_cap", "token_cap")}
    found = attempt_of(actor, trajectory_id, attempt, "started_at", **caps)
    turns: list[dict[str, Any]] = list(
        Turn.objects.filter(attempt=found["id"])  # type: ignore[arg-type]
        .order_by("index")
        .values(
            "index",
            "started_at",
            "llm_s",
            "queue_s",
            "exec_s",
            "prompt_tokens",
            "output_tokens",
            "exit_code",
            "finish_reason",
            "is_timed_out",
            "truncated_bytes",
            has_command=Length("command"),
            head=Left(Coalesce(_unless_empty("command"), "action"), 600),
            digest=Func("command", function="md5", output_field=TextField()),
        )
    )
    counts: dict[str, list[dict[str, Any]]] = {}
    for turn in turns:
        if turn["has_command"]:
            counts.setdefault(turn["digest"], []).append(turn)
    room = min(PREVIEW_CHARS, MAX_OUTLINE_BYTES // max(1, len(turns)))
    first = turns[0]["started_at"] if turns else None
    return SkeletonRow(
        attempt=found["number"],
        started_at=found["started_at"],
        turn_cap=found["turn_cap"],
        token_cap=found["token_cap"],
        turns=_columns(turns, found["started_at"] or first, room),
        errors=[t["index"] for t in turns if t["is_timed_out"] or t["exit_code"]],
        timeouts=[t["index"] for t in turns if t["is_timed_out"]],
        cut=[t["index"] for t in turns if t["truncated_bytes"] or t["finish_reason"] == "length"],
        no_action=[t["index"] for t in turns if not t["has_command"]],
        repeated=sorted(t["index"] for same in counts.values() for t in same[1:]),
        repeats=_repeats(counts, room),
        first_edit=_first(turns, _EDIT),
        first_test=_first(turns, _TEST),
        submit=next((t["index"] for t in turns if _is_submission(t)), None),
    )


def _unless_empty(field: str) -> Func:
    return Func(F(field), Value(""), function="NULLIF", output_field=TextField())


def _columns(turns: list[dict[str, Any]], start: datetime | None, room: int) -> OutlineColumns:
    return OutlineColumns(
        index=[t["index"] for t in turns],
        offset_s=[round((t["started_at"] - start).total_seconds(), 3) for t in turns],
        llm_s=[round(t["llm_s"], 3) for t in turns],
        queue_s=[None if t["queue_s"] is None else round(t["queue_s"], 3) for t in turns],
        exec_s=[round(t["exec_s"], 3) for t in turns],
        prompt_tokens=[t["prompt_tokens"] for t in turns],
        output_tokens=[t["output_tokens"] for t in turns],
        exit_code=[t["exit_code"] for t in turns],
        preview=[preview(t["head"], room) for t in turns],
    )


def preview(text: str, room: int = PREVIEW_CHARS) -> str:
    """One line of at most `room` bytes: control characters as pictures, blanks joined."""
    line = " ".join(text.split()).translate(_PICTURES)
    raw = line.encode()
    if len(raw) <= room:
        return line
    return raw[: room - 3].decode("utf-8", "ignore") + "…"


def _repeats(counts: dict[str, list[dict[str, Any]]], room: int) -> list[RepeatRow]:
    often = [same for same in counts.values() if len(same) >= MIN_REPEATS]
    often.sort(key=lambda same: (-len(same), same[0]["index"]))
    return [
        RepeatRow(command=preview(same[0]["head"], room), turns=[turn["index"] for turn in same])
        for same in often[:MAX_REPEATS]
    ]


def _first(turns: list[dict[str, Any]], pattern: re.Pattern[str]) -> int | None:
    return next((t["index"] for t in turns if t["has_command"] and pattern.search(t["head"])), None)


def _is_submission(turn: dict[str, Any]) -> bool:
    return turn["head"].strip() == "submit" or "COMPLETE_TASK_AND_SUBMIT" in turn["head"]

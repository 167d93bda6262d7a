"""The tokens of an attempt as its model saw them: ids, pieces, loss mask, log-probs, weight versions."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from django.conf import settings
from django.db.models import F
from numpy.typing import NDArray
from typing_extensions import TypedDict

from controlplane.accounts.access import Actor
from controlplane.blobs import BlobStore
from runs.formats.atif import document, split_turns
from runs.formats.pieces import read_pieces
from runs.models import Attempt, Consumption, Step, Turn
from runs.selectors.inspector import attempt_of
from workers.rl.arrays import TrajectoryArrays, decode

MAX_TOKENS = 8_192


class TokensRow(TypedDict):
    """Tokens `start` to `start + len(ids)` of `length`; every column has one entry a token.

    mask: 1 where the policy sampled it. logprobs: of the engine that did; trainer: of the trainer before its
    update; null where not sampled. turn_starts: the first sampled token of each turn. notes: what is missing,
    and why.
    """

    attempt: int
    length: int
    num_sampled: int
    start: int
    ids: list[int]
    pieces: list[str] | None
    special: list[int]
    mask: list[int]
    logprobs: list[float | None]
    trainer: list[float | None] | None
    versions: list[int | None]
    turn_starts: list[int]
    step: int | None
    gap_mean: float | None
    notes: list[str]


def tokens(
    actor: Actor,
    trajectory_id: int,
    *,
    attempt: int | None = None,
    start: int = 0,
    end: int | None = None,
) -> TokensRow:
    """At most MAX_TOKENS of them. Raises NotFound."""
    found = attempt_of(
        actor, trajectory_id, attempt, "blob", "status", model=F("run__recipe__model__path")
    )
    notes: list[str] = []
    arrays = _arrays(found["blob"], notes)
    step, prox = _trainer_logprobs(trajectory_id, found, arrays, notes)
    last = min(len(arrays), start + MAX_TOKENS, len(arrays) if end is None else end)
    window = slice(min(start, len(arrays)), max(start, last))
    ids = arrays.tokens[window].tolist()
    pieces, special = _pieces(found["model"], ids, notes)
    is_sampled = arrays.mask[window] == 1
    gap = None if prox is None else prox[arrays.mask == 1] - arrays.logprobs[arrays.mask == 1]
    return TokensRow(
        attempt=found["number"],
        length=len(arrays),
        num_sampled=int(arrays.mask.sum()),
        start=window.start,
        ids=ids,
        pieces=pieces,
        special=special,
        mask=arrays.mask[window].tolist(),
        logprobs=_where(is_sampled, arrays.logprobs[window]),
        trainer=None if prox is None else _where(is_sampled, prox[window]),
        versions=_where(arrays.versions[window] >= 0, arrays.versions[window]),
        turn_starts=_starts(arrays.mask),
        step=step,
        gap_mean=None if gap is None or not gap.size else float(np.abs(gap).mean()),
        notes=notes,
    )


def _where(is_there: NDArray[np.bool_], values: NDArray[Any]) -> list[Any]:
    """JSON knows no NaN: what is not there, or not finite, is null."""
    keep = (is_there & np.isfinite(values)).tolist()
    rounded = values.round(5).tolist() if values.dtype.kind == "f" else values.tolist()
    return [value if is_kept else None for value, is_kept in zip(rounded, keep, strict=True)]


def _starts(mask: NDArray[np.uint8]) -> list[int]:
    """Where a run of sampled tokens begins: one for each turn."""
    starts: list[int] = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0) == 1).tolist()
    return starts


def _arrays(blob: str, notes: list[str]) -> TrajectoryArrays:
    if not blob:
        notes.append(
            "Tokens are stored when an attempt ends after a model call; this one has none."
        )
    else:
        try:
            return read_arrays(blob)
        except FileNotFoundError:
            notes.append("Its tokens are gone from the blob store.")
        except ValueError:
            notes.append("Its tokens cannot be read: the blob is corrupt.")
    empty: list[int] = []
    return TrajectoryArrays(*(np.array(empty) for _ in range(4)))


@lru_cache(maxsize=8)
def read_arrays(blob: str) -> TrajectoryArrays:
    """A blob never changes. Raises FileNotFoundError, ValueError."""
    return decode(BlobStore(settings.BLOB_URL).get(blob))


def _trainer_logprobs(
    trajectory_id: int, found: dict[str, Any], arrays: TrajectoryArrays, notes: list[str]
) -> tuple[int | None, NDArray[np.float32] | None]:
    """Index of the step that trained it, and log-probs in the place of every token; None if not kept."""
    if found["status"] != Attempt.Status.COMPLETED or not len(arrays):
        return None, None
    consumption = (
        Consumption.objects.filter(trajectory=trajectory_id)
        .exclude(step__status__in=[Step.Status.SUPERSEDED, Step.Status.FAILED])
        .order_by("-step_id")
        .values("logprobs", "step__index")
        .first()
    )
    if consumption is None:
        notes.append("No step has trained on it, so there are no log-probs of the trainer.")
        return None, None
    step = consumption["step__index"]
    try:
        raw = (
            BlobStore(settings.BLOB_URL).get(consumption["logprobs"])
            if consumption["logprobs"]
            else b""
        )
    except FileNotFoundError:
        raw = b""
    if len(raw) != 4 * int(arrays.mask.sum()) or not raw:
        notes.append(f"Step {step} trained on it; the trainer's log-probs were not kept.")
        return step, None
    prox = np.full(len(arrays), np.nan, np.float32)
    prox[arrays.mask == 1] = np.frombuffer(raw, "<f4")
    return step, prox


def _pieces(
    model: str | None, ids: list[int], notes: list[str]
) -> tuple[list[str] | None, list[int]]:
    try:
        found = read_pieces((settings.BASE_DIR / (model or "")).resolve())
    except ImportError:
        notes.append(
            "Ids only: this web server has no tokenizers package (pip install tokenizers)."
        )
    except FileNotFoundError:
        notes.append(f"Ids only: there is no tokenizer.json in {model} on the web server.")
    except (ValueError, OSError):
        notes.append(f"Ids only: the tokenizer in {model} cannot be read.")
    else:
        return found.of(ids), [i for i, token in enumerate(ids) if found.is_special(token)]
    return None, []


def atif(actor: Actor, trajectory_id: int, *, attempt: int | None = None) -> dict[str, Any]:
    """The whole attempt, its texts uncut, as an ATIF document. Raises NotFound."""
    found = attempt_of(
        actor,
        trajectory_id,
        attempt,
        *_ATTEMPT_FIELDS,
        **{f"of_{name}": where for name, where in _OF_TRAJECTORY.items()},
    )
    turns = list(Turn.objects.filter(attempt=found["id"]).order_by("index").values())
    notes: list[str] = []
    arrays = _arrays(found["blob"], notes)
    columns = (arrays.tokens, arrays.mask, arrays.logprobs, arrays.versions)
    failure = None
    if found["failure_class"]:
        names = ("failure_stage", "failure_class", "failure_message")
        failure = {name.removeprefix("failure_"): found[name] for name in names}
    trajectory = {name: found[f"of_{name}"] for name in _OF_TRAJECTORY} | {"id": trajectory_id}
    tokens_of = split_turns(*(column.tolist() for column in columns))
    return document(trajectory, {**found, "failure": failure}, turns, tokens_of)


_ATTEMPT_FIELDS = (
    "status",
    "blob",
    "reward",
    "stop_reason",
    "failure_stage",
    "failure_class",
    "failure_message",
    "timings",
    "grade",
    "prompt_tokens",
    "output_tokens",
    "patch",
    "is_patch_cut",
)
_OF_TRAJECTORY = {
    "run": F("trajectory__run_id"),
    "model": F("run__recipe__model__path"),
    "system": F("run__recipe__agent__system"),
    "stage": F("trajectory__stage__name"),
    "group": F("trajectory__group_id"),
    "index": F("trajectory__index"),
    "task": F("trajectory__task__key"),
    "instruction": F("trajectory__task__instruction"),
    "advantage": F("trajectory__advantage"),
}

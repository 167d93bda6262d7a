"""Continuous batching: which requests run, one token for each of them at a time.

                    ┌────────────── retract ◄──────────────┐
    submit ─► waiting ─ admit (slot, cached prefix) ─► running ─ step: one forward pass ─► finished
      │ queue full        a few prompts' chunks a step    │ ▲      for all running rows
      └► finished (503)                                   └─┘      (stop, length, abort)

Consumes requests and commands, produces finished requests and the progress of streaming ones; waits for
nothing and reads no clock but for its figures. One thread calls it, between steps only, so a command
never meets half a step.

Invariants: a sampled token carries the weight version that sampled it (`Request.spans`). Weights change
only while nothing runs, or while generation is paused. While an update waits, requests that came after
it wait too. Every submitted request is finished exactly once.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from workers.engines.reference.cache import Cache
from workers.engines.reference.forward import Rows, extend
from workers.engines.reference.model import Model, load_weights, read_config
from workers.engines.reference.sampling import Sampling, sample

PauseMode = Literal["abort", "retract", "in_place"]
FinishReason = dict[str, Any]


@dataclass(eq=False, slots=True)
class Request:
    """One sequence: the prompt's ids, and what was sampled after them."""

    rid: str
    ids: list[int]
    sampling: Sampling
    stop_ids: frozenset[int]
    reply: Callable[[int, FinishReason | None], None]
    """Told how many tokens there are, and the reason when there will be no more."""
    is_streaming: bool = False
    has_log_probs: bool = False
    arrived_at: float = field(default_factory=time.perf_counter)
    admitted_at: float | None = None
    first_token_at: float | None = None
    finished_at: float | None = None
    output_ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    spans: list[tuple[str, int]] = field(default_factory=list)
    """(weight version, index of its first output token), in order."""
    finish_reason: FinishReason | None = None
    num_cached: int = 0
    num_retractions: int = 0
    serial: int = 0
    seed: int = 0
    slot: int = -1


@dataclass(slots=True)
class Update:
    """Weights to load once nothing that came before it is running."""

    model_dir: Path
    weight_version: str | None
    must_flush: bool
    serial: int
    """Of the last request submitted before it."""
    done: Callable[[str], object]
    """Called once: "" or what was wrong."""


@dataclass(slots=True)
class Counters:
    requests: int = 0
    aborted: int = 0
    retracted: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    steps: int = 0


class Scheduler:
    def __init__(
        self,
        model: Model,
        cache: Cache,
        *,
        model_dir: Path,
        weight_version: str = "default",
        max_running: int = 64,
        max_queued: int = 256,
        max_prefill_tokens: int = 4096,
        seed: int | None = None,
    ) -> None:
        self.model = model
        self.cache = cache
        self.model_dir = model_dir
        self.weight_version = weight_version
        self.max_running = max_running
        self.max_queued = max_queued
        self.max_prefill_tokens = max_prefill_tokens
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.updates: deque[Update] = deque()
        self.is_paused = False
        self.outbox: list[tuple[Request, int, FinishReason | None]] = []
        """For `Request.reply`, of finished requests and of streaming ones: the caller empties it."""
        self.counters = Counters()
        self.load_s = 0.0
        """What the last weight update took."""
        self._seeds = np.random.default_rng(secrets.randbits(64) if seed is None else seed)

    # -- commands ---------------------------------------------------------------------------------

    def submit(self, request: Request) -> None:
        self.counters.requests += 1
        request.serial = self.counters.requests
        seed = request.sampling.sampling_seed
        request.seed = int(self._seeds.integers(2**63)) if seed is None else seed % 2**64
        room = self.max_queued
        if not self.is_paused:
            room += self.max_running - len(self.running)
        if len(self.waiting) >= room:
            self._finish(request, aborted("The request queue is full.", status_code=503))
        else:
            self.waiting.append(request)

    def abort(self, rid_prefix: str, message: str = "Aborted") -> None:
        """Ends every request whose rid begins so; "" ends all. Partial output is kept."""
        everyone = [*self.waiting, *self.running]
        self.drop([r for r in everyone if r.rid.startswith(rid_prefix)], message)

    def drop(self, requests: Sequence[Request], message: str) -> None:
        """Ends these requests; those that have ended stay as they are."""
        for request in requests:
            if request.finish_reason is None:
                self._finish(request, aborted(message))
        self.waiting = deque(r for r in self.waiting if r.finish_reason is None)
        self.running = [r for r in self.running if r.finish_reason is None]
        self._apply_updates()

    def pause(self, mode: PauseMode) -> None:
        """No step until `resume`. retract: running requests go back to the queue's head and give up
        their slots; in_place: they keep keys and values of the weights so far; abort: all end."""
        self.is_paused = True
        if mode == "abort":
            self.abort("", "Aborted by a pause of generation")
        elif mode == "retract":
            for request in reversed(self.running):
                request.num_retractions += 1
                self.cache.give_back(request.slot)
                request.slot = -1
                self.waiting.appendleft(request)
            self.counters.retracted += len(self.running)
            self.running = []
        self._apply_updates()

    def resume(self) -> None:
        self.is_paused = False

    def flush(self) -> bool:
        """Forgets every cached prefix; False, and nothing done, while requests hold slots."""
        if self.running:
            return False
        self.cache.forget()
        return True

    def update_weights(
        self,
        model_dir: Path,
        done: Callable[[str], object],
        *,
        weight_version: str | None = None,
        must_flush: bool = True,
    ) -> None:
        """Paused: at once. Not paused: when all requests so far have ended; later ones wait."""
        last = self.counters.requests
        self.updates.append(Update(model_dir, weight_version, must_flush, last, done))
        self._apply_updates()

    def probe(self) -> bool:
        """Whether the weights still give numbers."""
        with torch.inference_mode():
            hidden = self.model.hidden(torch.zeros(1, 1, dtype=torch.long))
            return bool(self.model.logits(hidden).isfinite().all())

    # -- steps ------------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        return not self.is_paused and (bool(self.running) or self._can_admit())

    def step(self) -> None:
        """One forward pass: the next token of each running request, the first of each admitted one."""
        requests, rows = self._gather(self._admit())
        hidden = extend(self.model, self.cache.keys, self.cache.values, rows)
        self.cache.extended(rows)
        with torch.inference_mode():
            tokens, log_probs = sample(
                self.model.logits(hidden),
                [r.sampling for r in requests],
                [r.seed for r in requests],
                [start + count for start, count in zip(rows.starts, rows.counts, strict=True)],
            )
        now = time.perf_counter()
        for request, token, log_prob in zip(requests, tokens, log_probs, strict=True):
            self._append(request, token, log_prob, now)
        self.running = [r for r in requests if r.finish_reason is None]
        self.counters.steps += 1
        self.counters.generated_tokens += len(requests)
        self._apply_updates()

    def _can_admit(self) -> bool:
        if not self.waiting or len(self.running) >= self.max_running:
            return False
        return not self.updates or self.waiting[0].serial <= self.updates[0].serial

    def _admit(self) -> list[tuple[Request, int, list[int]]]:
        """Moves requests from the queue into slots: (request, where its chunk starts, the chunk)."""
        admitted = []
        budget = self.max_prefill_tokens
        while budget > 0 and self._can_admit():
            request = self.waiting.popleft()
            ids = request.ids + request.output_ids
            request.slot, start = self.cache.take(ids)
            if request.admitted_at is None:
                request.admitted_at = time.perf_counter()
                request.num_cached = start
                self.counters.prompt_tokens += len(ids)
                self.counters.cached_tokens += start
            admitted.append((request, start, ids[start:]))
            self.running.append(request)
            budget -= len(ids) - start
        return admitted

    def _gather(self, admitted: list[tuple[Request, int, list[int]]]) -> tuple[list[Request], Rows]:
        """The rows of one pass; admitted requests are the last of `running` as it comes in."""
        decoding = self.running[: len(self.running) - len(admitted)]
        # A prompt that is cached up to its last token decodes like the others.
        admitted.sort(key=lambda entry: len(entry[2]) > 1)
        requests = decoding + [request for request, _, _ in admitted]
        ids = [r.output_ids[-1] for r in decoding]
        starts = [len(r.ids) + len(r.output_ids) - 1 for r in decoding]
        counts = [1] * len(decoding)
        for _, start, chunk in admitted:
            ids += chunk
            starts.append(start)
            counts.append(len(chunk))
        rows = Rows(torch.tensor(ids), [r.slot for r in requests], starts, counts, counts.count(1))
        return requests, rows

    def _append(self, request: Request, token: int, log_prob: float, now: float) -> None:
        output = request.output_ids
        if not request.spans or request.spans[-1][0] != self.weight_version:
            request.spans.append((self.weight_version, len(output)))
        if not output:
            request.first_token_at = now
        output.append(token)
        request.log_probs.append(log_prob)
        if token in request.stop_ids:
            self._finish(request, {"type": "stop", "matched": token})
        elif len(output) >= request.sampling.max_new_tokens:
            self._finish(request, {"type": "length", "length": len(output)})
        elif request.is_streaming:
            self.outbox.append((request, len(output), None))

    def _finish(self, request: Request, reason: FinishReason) -> None:
        request.finish_reason = reason
        request.finished_at = time.perf_counter()
        if request.slot >= 0:
            self.cache.give_back(request.slot)
        if reason["type"] == "abort":
            self.counters.aborted += 1
        self.outbox.append((request, len(request.output_ids), reason))

    def _apply_updates(self) -> None:
        while self.updates:
            update = self.updates[0]
            is_ahead = bool(self.waiting) and self.waiting[0].serial <= update.serial
            if not self.is_paused and (self.running or is_ahead):
                return
            self.updates.popleft()
            update.done(self._load(update))

    def _load(self, update: Update) -> str:
        """Loads new weights, or leaves the old ones and says why."""
        if update.must_flush and self.running:
            return "requests paused in place hold cached keys: send flush_cache false, or retract"
        started_at = time.perf_counter()
        try:
            config = replace(read_config(update.model_dir), source={})
            if config != replace(self.model.config, source={}):
                return f"{update.model_dir} holds a model of another architecture"
            load_weights(self.model, update.model_dir)
        except (OSError, ValueError, KeyError, TypeError) as error:
            return f"{type(error).__name__}: {error}"
        self.load_s = time.perf_counter() - started_at
        self.model_dir = update.model_dir
        if update.weight_version is not None:
            self.weight_version = update.weight_version
        if update.must_flush:
            self.cache.forget()
        return ""


def aborted(message: str, *, status_code: int | None = None) -> FinishReason:
    return {"type": "abort", "message": message, "status_code": status_code, "err_type": None}

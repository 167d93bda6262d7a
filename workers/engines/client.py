"""The client of an engine, ours or SGLang's: tokens in, tokens out.

Blocking and thread-safe: one client per engine for all trajectories of a process. Whatever the
infrastructure does becomes a `Failure` of stage infer; what the caller did wrong is a ValueError.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, NoReturn, Self

import httptools
import orjson

from sandboxes.failures import Failure, FailureClass, FailureStage
from workers.engines.connections import ConnectionPool, NoFreeConnection

# Sent with every call: a model's generation_config.json must not change what is sampled from.
PLAIN_SAMPLING: Mapping[str, float] = {
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
    "repetition_penalty": 1.0,
}
FULL = ("queue is full", "higher priority request", "waiting timeout")
"""SGLang's 503s that say that there is too much work, not that something is broken."""


class ContextOverflow(ValueError):
    """The prompt and what was asked for do not fit the engine's context."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One call's tokens; logprobs and versions have one entry per output token."""

    output_ids: list[int]
    logprobs: list[float]
    """log softmax(logits / temperature) of each token, over the whole vocabulary."""
    versions: list[int]
    """The weight version that sampled each token: it changes where an update came in between."""
    finish_reason: Literal["stop", "length"]
    prompt_tokens: int
    cached_tokens: int
    latency_s: float
    """Of the whole call, seen from here."""
    queue_s: float | None
    """Of it, the wait for a place in the engine's batch; None where the engine does not say it."""


class EngineClient:
    def __init__(
        self,
        base_url: str,
        *,
        timeout_s: float = 600.0,
        max_connections: int = 64,
        vocab_size: int | None = None,
    ) -> None:
        """vocab_size: default, what the engine says; SGLang says nothing, and dies of a larger id."""
        self.base_url = base_url
        self._timeout_s = timeout_s
        self._pool = ConnectionPool(base_url, max_connections)
        self._vocab_size = vocab_size

    @property
    def max_connections(self) -> int:
        """Calls that can be under way at once, read back from the transport; others wait."""
        return self._pool.max_connections

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._pool.close()

    # -- generation -------------------------------------------------------------------------------

    def generate(
        self,
        input_ids: Sequence[int],
        *,
        rid: str,
        max_new_tokens: int,
        temperature: float = 1.0,
        stop_token_ids: Sequence[int] = (),
        sampling: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
    ) -> Generation:
        """Samples up to max_new_tokens; a stop token is part of the output.

        sampling: SGLang's sampling_params beside the plain ones (evaluation only).
        Raises ContextOverflow, ValueError (what was asked is wrong) and Failure(infer, capacity |
        rate_limit | infer_infra); an aborted request is a Failure too.
        """
        ids = list(input_ids)
        self._check(ids)
        params = {
            **PLAIN_SAMPLING,
            "max_new_tokens": max_new_tokens,
            "temperature": temperature,
            "stop_token_ids": list(stop_token_ids),
            **(sampling or {}),
        }
        body = {"rid": rid, "input_ids": ids, "sampling_params": params, "return_logprob": True}
        started_at = time.monotonic()
        answer = self._post("/generate", body, timeout_s)
        latency_s = time.monotonic() - started_at
        try:
            return read_generation(answer, latency_s, stop_token_ids, self._vocab_size)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            fail(f"the engine's answer makes no sense: {error!r}")

    def _check(self, ids: list[int]) -> None:
        """Raises ValueError for ids that would fail in the engine, or end it."""
        if self._vocab_size is None:
            # SGLang does not say: there, only negative ids are caught.
            self._vocab_size = int(self.model_info().get("vocab_size") or 2**31)
        if not ids or min(ids) < 0 or max(ids) >= self._vocab_size:
            raise ValueError(
                f"token ids must be 0 to {self._vocab_size - 1}, and there must be some"
            )

    def abort(self, rid: str) -> None:
        """Ends the requests whose rid begins so; unknown ones are fine."""
        if not rid:
            raise ValueError("an empty rid would abort every request")
        self._post("/abort_request", {"rid": rid})

    # -- weights ----------------------------------------------------------------------------------

    def pause(self, mode: Literal["abort", "retract", "in_place"]) -> None:
        """No more tokens until `resume`, which the caller owes whatever happens."""
        self._post("/pause_generation", {"mode": mode})

    def resume(self) -> None:
        self._post("/continue_generation", {})

    def update_weights_from_disk(
        self,
        path: str,
        version: int,
        *,
        flush_cache: bool = True,
        timeout_s: float | None = None,
    ) -> None:
        """Loads a directory of safetensors. Not paused, it waits for the requests that are running.

        flush_cache: False after pause("in_place"), whose requests keep what is cached.
        Raises Failure(infer, infer_infra) when the engine refuses: the old weights stay.
        """
        body = {"model_path": str(path), "weight_version": str(version), "flush_cache": flush_cache}
        status, answer = self._exchange("POST", "/update_weights_from_disk", body, timeout_s)
        try:
            outcome = orjson.loads(answer)
            is_loaded, message = bool(outcome["success"]), str(outcome["message"])
        except (orjson.JSONDecodeError, KeyError, TypeError):
            is_loaded, message = False, answer[:500].decode(errors="replace")
        if status != 200 or not is_loaded:
            fail(f"the engine did not load {path}: {message}")

    def flush_cache(self) -> bool:
        """Forgets cached prefixes; False while requests are running."""
        status, _ = self._exchange("POST", "/flush_cache", {}, None)
        return status == 200

    # -- what it is and how it does ---------------------------------------------------------------

    def model_info(self) -> dict[str, Any]:
        """model_path, weight_version (a string), and of ours boot_id and vocab_size."""
        return self._get("/model_info")

    def server_info(self) -> dict[str, Any]:
        return self._get("/server_info")

    def loads(self) -> dict[str, Any]:
        return self._get("/v1/loads")

    def health(self, *, timeout_s: float = 5.0) -> bool:
        """The server answers and has its model."""
        return self._is_ok("/health", timeout_s)

    def health_generate(self, *, timeout_s: float = 30.0) -> bool:
        """The model computes."""
        return self._is_ok("/health_generate", timeout_s)

    # -- transport --------------------------------------------------------------------------------

    def _is_ok(self, path: str, timeout_s: float) -> bool:
        try:
            status, _ = self._exchange("GET", path, None, timeout_s)
        except Failure:
            return False
        return status == 200

    def _get(self, path: str) -> dict[str, Any]:
        return read_object(*self._exchange("GET", path, None, None))

    def _post(self, path: str, body: Any, timeout_s: float | None = None) -> dict[str, Any]:
        return read_object(*self._exchange("POST", path, body, timeout_s))

    def _exchange(
        self, method: str, path: str, body: Any, timeout_s: float | None
    ) -> tuple[int, bytes]:
        """Status and body. Raises Failure when there is no answer."""
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        data = b"" if body is None else orjson.dumps(body)
        try:
            return self._pool.request(method, path, data, timeout_s)
        except NoFreeConnection as error:
            raise Failure(FailureStage.INFER, FailureClass.CAPACITY, str(error)) from error
        except TimeoutError:
            fail(f"{path} did not answer in {timeout_s:g} s")
        except (OSError, httptools.HttpParserError) as error:
            fail(f"the connection for {path} was lost: {error!r}")


def fail(message: str) -> NoReturn:
    raise Failure(FailureStage.INFER, FailureClass.INFER_INFRA, message)


def read_object(status: int, answer: bytes) -> dict[str, Any]:
    """The body's object, {} of an empty one; other statuses than 200 as the class they are."""
    try:
        body = orjson.loads(answer) if answer else {}
    except orjson.JSONDecodeError:
        body = {}
    if status == 200:
        if not isinstance(body, dict) or (answer and not body):
            fail("the engine's answer is not a JSON object")
        return body
    message = read_message(body) or answer[:500].decode(errors="replace")
    if status == 503 and any(words in message for words in FULL):
        raise Failure(FailureStage.INFER, FailureClass.CAPACITY, message)
    if status == 429:
        raise Failure(FailureStage.INFER, FailureClass.RATE_LIMIT, message)
    if status == 400 and "context length" in message:
        raise ContextOverflow(message)
    if status == 400:
        raise ValueError(f"the engine refused: {message}")
    fail(f"the engine answered {status}: {message}")


def read_message(body: Any) -> str:
    """SGLang has two shapes: {"error": {"message"}} and {"message"}."""
    if not isinstance(body, dict):
        return ""
    inner = body.get("error")
    return str(inner.get("message") if isinstance(inner, dict) else body.get("message") or "")


def read_generation(
    answer: Mapping[str, Any],
    latency_s: float,
    stop_token_ids: Sequence[int],
    vocab_size: int | None,
) -> Generation:
    """Raises KeyError, TypeError, ValueError or IndexError when it is not what SGLang documents."""
    meta, ids = answer["meta_info"], answer["output_ids"]
    reason = meta["finish_reason"]
    if reason["type"] == "abort":
        fail(f"the request was aborted: {reason.get('message')}")
    entries = meta["output_token_logprobs"]
    log_probs = [float(entry[0]) for entry in entries]
    if [entry[1] for entry in entries] != ids:
        raise ValueError("the log-probabilities are of other tokens")
    if not all(map(math.isfinite, log_probs)):
        raise ValueError("a log-probability is not a number")
    if ids and not 0 <= min(ids) <= max(ids) < (vocab_size or 2**31):
        raise ValueError("an output token is not in the vocabulary")
    spans = meta.get("weight_versions")
    if spans is None:
        versions = [int(meta["weight_version"])] * len(ids)
    else:
        versions = [int(s["version"]) for s in spans for _ in range(s["start"], s["end"])]
    if len(versions) != len(ids):
        raise ValueError("the weight versions do not cover the output")
    # At the token cap SGLang says "length" even when the last token is a stop token.
    is_stopped = reason["type"] == "stop" or (bool(ids) and ids[-1] in stop_token_ids)
    return Generation(
        output_ids=ids,
        logprobs=log_probs,
        versions=versions,
        finish_reason="stop" if is_stopped else "length",
        prompt_tokens=meta["prompt_tokens"],
        cached_tokens=meta.get("cached_tokens") or 0,
        latency_s=latency_s,
        queue_s=None if meta.get("queue_time") is None else float(meta["queue_time"]),
    )

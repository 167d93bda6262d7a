"""SGLang's HTTP API in front of the scheduler (0.5; docs.sglang.ai/basic_usage/native_api).

A bare ASGI application under uvicorn: routing is one dictionary, and a call passes no other layer.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_args

import orjson
from tokenizers import Tokenizer

from workers.engines.reference.figures import Figures
from workers.engines.reference.sampling import Sampling
from workers.engines.reference.scheduler import FinishReason, PauseMode, Request, Scheduler
from workers.engines.reference.thread import ModelThread
from workers.engines.reference.wire import (
    HANDLED,
    Answer,
    Body,
    Message,
    Receive,
    Refused,
    Send,
    chunk,
    read_body,
    respond,
    start,
    unavailable,
)

# Of a /generate body, what is not implemented: accepted while it asks for nothing.
UNSUPPORTED = (
    "input_embeds",
    "image_data",
    "audio_data",
    "video_data",
    "top_logprobs_num",
    "token_ids_logprob",
    "return_hidden_states",
    "return_routed_experts",
    "return_sampling_mask",
    "lora_path",
    "session_params",
)


@dataclass
class Identity:
    """What tells this server from another one, and one start of it from the next."""

    context_length: int
    boot_id: str = field(default_factory=lambda: secrets.token_hex(8))
    pid: int = field(default_factory=os.getpid)
    started_at: float = field(default_factory=time.time)


class App:
    def __init__(
        self,
        build: Callable[[], Scheduler],
        identity: Identity,
        *,
        model_name: str,
        eos_ids: frozenset[int],
        tokenizer: Tokenizer | None,
        probe_timeout_s: float = 20.0,
    ) -> None:
        self._build = build
        self._identity = identity
        self._eos_ids = eos_ids
        self._tokenizer = tokenizer
        self._probe_timeout_s = probe_timeout_s
        self._figures = Figures(model_name)
        self._thread: ModelThread | None = None
        self._routes: dict[str, Callable[[Body], Awaitable[Answer]]] = {
            "/abort_request": self.abort_request,
            "/pause_generation": self.pause_generation,
            "/continue_generation": self.continue_generation,
            "/update_weights_from_disk": self.update_weights_from_disk,
            "/flush_cache": self.flush_cache,
            "/model_info": self.model_info,
            "/get_model_info": self.model_info,
            "/server_info": self.server_info,
            "/get_server_info": self.server_info,
            "/v1/loads": self.loads,
            "/health_generate": self.health_generate,
            "/metrics": self.metrics,
        }

    # -- ASGI -------------------------------------------------------------------------------------

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            self._thread = ModelThread(self._build, asyncio.get_running_loop())
            self._thread.start()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
        elif scope["type"] == "http":
            status, answer = await self._answer(scope, receive, send)
            if (status, answer) != HANDLED:
                await respond(send, status, answer)

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> Answer:
        path = scope["path"]
        if path not in self._routes and path not in ("/generate", "/health"):
            return 404, {"detail": "Not Found"}
        if self._thread is None or self._thread.scheduler is None:
            return unavailable("The server is starting.")
        if path == "/health":
            return 200, b""
        try:
            body = await read_body(scope, receive)
            if path == "/generate":
                return await self._generate(body, receive, send)
            return await self._routes[path](body)
        except Refused as refusal:
            return 400, {"error": {"message": str(refusal)}}

    # -- generation -------------------------------------------------------------------------------

    async def _generate(self, body: Body, receive: Receive, send: Send) -> Answer:
        updates: asyncio.Queue[tuple[int, FinishReason | None]] = asyncio.Queue()
        request = self._read(body, lambda *update: updates.put_nowait(update))
        self._model.post(lambda scheduler: scheduler.submit(request))
        # Nothing more comes from the client but the news that it is gone.
        watch = asyncio.ensure_future(receive())
        watch.add_done_callback(lambda _: self._leave(request))
        try:
            if request.is_streaming:
                return await self._stream(request, updates, send)
            num_tokens, reason = await updates.get()
        finally:
            watch.cancel()
        self._figures.book(request)
        if reason and reason.get("status_code"):
            return unavailable(reason["message"])
        return 200, self._result(request, num_tokens, reason)

    async def _stream(
        self,
        request: Request,
        updates: asyncio.Queue[tuple[int, FinishReason | None]],
        send: Send,
    ) -> Answer:
        """Server-sent events; each holds all tokens so far, so what piled up is sent as one."""
        await send(start(200, "text/event-stream"))
        reason: FinishReason | None = None
        while reason is None:
            num_tokens, reason = await updates.get()
            while not updates.empty():
                num_tokens, reason = updates.get_nowait()
            if reason and (code := reason.get("status_code")):
                error = {"message": reason["message"], "type": "server_error", "code": code}
                event = orjson.dumps({"error": error | {"retryable": True}})
            else:
                event = orjson.dumps(self._result(request, num_tokens, reason))
            await send(chunk(b"data: " + event + b"\n\n"))
        await send(chunk(b"data: [DONE]\n\n"))
        await send({"type": "http.response.body", "body": b""})
        self._figures.book(request)
        return HANDLED

    def _leave(self, request: Request) -> None:
        """The client is gone: what it asked for is aborted, unless it has ended."""
        if request.finish_reason is None:
            self._model.post(lambda scheduler: scheduler.drop([request], "The client disconnected"))

    def _read(self, body: Body, reply: Callable[[int, FinishReason | None], None]) -> Request:
        """Raises Refused with what is wrong with a /generate body."""
        if wrong := [key for key in UNSUPPORTED if body.get(key)]:
            raise Refused(f"{wrong[0]} is not supported by the reference engine")
        params = body.get("sampling_params") or {}
        if not isinstance(params, dict):
            raise Refused("sampling_params must be one object: batches are not supported")
        try:
            sampling = Sampling.parse(params)
        except ValueError as error:
            raise Refused(str(error)) from error
        ids = self._read_ids(body)
        context, wanted = self._identity.context_length, sampling.max_new_tokens
        if len(ids) >= context:
            raise Refused(
                f"The input ({len(ids)} tokens) is longer than the model's context length"
                f" ({context} tokens)."
            )
        if len(ids) + wanted > context:
            raise Refused(
                f"Requested token count exceeds the model's maximum context length of {context}"
                f" tokens: {len(ids)} tokens of input and {wanted} tokens for the completion."
            )
        stop_ids = frozenset(sampling.stop_token_ids) | self._eos_ids
        return Request(
            rid=str(body.get("rid") or secrets.token_hex(16)),
            ids=ids,
            sampling=sampling,
            stop_ids=frozenset() if sampling.ignore_eos else stop_ids,
            reply=reply,
            is_streaming=bool(body.get("stream")),
            has_log_probs=bool(body.get("return_logprob")),
        )

    def _read_ids(self, body: Body) -> list[int]:
        ids, text = body.get("input_ids"), body.get("text")
        if (ids is None) == (text is None):
            raise Refused("Either text or input_ids should be provided.")
        if text is not None:
            if self._tokenizer is None:
                raise Refused("The engine holds no tokenizer: send input_ids instead of text.")
            if not isinstance(text, str):
                raise Refused("text must be one string: batches are not supported")
            ids = self._tokenizer.encode(text).ids
        if not isinstance(ids, list) or set(map(type, ids)) != {int}:
            raise Refused(
                "input_ids must be a non-empty list of integers; batches are not supported"
            )
        vocabulary = self._scheduler.model.config.vocab_size
        if min(ids) < 0 or max(ids) >= vocabulary:
            bad = next(i for i in ids if not 0 <= i < vocabulary)
            raise Refused(
                f"Token id {bad} is out of range: the vocabulary has {vocabulary} tokens."
            )
        return ids

    def _result(
        self, request: Request, num_tokens: int, reason: FinishReason | None
    ) -> dict[str, Any]:
        ids = request.output_ids[:num_tokens]
        starts = [(version, at) for version, at in request.spans if at < num_tokens]
        ends = [at for _, at in starts[1:]] + [num_tokens]
        version = starts[-1][0] if starts else self._scheduler.weight_version
        meta: dict[str, Any] = {
            "id": request.rid,
            "finish_reason": reason,
            "prompt_tokens": len(request.ids),
            "completion_tokens": num_tokens,
            "cached_tokens": request.num_cached,
            "weight_version": version,
            "weight_versions": [
                {"version": version, "start": at, "end": end}
                for (version, at), end in zip(starts, ends, strict=True)
            ],
            "num_retractions": request.num_retractions,
            "queue_time": (request.admitted_at or request.arrived_at) - request.arrived_at,
        }
        if request.finished_at is not None:
            meta["e2e_latency"] = request.finished_at - request.arrived_at
        if request.has_log_probs:
            log_probs = request.log_probs[:num_tokens]
            meta["input_token_logprobs"] = []
            meta["output_token_logprobs"] = [
                (log_prob, token, None) for log_prob, token in zip(log_probs, ids, strict=True)
            ]
            meta["output_token_logprobs_length"] = num_tokens
        result: dict[str, Any] = {"output_ids": ids, "meta_info": meta}
        if self._tokenizer is not None:
            is_stopped = reason is not None and reason["type"] == "stop"
            result["text"] = self._tokenizer.decode(ids[:-1] if is_stopped else ids)
        return result

    # -- control ----------------------------------------------------------------------------------

    async def abort_request(self, body: Body) -> Answer:
        prefix = "" if body.get("abort_all") else str(body.get("rid") or "")
        if prefix or body.get("abort_all"):
            await self._model.call(lambda scheduler: scheduler.abort(prefix))
        return 200, b""

    async def pause_generation(self, body: Body) -> Answer:
        mode = body.get("mode", "abort")
        if mode not in get_args(PauseMode):
            raise Refused(f"mode must be one of {', '.join(get_args(PauseMode))}, got {mode!r}")
        await self._model.call(lambda scheduler: scheduler.pause(mode))
        return 200, {"message": "Generation paused successfully.", "status": "ok"}

    async def continue_generation(self, body: Body) -> Answer:
        del body
        await self._model.call(lambda scheduler: scheduler.resume())
        return 200, {"message": "Generation continued successfully.", "status": "ok"}

    async def update_weights_from_disk(self, body: Body) -> Answer:
        path, version = body.get("model_path"), body.get("weight_version")
        if not isinstance(path, str) or not path:
            raise Refused("model_path must name a directory")
        loop, outcome = asyncio.get_running_loop(), asyncio.Queue[str]()

        def update(scheduler: Scheduler) -> None:
            if body.get("abort_all_requests"):
                scheduler.abort("", "Aborted by a weight update")
            scheduler.update_weights(
                Path(path),
                lambda complaint: loop.call_soon_threadsafe(outcome.put_nowait, complaint),
                weight_version=None if version is None else str(version),
                must_flush=bool(body.get("flush_cache", True)),
            )

        self._model.post(update)
        complaint = await outcome.get()
        message = complaint or "Succeeded to update model weights."
        num_paused = len(self._scheduler.running) + len(self._scheduler.waiting)
        return 400 if complaint else 200, {
            "success": not complaint,
            "message": message,
            "num_paused_requests": num_paused if self._scheduler.is_paused else 0,
        }

    async def flush_cache(self, body: Body) -> Answer:
        del body
        is_flushed = await self._model.call(lambda scheduler: scheduler.flush())
        if is_flushed:
            return 200, b"Cache flushed.\n"
        return 400, b"The cache was not flushed: requests are running.\n"

    # -- what it is and how it does ---------------------------------------------------------------

    async def model_info(self, body: Body) -> Answer:
        del body
        config = self._scheduler.model.config
        return 200, {
            "model_path": str(self._scheduler.model_dir),
            "tokenizer_path": None if self._tokenizer is None else str(self._scheduler.model_dir),
            "is_generation": True,
            "weight_version": self._scheduler.weight_version,
            "model_type": config.source.get("model_type"),
            "architectures": config.source.get("architectures"),
            "vocab_size": config.vocab_size,
            "boot_id": self._identity.boot_id,
        }

    async def server_info(self, body: Body) -> Answer:
        del body
        s = self._scheduler
        return 200, {
            **asdict(self._identity),
            "status": "paused" if s.is_paused else "ready",
            "version": "reference",
            "model_path": str(s.model_dir),
            "weight_version": s.weight_version,
            "max_running_requests": s.max_running,
            "max_queued_requests": s.max_queued,
            "max_total_num_tokens": s.cache.tokens.size,
            "skip_tokenizer_init": self._tokenizer is None,
        }

    async def loads(self, body: Body) -> Answer:
        del body
        load = self._figures.loads(self._scheduler)
        return 200, {"timestamp": time.time(), "loads": [{"dp_rank": 0} | load], "aggregate": load}

    async def health_generate(self, body: Body) -> Answer:
        """200 when the model computes numbers between two steps, paused or not, and in time."""
        del body
        probe = self._model.call(lambda scheduler: scheduler.probe())
        try:
            is_sound = await asyncio.wait_for(probe, self._probe_timeout_s)
        except TimeoutError:
            return unavailable(f"The model did not answer in {self._probe_timeout_s:g} s.")
        return (200, b"") if is_sound else unavailable("The model's logits are not numbers.")

    async def metrics(self, body: Body) -> Answer:
        del body
        return 200, self._figures.render(self._scheduler)

    @property
    def _model(self) -> ModelThread:
        assert self._thread is not None
        return self._thread

    @property
    def _scheduler(self) -> Scheduler:
        assert self._model.scheduler is not None
        return self._model.scheduler

"""A real HTTP server that speaks the /generate subset of SGLang's API and says what a script tells
it to.

    request ─► parse ─► script(Call) ─► Reply ─► after delay_s ─► response, or the reply's fault
                                          ▲
             /abort_request, /pause_generation end or hold what waits here

In a test, `ScriptedEngine` runs it in a thread and keeps the calls it saw. For a benchmark it is a
process of its own (`python tests/scripted_engine.py --script FILE`) whose CPU time is at GET /cpu,
so that it can be subtracted. One asyncio protocol, no framework: a call costs about 0.1 CPU-ms.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, cast

import orjson
import uvloop

Fault = Literal["queue_full", "server_error", "hang", "drop", "abort", "over_length"]


@dataclass(frozen=True)
class Call:
    """One /generate as it arrived."""

    rid: str
    input_ids: list[int]
    sampling_params: dict[str, Any]
    number: int
    """Calls the engine had seen before."""

    @property
    def conversation(self) -> str:
        return self.rid.split(".")[0]

    @property
    def turn(self) -> int:
        """The agent's request ids are `{key}.{turn}.`."""
        return int(self.rid.split(".")[1])


@dataclass(frozen=True)
class Reply:
    output_ids: Sequence[int] = ()
    delay_s: float = 0.0
    fault: Fault | None = None
    logprobs: Sequence[float] | None = None
    """Default -0.5 each."""
    versions: Sequence[int] | None = None
    """One a token; default: the engine's when it began for the first half, when it ended for the
    rest.
    """
    cached_tokens: int = 0


Script = Callable[[Call], Reply]


def in_order(replies: Sequence[Reply]) -> Script:
    """The n-th call gets the n-th reply; the last one stays."""
    return lambda call: replies[min(call.number, len(replies) - 1)]


def by_turn(replies: Sequence[Reply]) -> Script:
    """The n-th turn of every conversation gets the n-th reply; the last one stays."""
    return lambda call: replies[min(call.turn, len(replies) - 1)]


def lognormal_delay_s(
    seed: int, conversation: int, turn: int, *, mean_s: float, sigma: float
) -> float:
    """The model's delay in one turn: a function of its arguments, so a benchmark can add up the
    same draws.
    """
    draw = random.Random(f"{seed}.{conversation}.{turn}")
    return draw.lognormvariate(math.log(mean_s) - sigma * sigma / 2, sigma)


def with_lognormal_delays(script: Script, seed: int, *, mean_s: float, sigma: float) -> Script:
    """Conversations are numbered as they first appear: which one is which does not matter, the set
    of draws does.
    """
    numbers: dict[str, int] = {}

    def delayed(call: Call) -> Reply:
        reply = script(call)
        number = numbers.setdefault(call.conversation, len(numbers))
        delay_s = lognormal_delay_s(seed, number, call.turn, mean_s=mean_s, sigma=sigma)
        return Reply(
            reply.output_ids,
            delay_s,
            reply.fault,
            reply.logprobs,
            reply.versions,
            reply.cached_tokens,
        )

    return delayed


@dataclass(eq=False)
class _Pending:
    call: Call
    reply: Reply
    answer: Callable[[int, bytes], None]
    started: float
    version: int
    timer: asyncio.TimerHandle | None = None
    is_due: bool = False


@dataclass
class Engine:
    """The state behind the connections; lives on one event loop."""

    script: Script
    context_length: int = 1 << 30
    vocab_size: int = 1 << 30
    weight_version: int = 0
    boot_id: str = field(default_factory=lambda: secrets.token_hex(8))
    max_pending: int = 1 << 30
    """More calls at once get the queue-full 503."""
    keeps_calls: bool = True
    calls: list[Call] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    num_calls: int = 0
    is_paused: bool = False
    pending: dict[str, _Pending] = field(default_factory=dict)

    def handle(
        self, path: str, body: bytes, answer: Callable[[int, bytes], None], drop: Callable[[], None]
    ) -> None:
        if path == "/generate":
            self.generate(body, answer, drop)
            return
        try:
            answer(200, orjson.dumps(self.control(path, orjson.loads(body) if body else {})))
        except KeyError:
            answer(404, b'{"detail":"Not Found"}')

    def generate(
        self, body: bytes, answer: Callable[[int, bytes], None], drop: Callable[[], None]
    ) -> None:
        request = orjson.loads(body)
        params = request.get("sampling_params") or {}
        call = Call(request["rid"], request["input_ids"], params, self.num_calls)
        reply = self.script(call)
        self.num_calls += 1
        if self.keeps_calls:
            self.calls.append(call)
        total = len(call.input_ids) + params.get("max_new_tokens", 128)
        if reply.fault == "over_length" or total > self.context_length:
            message = (
                f"Requested token count exceeds the model's maximum context length of "
                f"{self.context_length} tokens. "
                f"You requested a total of {total} tokens"
            )
            answer(400, orjson.dumps({"error": {"message": message}}))
        elif any(not 0 <= token < self.vocab_size for token in call.input_ids):
            answer(400, b'{"error":{"message":"input_ids hold a token id outside the vocabulary"}}')
        elif reply.fault == "queue_full" or len(self.pending) >= self.max_pending:
            answer(
                503,
                b'{"object":"error","message":"The request queue is full.",'
                b'"type":"503","code":503}',
            )
        elif reply.fault == "server_error":
            answer(500, b"Internal Server Error")
        elif reply.fault == "drop":
            drop()
        elif reply.fault != "hang":
            pending = _Pending(call, reply, answer, time.monotonic(), self.weight_version)
            self.pending[call.rid] = pending
            if reply.delay_s > 0:
                loop = asyncio.get_running_loop()
                pending.timer = loop.call_later(reply.delay_s, self.due, pending)
            else:
                self.due(pending)

    def due(self, pending: _Pending) -> None:
        pending.is_due = True
        if not self.is_paused:
            self.finish(pending, is_aborted=pending.reply.fault == "abort")

    def finish(self, pending: _Pending, *, is_aborted: bool) -> None:
        """Answer a call; the ids end at its first stop token or at max_new_tokens, as a sampler's
        would.
        """
        if self.pending.pop(pending.call.rid, None) is None:
            return
        if pending.timer is not None:
            pending.timer.cancel()
        call, reply = pending.call, pending.reply
        ids = list(reply.output_ids)[: call.sampling_params.get("max_new_tokens", 128)]
        stops = call.sampling_params.get("stop_token_ids") or ()
        end = next((place for place, token in enumerate(ids) if token in stops), None)
        reason: dict[str, Any] = {"type": "length", "length": len(ids)}
        if is_aborted:
            ids = ids[: len(ids) // 2]
            reason = {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}
        elif end is not None:
            ids = ids[: end + 1]
            reason = {"type": "stop", "matched": ids[-1]}
        answered_s = time.monotonic() - pending.started
        logprobs = reply.logprobs if reply.logprobs is not None else [-0.5] * len(ids)
        meta = {
            "id": call.rid,
            "finish_reason": reason,
            "prompt_tokens": len(call.input_ids),
            "completion_tokens": len(ids),
            "cached_tokens": reply.cached_tokens,
            "weight_version": str(self.weight_version),
            "weight_versions": self.spans(pending, len(ids)),
            "output_token_logprobs": [[p, t, None] for p, t in zip(logprobs, ids, strict=False)],
            "e2e_latency": answered_s,
            "queue_time": 0.0,
        }
        pending.answer(200, orjson.dumps({"text": "", "output_ids": ids, "meta_info": meta}))

    def spans(self, pending: _Pending, num_tokens: int) -> list[dict[str, Any]]:
        if not num_tokens:
            return []
        versions = pending.reply.versions
        if versions is None:
            half = num_tokens // 2 if pending.version != self.weight_version else num_tokens
            versions = [pending.version] * half + [self.weight_version] * (num_tokens - half)
        spans: list[dict[str, Any]] = []
        for place, version in enumerate(versions[:num_tokens]):
            if not spans or spans[-1]["version"] != str(version):
                spans.append({"version": str(version), "start": place, "end": place + 1})
            spans[-1]["end"] = place + 1
        return spans

    def control(self, path: str, body: dict[str, Any]) -> Any:
        if path == "/abort_request":
            rid = body.get("rid", "")
            self.aborted.append(rid)
            hit = [
                p
                for p in self.pending.values()
                if body.get("abort_all") or p.call.rid.startswith(rid)
            ]
            for pending in hit:
                self.finish(pending, is_aborted=True)
            return None
        if path == "/pause_generation":
            if body.get("mode", "abort") == "abort":
                for pending in list(self.pending.values()):
                    self.finish(pending, is_aborted=True)
            self.is_paused = True
            return {"status": "ok"}
        if path == "/continue_generation":
            self.is_paused = False
            for pending in [p for p in self.pending.values() if p.is_due]:
                self.due(pending)
            return {"status": "ok"}
        if path == "/update_weights_from_disk":
            self.weight_version = int(body["weight_version"])
            return {
                "success": True,
                "message": "Succeeded to update model weights.",
                "num_paused_requests": 0,
            }
        return {
            "/health": {},
            "/health_generate": {},
            "/flush_cache": {},
            "/cpu": {"cpu_s": time.process_time(), "num_calls": self.num_calls},
            "/model_info": {
                "model_path": "scripted",
                "weight_version": str(self.weight_version),
                "vocab_size": self.vocab_size,
                "boot_id": self.boot_id,
            },
            "/server_info": {"version": "scripted", "context_length": self.context_length},
            "/v1/loads": {
                "loads": [{"num_running_reqs": len(self.pending), "num_waiting_reqs": 0}]
            },
        }[path]


_REASONS = {
    200: b"OK",
    400: b"Bad Request",
    404: b"Not Found",
    500: b"Internal Server Error",
    503: b"Unavailable",
}


class _Connection(asyncio.Protocol):
    """HTTP/1.1 with keep-alive and Content-Length bodies, one request at a time."""

    def __init__(self, engine: Engine, connections: set[_Connection]) -> None:
        self.engine = engine
        self.connections = connections
        self.buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head_end = self.buffer.find(b"\r\n\r\n")
        if head_end < 0:
            return
        head = bytes(self.buffer[:head_end]).lower()
        place = head.find(b"content-length:")
        length = int(head[place + 15 :].split(b"\r\n", 1)[0]) if place >= 0 else 0
        if len(self.buffer) < head_end + 4 + length:
            return
        body = bytes(self.buffer[head_end + 4 : head_end + 4 + length])
        del self.buffer[: head_end + 4 + length]
        path = head.split(b" ", 2)[1].split(b"?")[0].decode()
        self.engine.handle(path, body, self.answer, self.drop)

    def answer(self, status: int, body: bytes) -> None:
        head = b"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self.transport.write(head % (status, _REASONS[status], len(body)) + body)

    def drop(self) -> None:
        """Die in the middle of an answer."""
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
        self.transport.close()


async def serve(engine: Engine, listener: socket.socket, until: asyncio.Event) -> None:
    connections: set[_Connection] = set()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(engine, connections), sock=listener)
    await until.wait()
    server.close()
    for connection in list(connections):
        connection.transport.abort()


def _listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(1024)
    return listener


def _url(listener: socket.socket) -> str:
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


class ScriptedEngine:
    """The engine in a thread: `with ScriptedEngine(in_order([...])) as engine:
    EngineClient(engine.url)`.

    `calls` and `aborted` are what it saw; `set_version(n)` is a weight update that loads nothing.
    """

    def __init__(self, script: Script, **options: Any) -> None:
        self.engine = Engine(script, **options)
        self._listener = _listen(0)
        self.url = _url(self._listener)
        self._loop = uvloop.new_event_loop()
        self._until = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        self._loop.run_until_complete(serve(self.engine, self._listener, self._until))
        self._loop.close()

    @property
    def calls(self) -> list[Call]:
        return self.engine.calls

    @property
    def aborted(self) -> list[str]:
        return self.engine.aborted

    def set_version(self, version: int) -> None:
        self.engine.weight_version = version

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening and cut every connection. May be called again."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._until.set)
            self._thread.join(10)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument(
        "--script",
        type=Path,
        required=True,
        help='JSON: {"turns": [{"output_ids": [...], "delay_s": 0, "fault": null}, ...]}',
    )
    parser.add_argument(
        "--mean", type=float, default=0.0, help="mean of the lognormal delay in seconds, 0: none"
    )
    parser.add_argument("--sigma", type=float, default=0.8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--context-length", type=int, default=1 << 30)
    options = parser.parse_args(arguments)
    turns = json.loads(options.script.read_bytes())["turns"]
    script = by_turn([Reply(**turn) for turn in turns])
    if options.mean > 0:
        script = with_lognormal_delays(
            script, options.seed, mean_s=options.mean, sigma=options.sigma
        )
    engine = Engine(script, context_length=options.context_length, keeps_calls=False)

    async def run() -> None:
        until = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, until.set)
        listener = _listen(options.port)
        print(json.dumps({"url": _url(listener)}), flush=True)
        await serve(engine, listener, until)

    uvloop.run(run())
    print(json.dumps(engine.control("/cpu", {})), flush=True)


if __name__ == "__main__":
    main()

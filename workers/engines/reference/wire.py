"""What the ASGI application reads and writes: JSON bodies, answers, SGLang's two shapes of error."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

import orjson

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Body = dict[str, Any]
Answer = tuple[int, Any]
"""Status, and a body: bytes as they are, anything else as JSON."""
HANDLED: Answer = (0, b"")
"""The handler has answered by itself."""


class Refused(Exception):
    """A request that is answered with 400 {"error": {"message": this sentence}}."""


def unavailable(message: str) -> Answer:
    return 503, {"object": "error", "message": message, "type": "503", "code": 503}


async def read_body(scope: Message, receive: Receive) -> Body:
    """The JSON object of the body and the query's parameters. Raises Refused."""
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            break
    raw = b"".join(parts)
    try:
        body = orjson.loads(raw) if raw else {}
    except orjson.JSONDecodeError as error:
        raise Refused(f"The body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise Refused("The body must be a JSON object.")
    if scope["query_string"]:
        body |= {k: v[-1] for k, v in parse_qs(scope["query_string"].decode()).items()}
    return body


def start(status: int, content_type: str, length: int | None = None) -> Message:
    headers = [(b"content-type", content_type.encode())]
    if length is not None:
        headers.append((b"content-length", str(length).encode()))
    return {"type": "http.response.start", "status": status, "headers": headers}


def chunk(data: bytes) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": True}


async def respond(send: Send, status: int, answer: Any) -> None:
    is_text = isinstance(answer, bytes)
    data = answer if is_text else orjson.dumps(answer)
    await send(start(status, "text/plain" if is_text else "application/json", len(data)))
    await send({"type": "http.response.body", "body": data})

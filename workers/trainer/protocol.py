"""JSON lines over a Unix socket between a trainer process and the worker that owns it.

    driver                                        trainer process
      │ <────────────── hello {seq 0, token, pid} ──┤  on connecting
      ├── init | sft | step | save | export ───────>│  {seq n, token, type, ...}: n = 1, 2, 3 ...
      │ <──────────────── progress {seq n, ...} ────┤  any number
      │ <──────── done | failed {seq n, ...} ───────┤  exactly one
      ├── shutdown ────────────────────────────────>│  exits

Invariants: one request at a time; every message names its sequence number and the token of the
lease under which the process was started. A message with another token, a gap in the numbers or a
closed socket ends the reader: an owner that lost its lease cannot command or be heard.
NaN and infinity pass as Python's JSON spells them.
"""

from __future__ import annotations

import hmac
import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

SOCKET_VARIABLE = "LONGTAIL_TRAINER_SOCKET"
TOKEN_VARIABLE = "LONGTAIL_TRAINER_TOKEN"  # noqa: S105 - the name of a variable

Message = dict[str, Any]


class Refused(Exception):
    """The peer sent what this end must not act on; the connection is of no further use."""


class Channel:
    """One end of the socket. `send` and `receive` may be used from one thread each."""

    def __init__(self, connection: socket.socket, token: str) -> None:
        self._connection = connection
        self._token = token
        self._lines = connection.makefile("rb")

    def send(self, seq: int, type_: str, fields: Mapping[str, Any]) -> None:
        """Raises OSError when the peer is gone."""
        message = {**fields, "seq": seq, "token": self._token, "type": type_}
        self._connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> Message | None:
        """The next message without its token; None if the peer closed. Raises Refused, OSError."""
        line = self._lines.readline()
        if not line.endswith(b"\n"):
            return None
        try:
            message = json.loads(line)
            token, seq, type_ = message.pop("token"), message["seq"], message["type"]
        except (ValueError, AttributeError, KeyError, TypeError) as error:
            raise Refused("a line that is no message") from error
        if not (isinstance(token, str) and isinstance(seq, int) and isinstance(type_, str)):
            raise Refused("a line that is no message")
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            raise Refused("a message under another lease")
        return dict(message)

    def close(self) -> None:
        """Wakes a `receive` that waits in another thread."""
        with suppress(OSError):  # the peer closed first
            self._connection.shutdown(socket.SHUT_RDWR)
        self._lines.close()
        self._connection.close()


def check_seq(message: Message, expected: int) -> None:
    """Raises Refused for a message of another request than the expected one."""
    if message["seq"] != expected:
        raise Refused(f"message {message['seq']} instead of {expected}")

"""Datagrams between a sandbox's owner and the spawner: JSON, and descriptors beside it."""

from __future__ import annotations

import array
import json
import socket
from typing import Any

MAX_BYTES = 1 << 17
MAX_FDS = 3


def send(peer: socket.socket, message: dict[str, Any], fds: list[int], flags: int = 0) -> None:
    """One datagram of JSON with descriptors. (socket.send_fds and recv_fds drop their flags.)"""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    peer.sendmsg([json.dumps(message).encode()], rights, flags)


def receive(peer: socket.socket, flags: int = 0) -> tuple[dict[str, Any] | None, list[int]]:
    """The next datagram; None at the end of file. The descriptors do not survive an exec: a box gets none."""
    space = socket.CMSG_SPACE(MAX_FDS * array.array("i").itemsize)
    data, rights, _, _ = peer.recvmsg(MAX_BYTES, space, flags | socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, content in rights:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(content)
    return (json.loads(data) if data else None), list(fds)

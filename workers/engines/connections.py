"""Kept-alive HTTP connections to one server, at most so many at once; callers above that wait.

One exchange costs some 20 µs of CPU besides the kernel's: the request is one write, httptools parses
the answer. Deadlines hold for the whole exchange, so a server that drips bytes cannot stretch them.
Thread-safe; a connection belongs to one thread at a time.
"""

from __future__ import annotations

import queue
import resource
import socket
import ssl
import time
from urllib.parse import urlsplit

import httptools

RECV_BYTES = 1 << 16


class NoFreeConnection(Exception):
    """All connections were in use for as long as the caller would wait."""


class Connection:
    """One socket and the state of the answer that is being read from it."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._body: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)
        self._is_complete = self._is_reusable = False
        self.has_answered = False
        """Something of the present answer has arrived."""

    def is_stale(self) -> bool:
        """The server closed it while it was idle, or sent what nobody asked for."""
        try:
            self._sock.settimeout(0)
            return self._sock.recv(1, socket.MSG_PEEK) is not None
        except BlockingIOError:
            return False
        except OSError:
            return True

    def exchange(self, request: bytes, deadline: float) -> tuple[int, bytes, bool]:
        """Status, body and whether the connection may be used again. Raises OSError (TimeoutError
        among them) and httptools.HttpParserError."""
        self._body.clear()
        self._is_complete = self.has_answered = False
        self._parser = httptools.HttpResponseParser(self)
        self._sock.settimeout(remaining_s(deadline))
        self._sock.sendall(request)
        while not self._is_complete:
            self._sock.settimeout(remaining_s(deadline))
            data = self._sock.recv(RECV_BYTES)
            if not data:
                raise ConnectionError("the server closed the connection before its answer ended")
            self.has_answered = True
            self._parser.feed_data(data)
        return self._parser.get_status_code(), b"".join(self._body), self._is_reusable

    def close(self) -> None:
        self._sock.close()

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        self._is_complete = True
        self._is_reusable = self._parser.should_keep_alive()  # known only here


class ConnectionPool:
    def __init__(self, base_url: str, max_connections: int) -> None:
        """Raises ValueError for what is not an http or https address."""
        url = urlsplit(base_url)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError(f"{base_url!r} is not an http address")
        self._address = (url.hostname, url.port or (443 if url.scheme == "https" else 80))
        self._netloc, self._prefix = url.netloc.rpartition("@")[2], url.path.rstrip("/")
        self._tls = ssl.create_default_context() if url.scheme == "https" else None
        # A slot holds an idle connection or the right to open one; the last used comes first.
        self._slots: queue.LifoQueue[Connection | None] = queue.LifoQueue(max_connections)
        for _ in range(max_connections):
            self._slots.put(None)

    @property
    def max_connections(self) -> int:
        """How many exchanges can be under way at once, whatever was asked for."""
        return min(self._slots.maxsize, resource.getrlimit(resource.RLIMIT_NOFILE)[0])

    def request(self, method: str, path: str, body: bytes, timeout_s: float) -> tuple[int, bytes]:
        """Status and body. Waits for a free connection.

        Raises NoFreeConnection, TimeoutError, OSError and httptools.HttpParserError.
        """
        deadline = time.monotonic() + timeout_s
        head = (
            f"{method} {self._prefix}{path} HTTP/1.1\r\nHost: {self._netloc}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        try:
            connection = self._slots.get(timeout=timeout_s)
        except queue.Empty:
            raise NoFreeConnection(
                f"all {self.max_connections} connections were in use for {timeout_s:g} s"
            ) from None
        kept: Connection | None = None
        try:
            status, answer, kept = self._exchange(connection, head.encode() + body, deadline)
        finally:
            self._slots.put(kept)
        return status, answer

    def _exchange(
        self, connection: Connection | None, request: bytes, deadline: float
    ) -> tuple[int, bytes, Connection | None]:
        """Asks on an idle connection; once more on a new one when the idle one was closed meanwhile."""
        if connection is not None:
            try:
                if not connection.is_stale():
                    return ask(connection, request, deadline)
                connection.close()
            except ConnectionError:
                if connection.has_answered:
                    raise
        return ask(self._connect(deadline), request, deadline)

    def _connect(self, deadline: float) -> Connection:
        sock = socket.create_connection(self._address, remaining_s(deadline))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._tls is not None:
            sock = self._tls.wrap_socket(sock, server_hostname=self._address[0])
        return Connection(sock)

    def close(self) -> None:
        """Closes the idle connections; those in use close when their exchange ends badly."""
        for _ in range(self._slots.qsize()):
            try:
                connection = self._slots.get_nowait()
            except queue.Empty:
                return
            if connection is not None:
                connection.close()
            self._slots.put(None)


def ask(
    connection: Connection, request: bytes, deadline: float
) -> tuple[int, bytes, Connection | None]:
    """Status, body, and the connection when it may be used again; else it is closed."""
    try:
        status, body, is_reusable = connection.exchange(request, deadline)
    except BaseException:
        connection.close()
        raise
    if is_reusable:
        return status, body, connection
    connection.close()
    return status, body, None


def remaining_s(deadline: float) -> float:
    """Raises TimeoutError when there is none: a socket timeout of 0 would mean non-blocking."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left

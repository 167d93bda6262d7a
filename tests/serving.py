"""The whole web application in a real server on this machine."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

STOPS_WITHIN_S = 20


@contextmanager
def serve() -> Iterator[str]:
    """host:port of uvicorn with the ASGI application, in a thread of this process (and on its database)."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        "controlplane.asgi:application", log_level="warning", ws="websockets-sansio", lifespan="off"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(timeout=STOPS_WITHIN_S)
    assert not thread.is_alive()

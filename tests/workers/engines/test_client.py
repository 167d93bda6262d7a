"""What a server can do to its client: every way ends as the failure it is, and in time."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sandboxes.failures import Failure, FailureClass, FailureStage
from workers.engines.client import ContextOverflow, EngineClient

Handler = Callable[[socket.socket, bytes], None]


class HostileServer:
    """Answers each request of each connection with whatever `answer` writes to the socket."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.answer: Handler = lambda _sock, _request: None
        self.requests: list[bytes] = []
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.num_accepted = self.num_open = self.max_open = 0
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # closed already
            self.listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self.listener.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with self._lock:
            self.num_accepted += 1
            self.num_open += 1
            self.max_open = max(self.max_open, self.num_open)
        with sock:
            try:
                while request := read_request(sock):
                    self.requests.append(request)
                    self.answer(sock, request)
            except OSError:
                pass
        with self._lock:
            self.num_open -= 1


def read_request(sock: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        part = sock.recv(65536)
        if not part:
            return b""
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or 0)
    while len(body) < length:
        body += sock.recv(65536)
    return head + b"\r\n\r\n" + body


def reply(status: int, body: object, *headers: str) -> Handler:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = "\r\n".join([f"HTTP/1.1 {status} X", f"Content-Length: {len(data)}", *headers])

    def answer(sock: socket.socket, _request: bytes) -> None:
        sock.sendall(head.encode() + b"\r\n\r\n" + data)

    return answer


def generation(**changes: Any) -> dict[str, Any]:
    meta = {
        "finish_reason": {"type": "stop", "matched": 9},
        "prompt_tokens": 2,
        "cached_tokens": 1,
        "weight_version": "4",
        "weight_versions": [
            {"version": "3", "start": 0, "end": 2},
            {"version": "4", "start": 2, "end": 3},
        ],
        "output_token_logprobs": [[-0.5, 5, None], [-1.5, 6, None], [-2.5, 9, None]],
        "queue_time": 0.25,
    }
    output_ids = changes.pop("output_ids", [5, 6, 9])
    return {"output_ids": output_ids, "meta_info": meta | changes}


@pytest.fixture
def server() -> Iterator[HostileServer]:
    server = HostileServer()
    yield server
    server.close()


@pytest.fixture
def client(server: HostileServer) -> Iterator[EngineClient]:
    with EngineClient(server.url, timeout_s=5, vocab_size=10) as client:
        yield client


def test_an_answer_is_read_with_a_version_for_each_token(
    server: HostileServer, client: EngineClient
) -> None:
    server.answer = reply(200, generation())
    result = client.generate([1, 2], rid="r", max_new_tokens=4)
    assert result.output_ids == [5, 6, 9]
    assert result.logprobs == [-0.5, -1.5, -2.5]
    assert result.versions == [3, 3, 4]
    assert result.finish_reason == "stop"
    assert (result.prompt_tokens, result.cached_tokens, result.queue_s) == (2, 1, 0.25)
    assert result.latency_s > 0


def test_everything_that_shapes_sampling_is_sent_with_every_call(
    server: HostileServer, client: EngineClient
) -> None:
    server.answer = reply(200, generation())
    client.generate([1, 2], rid="r", max_new_tokens=4, temperature=0.7, stop_token_ids=[9])
    client.generate([1], rid="r", max_new_tokens=4, sampling={"top_p": 0.9})
    sent = [json.loads(request.partition(b"\r\n\r\n")[2]) for request in server.requests]
    assert sent[0] == {
        "rid": "r",
        "input_ids": [1, 2],
        "return_logprob": True,
        "sampling_params": {
            "max_new_tokens": 4,
            "temperature": 0.7,
            "stop_token_ids": [9],
            "top_p": 1.0,
            "top_k": -1,
            "min_p": 0.0,
            "frequency_penalty": 0.0,
            "presence_penalty": 0.0,
            "repetition_penalty": 1.0,
        },
    }
    assert sent[1]["sampling_params"]["top_p"] == 0.9


def test_a_stop_token_at_the_cap_is_a_stop_whatever_the_server_calls_it(
    server: HostileServer, client: EngineClient
) -> None:
    server.answer = reply(200, generation(finish_reason={"type": "length", "length": 3}))
    assert client.generate([1], rid="r", max_new_tokens=3).finish_reason == "length"
    stopped = client.generate([1], rid="r", max_new_tokens=3, stop_token_ids=[9])
    assert stopped.finish_reason == "stop"


def test_a_server_without_spans_gives_its_one_version_to_all_tokens(
    server: HostileServer, client: EngineClient
) -> None:
    server.answer = reply(200, generation(weight_versions=None))
    assert client.generate([1], rid="r", max_new_tokens=3).versions == [4, 4, 4]


@pytest.mark.parametrize("ids", [[], [1, 10], [1, -1]])
def test_ids_outside_the_vocabulary_never_reach_the_engine(
    server: HostileServer, client: EngineClient, ids: list[int]
) -> None:
    with pytest.raises(ValueError, match="0 to 9"):
        client.generate(ids, rid="r", max_new_tokens=4)
    assert not server.requests


def test_the_vocabulary_is_asked_for_once_when_nobody_named_it(server: HostileServer) -> None:
    with EngineClient(server.url) as client:
        server.answer = reply(200, {"vocab_size": 8})
        with pytest.raises(ValueError, match="0 to 7"):
            client.generate([8], rid="r", max_new_tokens=1)
        with pytest.raises(ValueError, match="0 to 7"):
            client.generate([9], rid="r", max_new_tokens=1)
    assert len(server.requests) == 1


FULL = {"object": "error", "message": "The request queue is full.", "type": "503", "code": 503}


INFRA = FailureClass.INFER_INFRA
ANOTHER_ID = [[-1, 5, None], [-1, 6, None], [-1, 77, None]]


def cut_short(sock: socket.socket, _request: bytes) -> None:
    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")
    sock.close()


MISDEEDS: dict[str, tuple[Handler, FailureClass]] = {
    "queue_full": (reply(503, FULL), FailureClass.CAPACITY),
    "starting": (reply(503, {"message": "The server is starting."}), INFRA),
    "crash": (reply(500, b"Internal Server Error"), INFRA),
    "bad_gateway": (reply(502, b"<html>bad gateway</html>"), INFRA),
    "not_an_engine": (reply(404, {"detail": "Not Found"}), INFRA),
    "too_fast": (reply(429, {"error": {"message": "slow down"}}), FailureClass.RATE_LIMIT),
    "no_json": (reply(200, b"not json"), INFRA),
    "no_object": (reply(200, [1, 2]), INFRA),
    "nothing": (reply(200, b""), INFRA),
    "half_an_object": (reply(200, {"output_ids": [1]}), INFRA),
    "a_token_less": (reply(200, generation(output_ids=[5, 6])), INFRA),
    "a_token_of_text": (reply(200, generation(output_ids=[5, 6, "9"])), INFRA),
    "a_token_too_large": (
        reply(200, generation(output_ids=[5, 6, 77], output_token_logprobs=ANOTHER_ID)),
        INFRA,
    ),
    "no_logprobs": (reply(200, generation(output_token_logprobs=None)), INFRA),
    "no_version": (reply(200, generation(weight_versions=[])), INFRA),
    "a_version_that_is_no_number": (
        reply(200, generation(weight_version="default", weight_versions=None)),
        INFRA,
    ),
    "abort": (reply(200, generation(finish_reason={"type": "abort", "message": "gone"})), INFRA),
    "hang_up": (lambda sock, _: sock.close(), INFRA),
    "another_protocol": (lambda sock, _: sock.sendall(b"SSH-2.0-OpenSSH\r\n\r\n"), INFRA),
    "cut_short": (cut_short, INFRA),
}


@pytest.mark.parametrize("misdeed", MISDEEDS)
def test_whatever_the_server_does_is_classified(
    server: HostileServer, client: EngineClient, misdeed: str
) -> None:
    server.answer, kind = MISDEEDS[misdeed]
    with pytest.raises(Failure) as caught:
        client.generate([1, 2], rid="r", max_new_tokens=4)
    assert (caught.value.stage, caught.value.kind) == (FailureStage.INFER, kind)
    server.answer = reply(200, generation())
    assert client.generate([1, 2], rid="r", max_new_tokens=4).output_ids == [5, 6, 9]


def test_a_refusal_is_the_callers_mistake_and_an_overflow_has_a_name(
    server: HostileServer, client: EngineClient
) -> None:
    message = "The input (9 tokens) is longer than the model's context length (8 tokens)."
    server.answer = reply(400, {"error": {"message": message}})
    with pytest.raises(ContextOverflow, match="context length"):
        client.generate([1], rid="r", max_new_tokens=4)
    server.answer = reply(400, {"error": {"message": "temperature must be non-negative"}})
    with pytest.raises(ValueError, match="non-negative") as caught:
        client.generate([1], rid="r", max_new_tokens=4)
    assert not isinstance(caught.value, ContextOverflow)


def test_a_server_that_never_answers_ends_at_the_deadline(
    server: HostileServer, client: EngineClient
) -> None:
    server.answer = lambda _sock, _request: time.sleep(3)
    with pytest.raises(Failure, match=r"did not answer in 0\.2 s") as caught:
        client.generate([1], rid="r", max_new_tokens=4, timeout_s=0.2)
    assert caught.value.kind == FailureClass.INFER_INFRA


def test_a_server_that_drips_bytes_cannot_stretch_the_deadline(
    server: HostileServer, client: EngineClient
) -> None:
    num_sent = 0

    def drip(sock: socket.socket, _request: bytes) -> None:
        nonlocal num_sent
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1000):
            sock.sendall(b"x")
            num_sent += 1
            time.sleep(0.02)

    server.answer = drip
    with pytest.raises(Failure, match="did not answer"):
        client.generate([1], rid="r", max_new_tokens=4, timeout_s=0.3)
    assert num_sent < 500


def test_a_connection_that_the_server_closed_while_idle_is_replaced_unseen(
    server: HostileServer, client: EngineClient
) -> None:
    def answer_and_leave(sock: socket.socket, request: bytes) -> None:
        reply(200, generation())(sock, request)
        sock.shutdown(socket.SHUT_RDWR)

    server.answer = answer_and_leave
    for _ in range(5):
        assert client.generate([1], rid="r", max_new_tokens=4).output_ids == [5, 6, 9]
    assert server.num_accepted == 5


def test_a_connection_is_kept_unless_the_server_says_close(
    server: HostileServer, client: EngineClient
) -> None:
    server.answer = reply(200, generation())
    for _ in range(5):
        client.generate([1], rid="r", max_new_tokens=4)
    assert server.num_accepted == 1
    server.answer = reply(200, generation(), "Connection: close")
    for _ in range(3):
        client.generate([1], rid="r", max_new_tokens=4)
    assert server.num_accepted == 3


def test_a_chunked_answer_in_pieces_is_one_answer(
    server: HostileServer, client: EngineClient
) -> None:
    data = json.dumps(generation()).encode()

    def answer(sock: socket.socket, _request: bytes) -> None:
        sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for i in range(0, len(data), 50):
            part = data[i : i + 50]
            sock.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        sock.sendall(b"0\r\n\r\n")

    server.answer = answer
    assert client.generate([1], rid="r", max_new_tokens=4).output_ids == [5, 6, 9]


def test_callers_above_the_cap_wait_and_no_connection_is_thrown_away(server: HostileServer) -> None:
    def answer(sock: socket.socket, request: bytes) -> None:
        time.sleep(0.01)
        reply(200, generation())(sock, request)

    server.answer = answer
    with EngineClient(server.url, max_connections=4, vocab_size=10, timeout_s=20) as client:
        assert client.max_connections == 4
        with ThreadPoolExecutor(32) as threads:
            calls = [
                threads.submit(client.generate, [1], rid=str(i), max_new_tokens=4)
                for i in range(100)
            ]
            assert all(call.result().output_ids for call in calls)
        assert server.num_accepted == server.max_open == server.num_open == 4


def test_no_free_connection_for_a_whole_timeout_is_a_lack_of_capacity(
    server: HostileServer,
) -> None:
    may_answer = threading.Event()

    def answer(sock: socket.socket, request: bytes) -> None:
        may_answer.wait()
        reply(200, generation())(sock, request)

    server.answer = answer
    with (
        EngineClient(server.url, max_connections=1, vocab_size=10) as client,
        ThreadPoolExecutor(1) as threads,
    ):
        first = threads.submit(client.generate, [1], rid="a", max_new_tokens=4)
        while not server.requests:
            time.sleep(0.001)
        with pytest.raises(Failure) as caught:
            client.generate([1], rid="b", max_new_tokens=4, timeout_s=0.1)
        may_answer.set()
        assert first.result().output_ids
    assert caught.value.kind == FailureClass.CAPACITY


def test_nobody_listening_is_a_failure_and_not_healthy(server: HostileServer) -> None:
    server.close()
    with EngineClient(server.url, vocab_size=10) as client:
        with pytest.raises(Failure) as caught:
            client.generate([1], rid="r", max_new_tokens=4)
        assert caught.value.kind == FailureClass.INFER_INFRA
        assert not client.health()
        assert not client.health_generate()


def test_an_empty_rid_would_abort_all_and_is_refused(client: EngineClient) -> None:
    with pytest.raises(ValueError, match="every request"):
        client.abort("")


@pytest.mark.parametrize("url", ["127.0.0.1:80", "ftp://host", "http://"])
def test_what_is_no_http_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="not an http address"):
        EngineClient(url)

"""The client against scripted answers: what it retries, what it raises, how it pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from longtail_client import Client, Refused, Unreachable

Answer = Callable[[httpx.Request], httpx.Response]


def client_of(answer: Answer) -> Client:
    return Client(
        "http://longtail.test", "lt_t", retry_after_s=0, transport=httpx.MockTransport(answer)
    )


class Server:
    """Answers in turn; remembers what it was asked."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def ok(body: Any) -> httpx.Response:
    return httpx.Response(200, json=body)


GONE = httpx.ConnectError("refused")
AWAY = httpx.Response(503)
RUN = {"id": 7, "status": "running"}


def test_a_read_is_tried_again_while_the_server_is_away() -> None:
    server = Server(GONE, AWAY, ok(RUN))

    assert client_of(server).run(7) == RUN
    assert len(server.requests) == 3


def test_a_launch_is_tried_again_with_the_same_key() -> None:
    server = Server(GONE, ok(RUN))

    client_of(server).launch("recipe")

    keys = [request.headers["Idempotency-Key"] for request in server.requests]
    assert len(keys) == 2
    assert keys[0] == keys[1]


def test_a_launch_whose_first_request_is_still_at_work_gets_its_run() -> None:
    problem = {"status": 409, "code": "conflict", "title": "Somebody was first."}
    server = Server(httpx.ReadTimeout("lost"), httpx.Response(409, json=problem), ok(RUN))

    assert client_of(server).launch("recipe") == RUN
    assert len({request.headers["Idempotency-Key"] for request in server.requests}) == 1


def test_two_launches_have_two_keys() -> None:
    server = Server(ok(RUN), ok(RUN))
    client = client_of(server)
    client.launch("recipe")
    client.launch("recipe")

    assert len({request.headers["Idempotency-Key"] for request in server.requests}) == 2


def test_a_command_is_sent_once() -> None:
    server = Server(GONE, ok(RUN))

    with pytest.raises(Unreachable):
        client_of(server).stop(7)
    assert len(server.requests) == 1


def test_a_server_that_stays_away_is_unreachable() -> None:
    with pytest.raises(Unreachable):
        client_of(Server(*[GONE] * 9)).run(7)


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, text="<html>a proxy</html>"),
        httpx.Response(404, json={"detail": "another API"}),
        httpx.Response(200, json=[1]),
    ],
)
def test_what_is_not_longtail_is_unreachable(answer: httpx.Response) -> None:
    with pytest.raises(Unreachable):
        client_of(Server(answer)).run(7)


def test_a_refusal_has_the_code_and_every_field() -> None:
    errors = [{"pointer": "/model/path", "message": "has no config.json"}]
    problem = {"status": 422, "code": "preflight_failed", "title": "Refused.", "errors": errors}
    server = Server(httpx.Response(422, json=problem))

    with pytest.raises(Refused) as caught:
        client_of(server).launch("recipe")

    assert (caught.value.status, caught.value.code) == (422, "preflight_failed")
    assert caught.value.errors == errors
    assert len(server.requests) == 1


def test_a_list_goes_on_over_all_pages_with_its_filters() -> None:
    server = Server(
        ok({"results": [{"id": 2}], "next": "c", "previous": None}),
        ok({"results": [{"id": 1}], "next": None, "previous": None}),
    )

    rows = list(client_of(server).trajectories(7, is_valid=True, stage=None))

    assert [row["id"] for row in rows] == [2, 1]
    queries = [dict(request.url.params) for request in server.requests]
    assert queries == [
        {"limit": "100", "run": "7", "is_valid": "true"},
        {"limit": "100", "run": "7", "is_valid": "true", "cursor": "c"},
    ]


def test_watching_tells_changes_only_and_survives_a_restart_of_the_server() -> None:
    running, done = {**RUN}, {**RUN, "status": "succeeded"}
    server = Server(ok(running), ok(running), *[GONE] * 5, ok(running), ok(done))

    states = list(client_of(server).watch(7, every_s=0))

    assert states == [running, done]


def test_watching_gives_up_when_its_patience_ends() -> None:
    server = Server(ok(RUN), *[GONE] * 50)

    with pytest.raises(Unreachable):
        list(client_of(server).watch(7, every_s=0, patience_s=0))

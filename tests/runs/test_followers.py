"""What waits for a client, without a network."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError

from runs import consumers
from runs.consumers import Follower, merged

TOPIC = "p1.run.7"


def point(step: int) -> dict[str, Any]:
    return {"name": "train/loss", "resume": 0, "step": step, "value": 0.1, "at": "t"}


class Client:
    """A client that reads only when it is let."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.reads = asyncio.Event()

    async def send(self, text: bytes) -> None:
        await self.reads.wait()
        self.sent.append(json.loads(text))

    async def beacon_of(self, topic: str) -> dict[str, Any]:
        return {"type": "beacon", "topic": topic, "cursors": {"events": 99}}


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 - what it waits for has no event
        await asyncio.sleep(0.01)


def test_a_client_that_does_not_read_is_cut_to_a_beacon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "MAX_WAITING", 10)

    async def scene() -> Client:
        client = Client()
        follower = Follower(client.send, client.beacon_of)
        follower.topics.add(TOPIC)
        pump = asyncio.create_task(follower.pump())
        follower.offer(TOPIC, {"type": "event_added", "run": 7, "sentence": "first"})
        await asyncio.sleep(0.05)  # the pump now waits for the client
        for number in range(100):
            follower.offer(TOPIC, {"type": "event_added", "run": 7, "sentence": str(number)})
        client.reads.set()
        await until(lambda: any(m["type"] == "beacon" for m in client.sent))
        pump.cancel()
        return client

    client = asyncio.run(asyncio.wait_for(scene(), 20))

    assert [message["type"] for message in client.sent] == ["event_added", "beacon"]


def test_a_slow_client_holds_up_nobody_and_hears_again_once_it_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consumers, "MAX_WAITING", 10)
    monkeypatch.setattr(consumers, "BURST_EVERY_S", 0.01)

    async def scene() -> Client:
        client = Client()
        follower = Follower(client.send, client.beacon_of)
        follower.topics.add(TOPIC)
        pump = asyncio.create_task(follower.pump())
        for number in range(100):
            follower.offer(TOPIC, {"type": "event_added", "run": 7, "sentence": str(number)})
        client.reads.set()
        await until(lambda: client.sent)
        follower.offer(TOPIC, {"type": "run_changed", "run": 7, "status": "paused"})
        await until(lambda: client.sent[-1]["type"] == "run_changed")
        pump.cancel()
        return client

    asyncio.run(asyncio.wait_for(scene(), 20))


def test_points_of_a_run_become_one_message_and_count_towards_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first: dict[str, Any] = {"type": "metrics_added", "run": 7, "points": [point(0)]}
    second = {"type": "metrics_added", "run": 7, "points": [point(1), point(2)]}

    both = merged(first, second)

    assert [each["step"] for each in both["points"]] == [0, 1, 2]
    assert len(first["points"]) == 1, "the hub shares one message between all clients"


def test_turns_of_an_attempt_become_one_range() -> None:
    first = {
        "type": "turns_added",
        "trajectory": 1,
        "attempt": 2,
        "first_index": 0,
        "last_index": 3,
    }
    second = {**first, "first_index": 4, "last_index": 9}

    both = merged(first, second)

    assert (both["first_index"], both["last_index"]) == (0, 9)


def test_an_unsubscribed_topic_sends_nothing_that_was_still_waiting() -> None:
    async def scene() -> Client:
        client = Client()
        client.reads.set()
        follower = Follower(client.send, client.beacon_of)
        follower.topics.update({TOPIC, "p1.runs"})
        follower.offer(TOPIC, {"type": "run_changed", "run": 7, "status": "paused"})
        follower.forget(TOPIC)
        follower.offer("p1.runs", {"type": "run_changed", "run": 7, "status": "running"})
        pump = asyncio.create_task(follower.pump())
        await until(lambda: client.sent)
        pump.cancel()
        return client

    client = asyncio.run(asyncio.wait_for(scene(), 20))

    assert [message["status"] for message in client.sent] == ["running"]


def test_clients_that_come_at_once_share_a_look_that_began_after_they_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    committed, looks = 0, 0

    def look(_: str) -> dict[str, int]:
        nonlocal looks
        looks += 1
        seen = committed
        time.sleep(0.05)
        return {"events": seen}

    monkeypatch.setattr(consumers, "_look", look)

    async def scene() -> list[int]:
        nonlocal committed
        hub = consumers.Hub()
        first = asyncio.create_task(hub.beacon_of(TOPIC))
        await until(lambda: looks == 1)
        committed = 1
        later = await asyncio.gather(*(hub.beacon_of(TOPIC) for _ in range(200)))
        return [message["cursors"]["events"] for message in (await first, *later) if message]

    first, *later = asyncio.run(asyncio.wait_for(scene(), 20))

    assert first == 0
    assert later == [1] * 200
    assert looks == 2


def test_a_look_that_fails_says_nothing_and_the_next_one_looks_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: list[dict[str, int] | DatabaseError] = [DatabaseError("gone"), {"events": 3}]

    def look(_: str) -> dict[str, int]:
        answer = answers.pop(0)
        if isinstance(answer, DatabaseError):
            raise answer
        return answer

    monkeypatch.setattr(consumers, "_look", look)

    async def scene() -> list[Any]:
        hub = consumers.Hub()
        return [await hub.beacon_of(TOPIC), await hub.beacon_of(TOPIC)]

    failed, found = asyncio.run(asyncio.wait_for(scene(), 20))

    assert failed is None
    assert found["cursors"] == {"events": 3}

"""The browser WebSocket: what changed, from Valkey; what it is, from PostgreSQL.

::

    services --PUBLISH on commit--> Valkey --one PSUBSCRIBE a process--> Hub --> Follower --> browser
                                                                          ^      (a client)
    PostgreSQL --cursors of every open topic, one query each, every 5 s---+

Messages (runs/events.py). A client sends {"subscribe": topic} and {"unsubscribe": topic}; it receives
`subscribed` or `refused`, then events, and a `beacon` at once, every 5 s and whenever the server may have
missed something. A client whose cursors differ from a beacon's fetches over REST.

Invariants:

- Permission is checked when a topic is subscribed, and again every minute: a revoked token, a closed
  session or a lost membership closes the socket.
- No message is a promise. PUBLISH is best effort, Valkey may be away, a slow client is cut to beacons; the
  beacon alone makes sure that every client learns of every committed change, within one period of recovery.
- One subscription to Valkey and one query a topic serve all clients of the process, also when all of them
  come at once.
- A client gets at most four bursts a second. In one, an entity appears once (the last word wins),
  metric points of a run are one message and turns of an attempt one range.
- What waits for a client is bounded: beyond MAX_WAITING its topic is emptied and a fresh beacon sent
  instead. Sending waits for the client, never the hub for a client.
- The hub lives while it has a follower: a process without open pages holds no subscription.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit
from weakref import WeakKeyDictionary

import orjson
import redis.asyncio
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.db import DatabaseError
from django.http.request import split_domain_port, validate_host
from pydantic import TypeAdapter, ValidationError
from redis.exceptions import RedisError

from controlplane.accounts.access import presented_token
from controlplane.accounts.models import ApiToken, User
from controlplane.accounts.tickets import use_ticket
from controlplane.accounts.tokens import is_usable
from controlplane.live import CHANNEL_PREFIX, announce_interest
from runs.events import Beacon, ClientMessage, Refused, Subscribe, Subscribed
from runs.selectors.live import cursors, may_follow, parse_topic

log = logging.getLogger(__name__)

BURST_EVERY_S = 0.25
BEACON_EVERY_S = 5.0
CHECK_EVERY_S = 60.0
LISTEN_WITHIN_S = 1.0
MAX_WAITING = 2_000
MAX_TOPICS = 50
MAX_MESSAGE = 1_000

UNAUTHENTICATED = 4401

Message = dict[str, Any]
Send = Callable[[bytes], Awaitable[None]]

# Messages of one type about one entity replace one another; these are the fields that name it.
_ENTITY = {
    "run_changed": ("run",),
    "stage_changed": ("stage",),
    "step_changed": ("step",),
    "trajectory_changed": ("trajectory",),
    "metrics_added": ("run",),
    "turns_added": ("trajectory", "attempt"),
    "fleet_changed": ("what",),
    "beacon": (),
}
_unique = itertools.count()


def _key(message: Message) -> tuple[Any, ...]:
    names = _ENTITY.get(message["type"])
    if names is None:
        return message["type"], next(_unique)
    return message["type"], *(message[name] for name in names)


def merged(old: Message | None, new: Message) -> Message:
    """What says both: points are joined, ranges of turns widened, else the last word wins."""
    if old is None:
        return new
    if new["type"] == "metrics_added":
        return {**new, "points": old["points"] + new["points"]}
    if new["type"] == "turns_added":
        return {
            **new,
            "first_index": min(old["first_index"], new["first_index"]),
            "last_index": max(old["last_index"], new["last_index"]),
        }
    return new


class Follower:
    """One client: what waits for it, by topic, and the task that sends it."""

    def __init__(self, send: Send, beacon_of: Callable[[str], Awaitable[Message | None]]) -> None:
        self.topics: set[str] = set()
        self._send = send
        self._beacon_of = beacon_of
        self._waiting: dict[str, dict[tuple[Any, ...], Message]] = {}
        self._weight: dict[str, int] = {}
        self._overrun: set[str] = set()
        self._wake = asyncio.Event()

    def offer(self, topic: str, message: Message) -> None:
        """Queue a message of a followed topic; never waits."""
        if topic in self._overrun or topic not in self.topics:
            return
        weight = self._weight.get(topic, 0) + max(1, len(message.get("points", ())))
        if weight > MAX_WAITING:
            self._drop(topic)
            self._overrun.add(topic)
        else:
            self._weight[topic] = weight
            waiting = self._waiting.setdefault(topic, {})
            key = _key(message)
            waiting[key] = merged(waiting.get(key), message)
        self._wake.set()

    def forget(self, topic: str) -> None:
        self.topics.discard(topic)
        self._drop(topic)
        self._overrun.discard(topic)

    def _drop(self, topic: str) -> None:
        self._waiting.pop(topic, None)
        self._weight.pop(topic, None)

    async def pump(self) -> None:
        """Send what waits, in bursts; ends when the client has gone."""
        with contextlib.suppress(OSError):
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._burst()
                await asyncio.sleep(BURST_EVERY_S)

    async def _burst(self) -> None:
        waiting, self._waiting, self._weight = self._waiting, {}, {}
        overrun, self._overrun = self._overrun, set()
        for messages in waiting.values():
            for message in messages.values():
                await self._send(orjson.dumps(message))
        for topic in overrun:
            beacon = await self._beacon_of(topic)
            if beacon is not None and topic in self.topics:
                await self._send(orjson.dumps(beacon))


class Hub:
    """One a process (and event loop): the subscription to Valkey, the beacons, and who follows what."""

    _of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()

    def __init__(self) -> None:
        self._followers: dict[str, set[Follower]] = {}
        self._looks: dict[str, list[asyncio.Task[Message | None]]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._is_listening = asyncio.Event()

    @classmethod
    def here(cls) -> Hub:
        loop = asyncio.get_running_loop()
        if loop not in cls._of_loop:
            cls._of_loop[loop] = cls()
        return cls._of_loop[loop]

    def add(self, follower: Follower, topic: str) -> None:
        follower.topics.add(topic)
        self._followers.setdefault(topic, set()).add(follower)
        if not self._tasks:
            self._tasks = [
                asyncio.create_task(self._listen()),
                asyncio.create_task(self._shine_regularly()),
            ]

    def remove(self, follower: Follower, topic: str) -> None:
        follower.forget(topic)
        followers = self._followers.get(topic, set())
        followers.discard(follower)
        if not followers:
            self._followers.pop(topic, None)
        if not self._followers:
            for task in self._tasks:
                task.cancel()
            self._tasks = []

    async def wait_until_listening(self) -> None:
        """So that what happens after `subscribed` is heard; with Valkey away, beacons must do."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_listening.wait(), LISTEN_WITHIN_S)

    async def beacon_of(self, topic: str) -> Message | None:
        """What PostgreSQL holds now; None while it cannot be asked.

        Whoever asks while a query runs shares the next one, which sees all that was committed before they asked:
        200 pages that come back at once cost two queries.
        """
        looks = self._looks.setdefault(topic, [])
        if len(looks) < 2:
            looks.append(asyncio.create_task(self._look_after(topic, looks[-1:])))
        return await asyncio.shield(looks[-1])

    async def _look_after(
        self, topic: str, running: list[asyncio.Task[Message | None]]
    ) -> Message | None:
        try:
            if running:
                await asyncio.wait(running)
            found = await database_sync_to_async(_look)(topic)
        except DatabaseError as error:
            log.warning("no beacon for %s: %s", topic, error)
            return None
        finally:
            looks = self._looks[topic]
            looks.pop(0)
            if not looks:
                del self._looks[topic]
        return Beacon(topic=topic, cursors=found).model_dump()

    async def _shine(self, topics: list[str]) -> None:
        for topic in topics:
            beacon = await self.beacon_of(topic)
            if beacon is not None:
                self._spread(topic, beacon)

    async def _shine_regularly(self) -> None:
        while True:
            await asyncio.sleep(BEACON_EVERY_S)
            await self._shine(list(self._followers))

    def _spread(self, topic: str, message: Message) -> None:
        for follower in self._followers.get(topic, ()):
            follower.offer(topic, message)

    async def _listen(self) -> None:
        """Subscribe, pass on, and subscribe again after a failure: 0.5 to 10 s apart, with full jitter."""
        failures = 0
        while True:
            client = redis.asyncio.Redis.from_url(
                settings.REDIS_URL, socket_connect_timeout=2, health_check_interval=10
            )
            try:
                async with client, client.pubsub() as pubsub:
                    await pubsub.psubscribe(f"{CHANNEL_PREFIX}p*")
                    failures = 0
                    self._is_listening.set()
                    # What was published while nobody listened is lost: say where everything stands.
                    await self._shine(list(self._followers))
                    while True:
                        await self._pass_on(pubsub)
            except (RedisError, OSError) as error:
                failures += 1
                log.warning("live updates are interrupted: %s", error)
            finally:
                self._is_listening.clear()
            await asyncio.sleep(random.uniform(0.5, min(10.0, 2.0**failures)))  # noqa: S311

    async def _pass_on(self, pubsub: Any) -> None:
        received = await pubsub.get_message(ignore_subscribe_messages=True, timeout=BEACON_EVERY_S)
        if received is None:
            return
        topic = received["channel"].decode().removeprefix(CHANNEL_PREFIX)
        if topic in self._followers:
            self._spread(topic, orjson.loads(received["data"]))


def _look(topic: str) -> dict[str, int]:
    """The topic's cursors; on the way, tell workers that somebody reads this trajectory."""
    parts = parse_topic(topic)
    if parts is not None and parts[1] == "trajectory":
        with contextlib.suppress(RedisError):
            announce_interest(topic)
    return cursors(topic)


_client_message: TypeAdapter[ClientMessage] = TypeAdapter(ClientMessage)


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """A connection: who it is, what it follows."""

    async def connect(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self._hub = Hub.here()
        self._follower = Follower(self._send_bytes, self._hub.beacon_of)
        actor = await self._who()
        await self.accept()
        if actor is None:
            await self.close(UNAUTHENTICATED)
            return
        self._actor = actor
        self._tasks = [
            asyncio.create_task(self._follower.pump()),
            asyncio.create_task(self._check_regularly()),
        ]

    async def _who(self) -> User | None:
        """The session's user when the page is ours, or the user of a one-time ticket."""
        ticket = parse_qs(self.scope["query_string"].decode("latin-1")).get("ticket")
        if ticket:
            holder: User | None = await database_sync_to_async(use_ticket)(ticket[0])
            return holder
        user = self.scope["user"]
        if not isinstance(user, User) or not user.is_active:
            return None
        return user if is_own_origin(dict(self.scope["headers"])) else None

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if not self._tasks:
            return
        if text_data is None or bytes_data is not None or len(text_data) > MAX_MESSAGE:
            await self.close(1003)
            return
        try:
            message = _client_message.validate_json(text_data)
        except ValidationError:
            await self.close(1003)
            return
        if isinstance(message, Subscribe):
            await self._subscribe(message.subscribe)
        else:
            self._hub.remove(self._follower, message.unsubscribe)

    async def _subscribe(self, topic: str) -> None:
        if len(self._follower.topics) >= MAX_TOPICS:
            await self._say(Refused(topic=topic, code="too_many_topics"))
        elif not await database_sync_to_async(may_follow)(self._actor, topic):
            await self._say(Refused(topic=topic, code="not_found"))
        else:
            self._hub.add(self._follower, topic)
            await self._hub.wait_until_listening()
            await self._say(Subscribed(topic=topic))
            beacon = await self._hub.beacon_of(topic)
            if beacon is not None:
                self._follower.offer(topic, beacon)

    async def _say(self, message: Subscribed | Refused) -> None:
        await self.send(text_data=message.model_dump_json())

    async def _send_bytes(self, text: bytes) -> None:
        await self.send(text_data=text.decode())

    async def _check_regularly(self) -> None:
        while True:
            await asyncio.sleep(CHECK_EVERY_S)
            with contextlib.suppress(DatabaseError):
                session = self.scope.get("session")
                if not await database_sync_to_async(is_still_allowed)(
                    self._actor, session, sorted(self._follower.topics)
                ):
                    await self.close(UNAUTHENTICATED)
                    return

    async def disconnect(self, code: int) -> None:  # noqa: ARG002
        for topic in list(self._follower.topics):
            self._hub.remove(self._follower, topic)
        for task in self._tasks:
            task.cancel()


def is_own_origin(headers: dict[bytes, bytes]) -> bool:
    """The page that opens the socket was served by this host, under a name that we answer to."""
    origin = urlsplit(headers.get(b"origin", b"").decode("latin-1"))
    host = headers.get(b"host", b"").decode("latin-1")
    if f"{origin.scheme}://{origin.netloc}" in settings.CSRF_TRUSTED_ORIGINS:
        return True
    domain, _ = split_domain_port(host)
    return (
        bool(origin.netloc)
        and origin.netloc == host
        and validate_host(domain, settings.ALLOWED_HOSTS)
    )


def is_still_allowed(actor: User, session: Any, topics: list[str]) -> bool:
    """The account, the session or token, and the right to every followed topic are still there."""
    fresh = User.objects.filter(pk=actor.pk, is_active=True).first()
    if fresh is None:
        return False
    token = presented_token(actor)
    if token is not None:
        token = ApiToken.objects.filter(pk=token.pk).first()
        if token is None or not is_usable(token):
            return False
        fresh.presented_token = token  # type: ignore[attr-defined]
    elif session is not None and session.session_key and not session.exists(session.session_key):
        return False
    return all(may_follow(fresh, topic) for topic in topics)

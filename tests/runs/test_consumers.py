"""The live socket through a real uvicorn, a real client, a real Valkey and PostgreSQL."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis
from django.conf import settings
from django.test import Client
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from controlplane.accounts.models import Role
from controlplane.accounts.services.tokens import issue_token, revoke_token
from controlplane.live import followed, publish
from runs import consumers, events
from runs.models import Event, Run
from runs.selectors import live
from runs.services.events import say
from runs.services.metrics import record_metrics
from runs.services.runs import announce
from tests import factories
from tests.factories import NOW
from tests.scenario import member
from tests.serving import serve

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("services")]

PATIENCE_S = 20


@pytest.fixture(autouse=True)
def _fast_beacons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "BEACON_EVERY_S", 0.3)


@pytest.fixture
def server() -> Iterator[str]:
    with serve() as address:
        yield address


class Browser:
    """A client with a session cookie; collects what it was sent."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.received: list[dict[str, Any]] = []

    def send(self, **message: str) -> None:
        self.socket.send(json.dumps(message))

    def wait_for(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            message: dict[str, Any] = json.loads(
                self.socket.recv(timeout=deadline - time.monotonic())
            )
            self.received.append(message)
            if wanted(message):
                return message
        raise AssertionError(f"never came; received {self.received}")

    def wait_for_type(self, kind: str) -> dict[str, Any]:
        return self.wait_for(lambda message: message["type"] == kind)

    def follow(self, topic: str) -> dict[str, Any]:
        """Subscribe; returns the first beacon."""
        self.send(subscribe=topic)
        assert self.wait_for_type("subscribed")["topic"] == topic
        return self.wait_for_type("beacon")


def cookie_of(user: Any) -> str:
    client = Client()
    client.force_login(user)
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"


def browse(server: str, user: Any, origin: str | None = None) -> ClientConnection:
    return connect(
        f"ws://{server}/ws/live",
        additional_headers={"Cookie": cookie_of(user)},
        origin=Origin(origin or f"http://{server}"),
    )


@pytest.fixture
def run() -> Run:
    found: Run = factories.RunFactory()
    return found


@pytest.fixture
def browser(server: str, run: Run) -> Iterator[Browser]:
    with browse(server, member(Role.VIEWER, run.project)) as opened:
        yield Browser(opened)


def assert_closed(connection: ClientConnection, code: int) -> None:
    with pytest.raises(ConnectionClosed) as caught:
        read_to_the_end(connection)
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == code


def read_to_the_end(connection: ClientConnection) -> None:
    while True:
        connection.recv(timeout=PATIENCE_S)


def test_a_subscriber_hears_what_changes_after_the_commit(browser: Browser, run: Run) -> None:
    topic = events.run_topic(run.project_id, run.pk)
    browser.follow(topic)

    publish(topic, events.RunChanged(run=run.pk, status="paused"))

    assert browser.wait_for_type("run_changed") == {
        "type": "run_changed",
        "run": run.pk,
        "status": "paused",
    }


def test_nothing_of_a_topic_comes_before_subscribing_or_after_unsubscribing(
    browser: Browser, run: Run
) -> None:
    topic, other = events.run_topic(run.project_id, run.pk), events.runs_topic(run.project_id)
    browser.follow(other)
    publish(topic, events.StageChanged(run=run.pk, stage=1, status="running"))
    browser.follow(topic)
    browser.send(unsubscribe=topic)
    browser.follow(other)  # answered in order: the unsubscription has been done
    publish(topic, events.StageChanged(run=run.pk, stage=2, status="running"))
    publish(other, events.RunChanged(run=run.pk, status="paused"))

    browser.wait_for_type("run_changed")

    assert "stage_changed" not in {message["type"] for message in browser.received}


def test_a_viewer_of_another_project_is_refused_and_told_nothing_more(
    server: str, run: Run
) -> None:
    stranger = member(Role.ADMIN, factories.ProjectFactory(slug="theirs"))
    theirs = factories.RunFactory(project__slug="theirs")
    with browse(server, stranger) as opened:
        browser = Browser(opened)
        for topic in (
            events.run_topic(run.project_id, run.pk),
            events.run_topic(theirs.project_id, run.pk),  # their project, our run
            events.runs_topic(run.project_id),
            events.fleet_topic(run.project_id),
            events.trajectory_topic(run.project_id, 1),
            "p1.run",
            "anything",
        ):
            browser.send(subscribe=topic)
            assert browser.wait_for_type("refused") == {
                "type": "refused",
                "topic": topic,
                "code": "not_found",
            }


def test_somebody_without_a_session_is_let_go_with_a_code_that_a_page_can_read(server: str) -> None:
    with connect(f"ws://{server}/ws/live", origin=Origin(f"http://{server}")) as opened:
        assert_closed(opened, consumers.UNAUTHENTICATED)


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:1"])
def test_another_site_cannot_use_the_cookie(server: str, run: Run, origin: str) -> None:
    with browse(server, member(Role.VIEWER, run.project), origin=origin) as opened:
        assert_closed(opened, consumers.UNAUTHENTICATED)


def test_a_host_name_that_is_not_ours_cannot_use_the_cookie() -> None:
    headers = {
        b"host": b"rebound.example:8000",
        b"origin": b"http://rebound.example:8000",
    }

    assert not consumers.is_own_origin(headers)


def test_no_other_socket_path_exists(server: str) -> None:
    with pytest.raises(InvalidStatus):
        connect(f"ws://{server}/ws/other")


def test_a_ticket_opens_one_connection_and_keeps_the_token_s_project(server: str, run: Run) -> None:
    user = member(Role.OPERATOR, run.project)
    elsewhere = factories.RunFactory(project__slug="second")
    factories.MembershipFactory(user=user, project=elsewhere.project)
    _, text = issue_token(user, run.project, name="t", role=Role.VIEWER, now=NOW)
    answer = Client().post("/api/v1/ws-ticket", headers={"Authorization": f"Bearer {text}"})
    url = f"ws://{server}/ws/live?ticket={answer.json()['ticket']}"

    with connect(url) as opened:
        browser = Browser(opened)
        browser.follow(events.runs_topic(run.project_id))
        browser.send(subscribe=events.runs_topic(elsewhere.project_id))
        assert browser.wait_for_type("refused")["code"] == "not_found"
    with connect(url) as again:
        assert_closed(again, consumers.UNAUTHENTICATED)


def test_a_revoked_token_closes_its_socket(
    server: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "CHECK_EVERY_S", 0.2)
    user = member(Role.OPERATOR, run.project)
    token, text = issue_token(user, run.project, name="t", role=Role.VIEWER, now=NOW)
    answer = Client().post("/api/v1/ws-ticket", headers={"Authorization": f"Bearer {text}"})

    with connect(f"ws://{server}/ws/live?ticket={answer.json()['ticket']}") as opened:
        Browser(opened).follow(events.runs_topic(run.project_id))
        revoke_token(user, token.pk, now=NOW)
        assert_closed(opened, consumers.UNAUTHENTICATED)


def test_a_lost_membership_closes_the_socket(
    server: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "CHECK_EVERY_S", 0.2)
    user = member(Role.VIEWER, run.project)
    with browse(server, user) as opened:
        Browser(opened).follow(events.runs_topic(run.project_id))
        user.memberships.all().delete()
        assert_closed(opened, consumers.UNAUTHENTICATED)


def test_a_change_that_nobody_published_is_in_the_next_beacon(browser: Browser, run: Run) -> None:
    before = browser.follow(events.run_topic(run.project_id, run.pk))["cursors"]
    Event.objects.create(run=run, at=NOW, kind="k", sentence="Written without a word.")

    after = browser.wait_for(
        lambda message: message["type"] == "beacon" and message["cursors"] != before
    )

    assert after["cursors"]["events"] == before["events"] + 1


def test_after_valkey_dropped_the_subscription_a_beacon_comes_and_events_flow_again(
    browser: Browser, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        consumers, "BEACON_EVERY_S", 600
    )  # not the regular one: the one of recovery
    topic = events.run_topic(run.project_id, run.pk)
    before = browser.follow(topic)["cursors"]
    valkey = redis.Redis.from_url(settings.REDIS_URL)
    valkey.client_kill_filter(_type="pubsub")
    Event.objects.create(run=run, at=NOW, kind="k", sentence="Meanwhile.")

    browser.wait_for(lambda message: message["type"] == "beacon" and message["cursors"] != before)
    deadline = time.monotonic() + PATIENCE_S
    while not valkey.pubsub_numpat() and time.monotonic() < deadline:
        time.sleep(0.05)
    publish(topic, events.RunChanged(run=run.pk, status="paused"))
    browser.wait_for_type("run_changed")


def test_many_messages_about_one_thing_come_as_few(browser: Browser, run: Run) -> None:
    topic = events.run_topic(run.project_id, run.pk)
    browser.follow(topic)
    for number in range(200):
        publish(topic, events.StepChanged(run=run.pk, step=7, status=f"s{number}"))

    browser.wait_for(lambda message: message.get("status") == "s199")

    assert sum(message["type"] == "step_changed" for message in browser.received) < 20


def test_forty_open_pages_all_get_every_committed_event_and_the_final_state(
    server: str, run: Run
) -> None:
    topic = events.run_topic(run.project_id, run.pk)
    user = member(Role.VIEWER, run.project)
    with ExitStack() as stack:
        browsers = [Browser(stack.enter_context(browse(server, user))) for _ in range(40)]
        for browser in browsers:
            browser.follow(topic)
        for number in range(60):
            say(run, "note", f"event {number}", now=NOW)
            record_metrics(run, {"train/loss": 0.5}, step=number, now=NOW)
        run.move("succeeded", finished_at=NOW)
        announce(run)
        final = live.cursors(topic)
        for browser in browsers:
            browser.wait_for(lambda message: message.get("cursors") == final)

    for browser in browsers:
        heard = browser.received
        sentences = [m["sentence"] for m in heard if m["type"] == "event_added"]
        assert sentences == [f"event {number}" for number in range(60)]
        points = [
            point["step"] for m in heard if m["type"] == "metrics_added" for point in m["points"]
        ]
        assert points == list(range(60))
        assert [m["status"] for m in heard if m["type"] == "run_changed"] == ["succeeded"]


def test_metric_points_are_joined_and_keep_what_json_cannot_hold(
    browser: Browser, run: Run
) -> None:
    topic = events.run_topic(run.project_id, run.pk)
    browser.follow(topic)
    values = [0.5, math.nan, math.inf, -math.inf]
    for step, value in enumerate(values):
        point = events.MetricPointData(name="train/loss", resume=0, step=step, value=value, at=NOW)
        publish(topic, events.MetricsAdded(run=run.pk, points=[point]))

    points: list[dict[str, Any]] = []
    while len(points) < len(values):
        points += browser.wait_for_type("metrics_added")["points"]

    assert [point["step"] for point in points] == [0, 1, 2, 3]
    assert [point["value"] for point in points] == [0.5, "NaN", "Infinity", "-Infinity"]


def test_an_open_trajectory_is_announced_to_the_workers(browser: Browser, run: Run) -> None:
    trajectory = factories.TrajectoryFactory(group__stage__run=run)
    topic = events.trajectory_topic(run.project_id, trajectory.pk)
    assert followed([topic]) == set()

    browser.follow(topic)

    assert followed([topic]) == {topic}


def test_one_connection_follows_a_bounded_number_of_topics(
    browser: Browser, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "MAX_TOPICS", 1)
    browser.follow(events.run_topic(run.project_id, run.pk))

    browser.send(subscribe=events.runs_topic(run.project_id))

    assert browser.wait_for_type("refused")["code"] == "too_many_topics"


@pytest.mark.parametrize("text", ["{", "[]", '{"shout": "x"}', '{"subscribe": 7}', "x" * 2000])
def test_a_client_that_talks_nonsense_is_let_go(browser: Browser, text: str) -> None:
    browser.socket.send(text)

    assert_closed(browser.socket, 1003)


def test_nobody_listening_means_no_subscription(server: str, run: Run) -> None:
    valkey = redis.Redis.from_url(settings.REDIS_URL)
    with browse(server, member(Role.VIEWER, run.project)) as opened:
        Browser(opened).follow(events.runs_topic(run.project_id))
        deadline = time.monotonic() + PATIENCE_S
        while not valkey.pubsub_numpat() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert valkey.pubsub_numpat() == 1

    deadline = time.monotonic() + PATIENCE_S
    while valkey.pubsub_numpat() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert valkey.pubsub_numpat() == 0

"""Login links, passwords, sessions and the protection against other sites."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.test import Client
from django.utils import timezone
from pytest_django.fixtures import Settings

from controlplane import live
from controlplane.accounts import throttle
from controlplane.accounts.models import AuditEntry, Role, User
from controlplane.accounts.services.login_links import create_login_link, use_login_link
from controlplane.accounts.services.users import ensure_first_admin
from controlplane.errors import Conflict
from tests import factories
from tests.scenario import member

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery"


@pytest.fixture
def user() -> User:
    found = member(Role.VIEWER, factories.ProjectFactory())
    found.set_password(PASSWORD)
    found.save()
    return found


@pytest.fixture(autouse=True)
def _fast_hashes(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture(autouse=True)
def _fresh_counters(services: None) -> Iterator[None]:
    yield
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as valkey:
        for key in valkey.scan_iter("longtail:login:*"):
            valkey.delete(key)


def is_signed_in(client: Client) -> bool:
    return client.get("/api/v1/me").status_code == 200


def token_in(answer: Any) -> str:
    found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', answer.content.decode())
    assert found is not None
    return found.group(1)


def test_a_link_signs_in_once(user: User) -> None:
    path = create_login_link(user, now=timezone.now())
    first, second = Client(enforce_csrf_checks=True), Client(enforce_csrf_checks=True)

    answer = first.post(path, {"csrfmiddlewaretoken": token_in(first.get(path))})
    again = second.post(path, {"csrfmiddlewaretoken": token_in(second.get(path))})

    assert (answer.status_code, answer["Location"]) == (302, "/runs")
    assert is_signed_in(first)
    assert again.status_code == 410
    assert not is_signed_in(second)


def test_what_prefetches_a_link_does_not_spend_it(user: User) -> None:
    path = create_login_link(user, now=timezone.now())
    client = Client()
    for _ in range(3):
        assert client.get(path).status_code == 200
        assert client.head(path).status_code == 200
    assert not is_signed_in(client)

    assert client.post(path).status_code == 302


def test_a_link_works_only_from_its_own_page(user: User) -> None:
    path = create_login_link(user, now=timezone.now())

    assert Client(enforce_csrf_checks=True).post(path).status_code == 403
    assert Client().post(path).status_code == 302


def test_an_expired_link_and_an_unknown_one_sign_nobody_in(user: User) -> None:
    past = create_login_link(user, now=timezone.now(), lifetime=timedelta(seconds=-1))
    for path in (past, "/enter/guess"):
        client = Client()
        assert client.post(path).status_code == 410
        assert not is_signed_in(client)


def test_a_link_of_somebody_who_was_switched_off_signs_nobody_in(user: User) -> None:
    path = create_login_link(user, now=timezone.now())
    User.objects.update(is_active=False)

    assert Client().post(path).status_code == 410


def test_of_two_users_of_one_link_the_second_gets_a_conflict(user: User) -> None:
    secret = create_login_link(user, now=timezone.now()).rpartition("/")[2]

    assert use_login_link(secret, now=timezone.now()) == user
    with pytest.raises(Conflict):
        use_login_link(secret, now=timezone.now())


def test_the_page_of_a_link_runs_nothing_and_names_no_secret(user: User) -> None:
    path = create_login_link(user, now=timezone.now())
    answer = Client().get(path)

    policy = answer["Content-Security-Policy"]
    nonce = re.search(r"'nonce-([^']+)'", policy)
    assert nonce is not None
    assert "unsafe" not in policy
    assert f'nonce="{nonce.group(1)}"' in answer.content.decode()
    assert path.rpartition("/")[2] not in answer.content.decode()
    assert answer["Cache-Control"] == "no-store"
    assert answer["Referrer-Policy"] == "same-origin"


def test_a_password_signs_in_and_out(user: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.get("/login")
    csrf = client.cookies["csrftoken"].value

    answer = post(client, "/api/v1/login", csrf, username=user.username, password=PASSWORD)

    assert answer.status_code == 200, answer.content
    assert answer.json()["user"]["username"] == user.username
    assert is_signed_in(client)
    assert post(client, "/api/v1/logout", answer.json()["csrf"]).status_code == 204
    assert not is_signed_in(client)


def post(client: Client, path: str, csrf: str, **body: str) -> Any:
    return client.post(
        path, json.dumps(body), content_type="application/json", headers={"X-CSRFToken": csrf}
    )


def test_another_site_can_neither_log_in_nor_write(user: User) -> None:
    client = Client(enforce_csrf_checks=True)
    answer = post(client, "/api/v1/login", "", username=user.username, password=PASSWORD)
    assert answer.status_code == 403

    client.force_login(user)
    answer = post(client, "/api/v1/tokens", "", name="t")
    assert answer.status_code == 403
    assert answer.json()["code"] == "permission_denied"
    assert not user.api_tokens.exists()


def test_a_bearer_token_needs_no_csrf_token_and_a_cookie_does_not_replace_it(user: User) -> None:
    client = Client(enforce_csrf_checks=True)

    answer = client.post("/api/v1/logout", headers={"Authorization": "Bearer lt_0_guess"})

    assert answer.status_code == 401


def test_a_wrong_password_says_the_same_as_a_wrong_name(user: User) -> None:
    answers = [
        Client().post(
            "/api/v1/login",
            {"username": name, "password": "wrong"},
            content_type="application/json",
        )
        for name in (user.username, "nobody")
    ]

    assert [answer.status_code for answer in answers] == [403, 403]
    assert answers[0].json()["code"] == "bad_login"
    assert answers[0].json() == answers[1].json()


def test_passwords_cannot_be_guessed_for_long(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "TRIES_PER_NAME", 2)
    body = {"username": user.username, "password": "wrong"}
    for _ in range(2):
        answer = Client().post("/api/v1/login", body, content_type="application/json")
        assert answer.json()["code"] == "bad_login"
    body["password"] = PASSWORD

    answer = Client().post("/api/v1/login", body, content_type="application/json")

    assert answer.status_code == 429
    assert answer.json()["code"] == "throttled"
    assert 0 < int(answer["Retry-After"]) <= throttle.WINDOW_S


def test_a_name_that_signed_in_starts_anew(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "TRIES_PER_NAME", 1)
    body = {"username": user.username, "password": PASSWORD}

    for _ in range(3):
        answer = Client().post("/api/v1/login", body, content_type="application/json")
        assert answer.status_code == 200


def test_without_its_counter_nobody_logs_in_by_password(
    user: User, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_connection", None)
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    body = {"username": user.username, "password": PASSWORD}

    answer = Client().post("/api/v1/login", body, content_type="application/json")

    assert answer.status_code == 503
    assert answer.json()["code"] == "login_unavailable"


def test_the_first_admin_has_no_password_and_is_made_once() -> None:
    now = timezone.now()

    admin = ensure_first_admin(now=now)

    assert ensure_first_admin(now=now) == admin
    assert not admin.has_usable_password()
    client = Client()
    assert client.post(create_login_link(admin, now=now)).status_code == 302
    assert client.get("/api/v1/me").json()["projects"][0]["role"] == "admin"


def test_every_way_in_is_in_the_audit_log(user: User) -> None:
    Client().post(create_login_link(user, now=timezone.now()))
    Client().post(
        "/api/v1/login",
        {"username": user.username, "password": PASSWORD},
        content_type="application/json",
    )

    assert [entry.action for entry in AuditEntry.objects.order_by("id")] == [
        "login.link",
        "login.password",
    ]

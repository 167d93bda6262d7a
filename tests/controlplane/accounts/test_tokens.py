from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.accounts.models import ApiToken, Role, User
from tests import factories
from tests.scenario import member

pytestmark = pytest.mark.django_db


@pytest.fixture
def user() -> User:
    return member(Role.OPERATOR, factories.ProjectFactory())


def browser(user: User) -> APIClient:
    client = APIClient()
    client.force_login(user)
    return client


def issue(user: User, **body: Any) -> Any:
    return browser(user).post("/api/v1/tokens", {"name": "laptop", **body}, format="json")


def me_with(text: str) -> int:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    status: int = client.get("/api/v1/me").status_code
    return status


def test_a_token_is_shown_once_and_kept_as_a_hash(user: User) -> None:
    text = issue(user).json()["text"]

    assert me_with(text) == 200
    row = ApiToken.objects.get()
    assert text.rpartition("_")[2] not in str(vars(row))
    listed = browser(user).get("/api/v1/tokens").json()["results"]
    assert [set(each) & {"text", "digest"} for each in listed] == [set()]


def test_a_token_cannot_have_a_higher_role_than_its_owner(user: User) -> None:
    assert issue(user, role="admin").status_code == 403
    assert issue(user, role="operator").status_code == 201


def test_a_token_loses_what_its_owner_loses(user: User) -> None:
    text = issue(user).json()["text"]
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    run = factories.RunFactory(project=user.memberships.get().project)
    assert client.post(f"/api/v1/runs/{run.pk}/pause").status_code == 200

    user.memberships.update(role=Role.VIEWER)

    assert client.post(f"/api/v1/runs/{run.pk}/unpause").status_code == 403


@pytest.mark.parametrize("how", ["revoked", "expired", "owner switched off", "secret changed"])
def test_a_token_that_is_over_is_refused(user: User, how: str) -> None:
    answer = issue(user).json()
    text = answer["text"]
    if how == "revoked":
        assert browser(user).delete(f"/api/v1/tokens/{answer['id']}").status_code == 204
    elif how == "expired":
        ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    elif how == "owner switched off":
        User.objects.update(is_active=False)
    else:
        text = text[:-1] + ("a" if text[-1] != "a" else "b")

    assert me_with(text) == 401


def test_nobody_revokes_the_token_of_another(user: User) -> None:
    answer = issue(user).json()
    other = member(Role.ADMIN, factories.ProjectFactory())

    assert browser(other).delete(f"/api/v1/tokens/{answer['id']}").status_code == 404
    assert me_with(answer["text"]) == 200


def test_a_token_revokes_no_token(user: User) -> None:
    answer = issue(user).json()
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {answer['text']}")

    assert client.delete(f"/api/v1/tokens/{answer['id']}").status_code == 403


def test_revoking_twice_is_a_conflict(user: User) -> None:
    path = f"/api/v1/tokens/{issue(user).json()['id']}"

    assert browser(user).delete(path).status_code == 204
    assert browser(user).delete(path).json()["code"] == "already_revoked"


def test_a_member_of_several_projects_must_name_one(user: User) -> None:
    factories.MembershipFactory(user=user, project=factories.ProjectFactory(slug="second"))

    assert issue(user).json()["code"] == "project_needed"
    assert issue(user, project="second", role="viewer").status_code == 201

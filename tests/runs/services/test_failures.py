"""What a person says about a failure group."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from controlplane.accounts.models import AuditEntry, Role
from controlplane.errors import Forbidden, Invalid, NotFound
from runs.selectors.failures import failure_group
from runs.services import failures
from sandboxes.models import FailureGroup
from tests import factories
from tests.factories import NOW
from tests.scenario import member

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


@pytest.fixture
def group() -> FailureGroup:
    found: FailureGroup = factories.FailureGroupFactory(first_at=NOW - 3 * DAY, last_at=NOW - DAY)
    return found


def state(group: FailureGroup) -> str:
    viewer = factories.UserFactory(admin=True)
    return failure_group(viewer, group.pk, now=NOW)["state"]


def test_a_group_is_resolved_ignored_and_reopened_with_a_reason(group: FailureGroup) -> None:
    actor = member(Role.OPERATOR, group.project)

    failures.resolve_group(group.pk, actor=actor, reason="new image", now=NOW)
    assert state(group) == "resolved"
    failures.ignore_group(group.pk, actor=actor, reason="known", until=NOW + DAY, now=NOW)
    assert state(group) == "ignored"
    failures.reopen_group(group.pk, actor=actor, reason="it is worse", now=NOW)
    assert state(group) == "ongoing"

    group.refresh_from_db()
    assert (group.state_reason, group.state_by) == ("it is worse", actor.username)
    entries = list(AuditEntry.objects.order_by("id").values_list("action", "actor", "project"))
    assert entries == [
        (action, actor.pk, group.project_id)
        for action in ("failure.resolve", "failure.ignore", "failure.reopen")
    ]
    assert [entry.details["reason"] for entry in AuditEntry.objects.order_by("id")] == [
        "new image",
        "known",
        "it is worse",
    ]


@pytest.mark.parametrize(
    "service",
    [
        failures.resolve_group,
        failures.reopen_group,
        lambda pk, **given: failures.ignore_group(pk, until=NOW + DAY, **given),
    ],
)
def test_a_viewer_may_not_and_a_stranger_does_not_know_of_it(
    group: FailureGroup, service: Callable[..., Any]
) -> None:
    stranger = member(Role.ADMIN, factories.ProjectFactory(slug="theirs"))

    with pytest.raises(Forbidden):
        service(group.pk, actor=member(Role.VIEWER, group.project), reason="r", now=NOW)
    with pytest.raises(NotFound):
        service(group.pk, actor=stranger, reason="r", now=NOW)
    assert state(group) == "ongoing"
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("until", [NOW, NOW - DAY, NOW + 400 * DAY])
def test_a_group_is_ignored_for_a_while_only(group: FailureGroup, until: Any) -> None:
    actor = member(Role.OPERATOR, group.project)

    with pytest.raises(Invalid) as refused:
        failures.ignore_group(group.pk, actor=actor, reason="r", until=until, now=NOW)
    assert refused.value.errors[0].pointer == "/until"

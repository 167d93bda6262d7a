"""What a failure group is now, said of a row and found by a query."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import product

import pytest

from sandboxes import services
from sandboxes.failure_states import NEW_FOR, STATES, in_state, state_of
from sandboxes.failures import Failure, FailureClass, FailureStage
from sandboxes.models import FailureGroup
from tests import factories
from tests.factories import NOW

HOUR = timedelta(hours=1)


def state(
    *,
    first_at: datetime = NOW - 3 * NEW_FOR,
    last_at: datetime = NOW - HOUR,
    resolved_at: datetime | None = None,
    regressed_at: datetime | None = None,
    ignored_until: datetime | None = None,
) -> str:
    return state_of(
        first_at=first_at,
        last_at=last_at,
        resolved_at=resolved_at,
        regressed_at=regressed_at,
        ignored_until=ignored_until,
        now=NOW,
    )


def test_a_group_is_new_for_a_day_and_then_ongoing() -> None:
    assert state(first_at=NOW - HOUR) == "new"
    assert state(first_at=NOW - NEW_FOR + HOUR) == "new"
    assert state(first_at=NOW - NEW_FOR) == "ongoing"


def test_a_resolved_group_that_fails_again_has_regressed() -> None:
    assert state(last_at=NOW - 2 * HOUR, resolved_at=NOW - HOUR) == "resolved"
    assert state(last_at=NOW, resolved_at=NOW - HOUR, regressed_at=NOW) == "regressed"
    assert state(last_at=NOW, resolved_at=NOW - HOUR) == "regressed", "though nobody marked it"


def test_ignored_wins_while_it_lasts() -> None:
    resolved = {"resolved_at": NOW - HOUR, "regressed_at": NOW}

    assert state(ignored_until=NOW + HOUR, **resolved) == "ignored"
    assert state(ignored_until=NOW, **resolved) == "regressed"


@pytest.mark.django_db
def test_the_query_of_a_state_finds_the_rows_that_are_said_to_be_in_it() -> None:
    times = (None, NOW - 2 * HOUR, NOW - HOUR, NOW)
    for first, last, resolved, regressed, ignored in product(
        (NOW - NEW_FOR, NOW - NEW_FOR + HOUR),
        (NOW - 2 * HOUR, NOW),
        times,
        (None, NOW),
        (None, NOW, NOW + HOUR),
    ):
        factories.FailureGroupFactory(
            first_at=first,
            last_at=last,
            resolved_at=resolved,
            regressed_at=regressed,
            ignored_until=ignored,
        )
    names = ("first_at", "last_at", "resolved_at", "regressed_at", "ignored_until")

    for wanted in STATES:
        said = {
            group.pk
            for group in FailureGroup.objects.all()
            if state_of(**{name: getattr(group, name) for name in names}, now=NOW) == wanted
        }
        found = set(FailureGroup.objects.filter(in_state(wanted, NOW)).values_list("pk", flat=True))
        assert found == said, wanted
        assert found, wanted


@pytest.mark.django_db
def test_a_failure_after_the_resolution_marks_the_group_once() -> None:
    project = factories.ProjectFactory()
    failure = Failure(FailureStage.EXEC, FailureClass.LOST, "the box is gone")

    def fails(at: datetime) -> FailureGroup:
        services.record_failure(project.pk, failure, attempt_id=None, run_id=None, now=at)
        return FailureGroup.objects.get()

    assert fails(NOW).regressed_at is None
    FailureGroup.objects.update(resolved_at=NOW + HOUR)
    assert fails(NOW + 2 * HOUR).regressed_at == NOW + 2 * HOUR
    again = fails(NOW + 3 * HOUR)
    assert (again.regressed_at, again.num_failures) == (NOW + 2 * HOUR, 3)

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import ExpressionWrapper, F, FloatField
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.errors import Invalid
from controlplane.pages import Rows
from runs.models import Event
from sandboxes.models import Limit
from tests import factories
from tests.factories import NOW


def _pages(rows: Rows[dict[str, int]], limit: int) -> list[list[int]]:
    found, cursor = [], None
    for _ in range(60):
        page, cursor = rows.page(limit, cursor)
        found.append([row["id"] for row in page])
        if cursor is None:
            return found
    raise AssertionError(f"no end of pages: {found}")


@pytest.mark.django_db
@pytest.mark.parametrize("limit", [1, 2, 3, 4, 6, 7])
@pytest.mark.parametrize("key", ["id", "-id"])
def test_pages_hold_every_row_once_and_in_order(limit: int, key: str) -> None:
    run = factories.RunFactory()
    ids = sorted(event.pk for event in factories.EventFactory.create_batch(6, run=run))
    rows: Rows[dict[str, int]] = Rows(
        Event.objects.values("id"),  # type: ignore[arg-type]
        lambda page: page,
        key,
    )

    pages = _pages(rows, limit)

    assert [each for page in pages for each in page] == (ids if key == "id" else ids[::-1])
    assert all(len(page) == limit for page in pages[:-1])
    assert pages[-1], "a last page that is full has no empty one after it"


@pytest.mark.django_db
def test_a_row_that_comes_in_between_is_neither_doubled_nor_shifts_the_others() -> None:
    run = factories.RunFactory()
    old = [event.pk for event in factories.EventFactory.create_batch(4, run=run)]
    rows: Rows[dict[str, int]] = Rows(Event.objects.values("id"), lambda page: page)  # type: ignore[arg-type]
    first, cursor = rows.page(2, None)
    factories.EventFactory(run=run)

    second, _ = rows.page(2, cursor)

    assert [row["id"] for row in first + second] == sorted(old, reverse=True)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "=",
        "....",
        base64.urlsafe_b64encode(b'"a"').decode(),
        base64.b64encode(b"9" * 30).decode(),
    ],
)
def test_a_cursor_that_is_not_ours_is_refused(cursor: str) -> None:
    rows: Rows[dict[str, int]] = Rows(Event.objects.values("id"), lambda page: page)  # type: ignore[arg-type]

    with pytest.raises(Invalid):
        rows.page(2, cursor)


def _limits(**order: Any) -> Rows[dict[str, int]]:
    query = Limit.objects.annotate(
        twice=ExpressionWrapper(F("measured") * 2, output_field=FloatField())
    )
    columns = query.values("id", "measured", "measured_at", "unit", "twice")
    return Rows(columns, lambda page: page, **order)  # type: ignore[arg-type]


FEW_VALUES = st.one_of(
    st.none(), st.sampled_from([-1.5, 0.0, 0.1, 0.2, 0.1 + 0.2]), st.floats(-1e9, 1e9)
)


@pytest.mark.django_db
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    values=st.lists(FEW_VALUES, max_size=12),
    column=st.sampled_from(["measured", "measured_at", "unit", "twice"]),
    is_descending=st.booleans(),
    key=st.sampled_from(["id", "-id"]),
    limit=st.integers(1, 5),
)
def test_pages_by_any_column_are_the_sorted_list_with_no_row_twice_or_skipped(
    values: list[float | None], column: str, is_descending: bool, key: str, limit: int
) -> None:
    Limit.objects.all().delete()
    project = factories.ProjectFactory()
    for number, value in enumerate(values):
        at = None if value is None else NOW + timedelta(microseconds=int(value * 10) % 977)
        factories.LimitFactory(
            project=project, name=str(number), measured=value, measured_at=at, unit=str(value)[:3]
        )
    rows = _limits(sort=("-" if is_descending else "") + column, key=key)
    table = [(row[column], row["id"]) for row in rows.query]
    by_key = sorted(table, key=lambda row: row[1], reverse=key == "-id")
    filled = [row for row in by_key if row[0] is not None]
    if column == "unit":  # in the order of the database, which need not be Python's
        words = list(Limit.objects.order_by("unit").values_list("unit", flat=True).distinct())
        filled.sort(key=lambda row: words.index(row[0]), reverse=is_descending)
    else:
        filled.sort(key=lambda row: row[0], reverse=is_descending)
    expected = [row[1] for row in filled + [row for row in by_key if row[0] is None]]

    pages = _pages(rows, limit)

    assert [each for page in pages for each in page] == expected
    assert [row["id"] for chunk in rows.chunks(limit) for row in chunk] == expected


@pytest.mark.django_db
def test_a_cursor_of_another_order_is_refused_with_the_reason() -> None:
    for name in "abc":
        factories.LimitFactory(name=name, measured=1.0)
    _, cursor = _limits(sort="measured").page(1, None)

    for other in ({"sort": "-measured"}, {"sort": "unit"}, {}):
        with pytest.raises(Invalid, match="in another order"):
            _limits(**other).page(1, cursor)


@pytest.mark.django_db
def test_a_cursor_that_was_changed_is_refused() -> None:
    for name in "abc":
        factories.LimitFactory(name=name, measured=1.0)
    rows = _limits(sort="measured")
    _, cursor = rows.page(1, None)
    assert cursor is not None

    with pytest.raises(Invalid, match="not a cursor of ours"):
        rows.page(1, ("A" if cursor[0] != "A" else "B") + cursor[1:])

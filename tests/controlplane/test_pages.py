from __future__ import annotations

import base64

import pytest

from controlplane.errors import Invalid
from controlplane.pages import Rows
from runs.models import Event
from tests import factories


def _pages(rows: Rows[dict[str, int]], limit: int) -> list[list[int]]:
    found, cursor = [], None
    for _ in range(20):
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

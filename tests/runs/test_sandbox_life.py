"""A box's life out of its row, and many lives as a carpet."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np

from runs.sandbox_life import CARPET, MAX_CELLS, Box, carpet, first_free, lives_of
from tests.factories import NOW

T = NOW.timestamp()


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def box(
    created: float,
    ready: float | None,
    finished: float | None,
    status: str = "gone",
    *,
    before: float = 0,
    verify: float = 0,
    teardown: float = 0,
) -> Box:
    return (
        T + created,
        None if ready is None else T + ready,
        None if finished is None else T + finished,
        status,
        before,
        verify,
        teardown,
    )


def told(found: Box, now: float = 100) -> list[tuple[str, float, float]]:
    """The spans of one box that last."""
    lives = lives_of([found], T + now)
    (edges,), (word,) = lives.edges - T, lives.words
    names = ("queued", "starting", CARPET[word], "verifying", "stopping")
    spans = zip(names, edges[:-1].round(6), edges[1:].round(6), strict=True)
    return [(name, start, end) for name, start, end in spans if end > start]


def test_a_life_is_counted_back_from_ready_and_from_its_end() -> None:
    lived = box(10, 10, 30, before=4, verify=5, teardown=2)

    assert told(lived) == [
        ("starting", 6, 10),
        ("in use", 10, 23),
        ("verifying", 23, 28),
        ("stopping", 28, 30),
    ]


def test_what_waited_before_its_start_was_queued() -> None:
    assert told(box(0, 10, 20, before=4))[:2] == [("queued", 0, 6), ("starting", 6, 10)]


def test_a_box_that_lives_is_in_its_stage_until_now() -> None:
    assert told(box(0, 5, None, "leased", before=5)) == [("starting", 0, 5), ("in use", 5, 100)]
    assert told(box(0, None, None, "requested")) == [("queued", 0, 100)]
    assert told(box(0, 5, None, "stopping", before=5))[-1] == ("stopping", 5, 100)


def test_a_box_that_never_got_ready_started_until_it_failed() -> None:
    assert told(box(0, None, 8, "failed")) == [("starting", 0, 8)]


def test_a_row_is_used_again_once_it_is_free() -> None:
    assert first_free([(0, 10), (1, 4), (2, 12), (4, 6), (11, 20)]) == [0, 1, 2, 1, 0]


def test_a_cell_is_the_stage_that_lasted_longest_and_a_failure_before_all() -> None:
    found = carpet(
        [box(0, 4, 10, before=4, teardown=1), box(2, None, 10, "failed")], bins=5, now=at(10)
    )

    names = [[CARPET[code] for code in row] for row in found.cells]
    assert names[0] == ["starting", "starting", "in use", "in use", "in use"]
    assert names[1] == ["idle", "starting", "starting", "starting", "failed"]
    assert (found.from_at, found.to_at) == (at(0), at(10))


def test_without_a_box_there_is_no_carpet() -> None:
    found = carpet([], bins=5, now=NOW)

    assert (found.cells.shape, found.from_at, found.num_boxes) == ((0, 5), None, 0)


def test_what_was_before_a_long_pause_is_left_out() -> None:
    boxes = [box(0, 1, 5), box(1000, 1001, 1005), box(1002, 1003, 1900), box(1950, 1951, 1960)]

    assert carpet(boxes, bins=5, now=at(2000), max_pause_s=600).num_boxes == 3
    assert carpet(boxes, bins=5, now=at(2000)).num_boxes == 4


def test_a_carpet_of_many_rows_has_fewer_columns() -> None:
    found = carpet([box(i * 0.001, 1, 50) for i in range(1000)], bins=240, now=at(60))

    assert found.cells.shape == (1000, MAX_CELLS // 1000)
    assert found.cells.dtype == np.uint8

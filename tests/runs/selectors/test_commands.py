"""Which commands a run takes, and the reason where it takes none: pure rules."""

from __future__ import annotations

import pytest

from runs.selectors.commands import StageFacts, commands_of, why_no_checkpoint
from tests.factories import NOW

RL = StageFacts("rl", "rl-training", num_steps_done=4, is_training=False, is_saved=False)


@pytest.mark.parametrize(
    ("status", "allowed"),
    [
        ("queued", {"stop"}),
        ("running", {"pause", "checkpoint", "stop"}),
        ("paused", {"unpause", "checkpoint", "stop"}),
        ("stopping", set()),
        ("succeeded", set()),
        ("failed", {"resume"}),
        ("cancelled", {"resume"}),
    ],
)
def test_an_operator_may_do_what_the_status_allows_and_hears_why_not_the_rest(
    status: str, allowed: set[str]
) -> None:
    rows = commands_of(status, "operator", why_no_checkpoint(status, None, RL))

    assert {row["command"] for row in rows if row["is_allowed"]} == allowed
    assert all(status in row["why_not"] for row in rows if not row["is_allowed"])


@pytest.mark.parametrize("role", ["viewer", None])
def test_a_viewer_may_do_nothing_and_hears_why(role: str | None) -> None:
    rows = commands_of("running", role, "")

    assert {row["why_not"] for row in rows} == {"Viewers may look, operators may act."}


def test_a_paused_run_writes_its_checkpoint_right_away() -> None:
    assert why_no_checkpoint("paused", None, RL) == ""


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        (RL._replace(num_steps_done=0), "nothing to save"),
        (RL._replace(is_saved=True), "after step 4, which has its checkpoint"),
        (RL._replace(kind="eval", name="base"), "base is an evaluation"),
        (RL._replace(kind="sft", name="warm-up"), "published at its end"),
        (None, "No stage is in progress"),
    ],
)
def test_a_checkpoint_that_would_hold_nothing_new_is_refused_with_the_reason(
    stage: StageFacts | None, words: str
) -> None:
    assert words in why_no_checkpoint("paused", None, stage)


def test_a_saved_step_is_no_reason_while_another_is_in_training() -> None:
    busy = RL._replace(is_saved=True, is_training=True)

    assert why_no_checkpoint("paused", None, busy) == ""
    assert why_no_checkpoint("running", None, RL._replace(is_saved=True)) == ""


def test_a_checkpoint_is_asked_for_once() -> None:
    assert "already" in why_no_checkpoint("running", NOW, RL)

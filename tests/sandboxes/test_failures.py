from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sandboxes.failures import POLICIES, Failure, FailureClass, FailureStage, fingerprint

ROOT = Path(__file__).parents[2]


def test_every_class_has_a_policy() -> None:
    assert set(POLICIES) == set(FailureClass)


@pytest.mark.parametrize("kind", [FailureClass.CAPACITY, FailureClass.RATE_LIMIT])
def test_a_refusal_of_capacity_waits_and_costs_no_attempt(kind: FailureClass) -> None:
    assert POLICIES[kind].waits
    assert not any(
        policy.waits
        for other, policy in POLICIES.items()
        if other.value not in ("capacity", "rate_limit")
    )


def test_an_unknown_failure_is_tried_once_more_at_most() -> None:
    assert POLICIES[FailureClass.UNKNOWN].retries == 1
    assert POLICIES[FailureClass.TASK_DEFECT].retries == 0


def test_a_failure_says_where_and_what() -> None:
    failure = Failure(
        FailureStage.EXEC, FailureClass.LOST, "the box is gone", evidence={"signal": 9}
    )
    assert str(failure) == "exec/lost: the box is gone"
    assert not failure.by_policy
    assert failure.evidence == {"signal": 9}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("no shell within 30 s", "no shell within 0.5 s"),
        (
            "the template /var/a/b cannot be used",
            "the template /srv/other/dir-1/x.y cannot be used",
        ),
        (
            "connect to http://10.0.0.1:30000/generate failed",
            "connect to https://engine/x?y=1 failed",
        ),
        ("sandbox 0123456789abcdef is gone", "sandbox fedcba9876543210ff is gone"),
        (
            "attempt 5f0c9a4e-8f43-4b52-9f0a-0a1b2c3d4e5f",
            "attempt 00000000-8f43-4b52-9f0a-0a1b2c3d4e5f",
        ),
        ("at 0x7f00aa10", "at 0x1"),
        ("two  spaces\nand a line", "two spaces and a line"),
    ],
)
def test_failures_that_differ_only_in_what_varies_are_one_group(first: str, second: str) -> None:
    stage, kind = FailureStage.EXEC, FailureClass.LOST
    assert fingerprint(stage, kind, first) == fingerprint(stage, kind, second)


def test_failures_of_another_stage_class_or_message_are_other_groups() -> None:
    prints = {
        Failure(stage, kind, message).fingerprint
        for stage in (FailureStage.EXEC, FailureStage.START)
        for kind in (FailureClass.LOST, FailureClass.OOM)
        for message in ("the box is gone", "the spawner is gone")
    }
    assert len(prints) == 8
    assert "v1:exec:lost:the box is gone" in prints


def test_a_fingerprint_is_short_whatever_an_agent_printed() -> None:
    assert len(fingerprint(FailureStage.EXEC, FailureClass.UNKNOWN, "word " * 100_000)) < 300


def test_the_taxonomy_and_the_drivers_load_without_django() -> None:
    code = "import sys, sandboxes.failures, sandboxes.drivers.local; print('django' in sys.modules)"
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"

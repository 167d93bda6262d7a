"""The long tail: which groups are shown, what their members waited for, what a cap is judged by."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from rest_framework.test import APIClient

from controlplane.accounts.models import Role
from tests import factories
from tests.factories import NOW
from tests.scenario import member

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> APIClient:
    found = APIClient()
    found.force_login(member(Role.VIEWER, factories.ProjectFactory()))
    return found


def get(client: APIClient, path: str) -> Any:
    answer = client.get(f"/api/v1/{path}")
    assert answer.status_code == 200, answer.content
    return answer.json()


def groups(found: Any) -> list[int]:
    return [group["id"] for group in found["groups"]]


def test_the_newest_step_is_shown_and_any_other_by_its_id(client: APIClient) -> None:
    stage = factories.StageFactory(next_group_index=3)
    first, second = (factories.StepFactory(stage=stage, done=True, index=n) for n in (1, 2))
    old, new = (
        factories.GroupFactory(stage=stage, status="consumed", step=step, finished_at=NOW)
        for step in (first, second)
    )
    factories.GroupFactory(stage=stage)

    newest = get(client, f"runs/{stage.run_id}/tail")
    asked = get(client, f"runs/{stage.run_id}/tail?step={first.pk}")

    assert (newest["step_index"], groups(newest)) == (2, [new.pk])
    assert (asked["step_index"], groups(asked)) == (1, [old.pk])
    assert asked["groups"][0]["consumed_at"] is not None


def test_without_a_step_the_newest_eight_groups_are_shown(client: APIClient) -> None:
    stage = factories.StageFactory(kind="eval", next_group_index=10)
    ids = [factories.GroupFactory(stage=stage).pk for _ in range(10)]

    found = get(client, f"runs/{stage.run_id}/tail")

    assert (found["step"], groups(found)) == (None, ids[2:])
    assert found["groups"][0]["consumed_at"] is None


def test_a_training_stage_is_shown_before_an_evaluation_and_any_by_its_name(
    client: APIClient,
) -> None:
    run = factories.RunFactory()
    for index, (kind, name) in enumerate([("eval", "base"), ("rl", "rl-training"), ("eval", "rl")]):
        factories.StageFactory(run=run, index=index, kind=kind, name=name, next_group_index=1)

    assert get(client, f"runs/{run.pk}/tail")["stage"] == "rl-training"
    assert get(client, f"runs/{run.pk}/tail?stage=base")["stage"] == "base"
    assert client.get(f"/api/v1/runs/{run.pk}/tail?stage=none").status_code == 404
    assert client.get(f"/api/v1/runs/{run.pk}/tail?step=99999").status_code == 404


def test_a_run_without_stages_has_no_tail(client: APIClient) -> None:
    run = factories.RunFactory()

    assert get(client, f"runs/{run.pk}/tail")["groups"] == []
    assert get(client, f"runs/{run.pk}/tail/caps")["turns"] == []


def test_a_member_shows_its_turns_its_queue_and_the_command_it_repeats(client: APIClient) -> None:
    group = factories.GroupFactory()
    trajectory = factories.TrajectoryFactory(group=group, completed=True, num_turns=4)
    attempt = factories.AttemptFactory(trajectory=trajectory, completed=True, num_turns=4)
    for index, command in enumerate(["pytest -q", "ls", "pytest -q", "pytest -q"]):
        factories.TurnFactory(
            attempt=attempt,
            index=index,
            command=command,
            started_at=NOW + timedelta(seconds=index),
            llm_s=0.5,
            exec_s=0.25,
            queue_s=0.125,
            version_max=index // 2,
        )

    (found,) = get(client, f"runs/{group.run_id}/tail")["groups"][0]["members"]

    (only,) = found["attempts"]
    assert only["turns"] == {
        "at": [0.0, 1.0, 2.0, 3.0],
        "llm": [0.5] * 4,
        "exec": [0.25] * 4,
        "version": [0, 0, 1, 1],
    }
    assert only["queue_s"] == 0.5
    assert found["repeat"] == {"command": "pytest -q", "count": 3}


def test_a_cap_is_judged_by_what_ended_with_a_reward_or_a_failure(client: APIClient) -> None:
    group = factories.GroupFactory(stage__next_group_index=1)
    for seconds, fields in (
        (30.04, {"completed": True, "num_turns": 8, "output_tokens": 100}),
        (20, {"completed": True, "reward": 0.0, "num_turns": 80, "output_tokens": 900}),
        (5, {"failed": True, "num_turns": 2}),
        (1, {"cancelled": True}),
    ):
        one = factories.TrajectoryFactory(group=group, num_attempts=1, **fields)
        factories.AttemptFactory(
            trajectory=one,
            number=1,
            started_at=NOW,
            finished_at=NOW + timedelta(seconds=seconds),
            **{name: True for name in ("completed", "failed", "cancelled") if name in fields},
        )

    found = get(client, f"runs/{group.run_id}/tail/caps")

    assert found == {
        "stage": group.stage.name,
        "outcome": [2, 1, 0],
        "turns": [8, 80, 2],
        "tokens": [100, 900, 0],
        "seconds": [30.0, 20.0, 5.0],
    }

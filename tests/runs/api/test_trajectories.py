"""Reading trajectories, turns and what ran underneath."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from controlplane.accounts.models import Role
from tests import factories
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


def ids(client: APIClient, path: str) -> list[int]:
    return [row["id"] for row in get(client, path)["results"]]


def test_trajectories_are_filtered_the_same_below_a_run_and_over_all(client: APIClient) -> None:
    group = factories.GroupFactory(stage__name="base", task__key="t-1")
    solved = factories.TrajectoryFactory(group=group, completed=True, reward=1.0).pk
    half = factories.TrajectoryFactory(
        group=group, completed=True, reward=0.5, stop_reason="turn_cap"
    ).pk
    zero = factories.TrajectoryFactory(
        group=group, completed=True, reward=0.0, stop_reason="time_cap"
    ).pk
    invalid = factories.TrajectoryFactory(group=group, failed=True).pk
    still_open = factories.TrajectoryFactory(group=group).pk
    elsewhere = factories.TrajectoryFactory(completed=True).pk
    cases: dict[str, list[int]] = {
        "": [still_open, invalid, zero, half, solved],
        "status=failed,open": [still_open, invalid],
        "is_valid=true": [zero, half, solved],
        "is_valid=false": [still_open, invalid],
        "reward=gte:0.5": [half, solved],
        "reward=gt:0.5": [solved],
        "reward=lt:0.5": [zero],
        "reward=0.5": [half],
        "stop_reason=turn_cap,time_cap": [zero, half],
        "stage=base": [still_open, invalid, zero, half, solved],
        "stage=other": [],
        "task=t-1&status=open": [still_open],
        f"group={group.pk}&reward=1": [solved],
    }

    for query, expected in cases.items():
        assert ids(client, f"runs/{group.run_id}/trajectories?{query}") == expected, query
        assert ids(client, f"trajectories?run={group.run_id}&{query}") == expected, query
    assert elsewhere in ids(client, "trajectories")


@pytest.mark.parametrize("reward", ["gte:", "about:1", "x", "gte:0.5:1", ":"])
def test_a_comparison_that_means_nothing_is_refused(client: APIClient, reward: str) -> None:
    answer = client.get(f"/api/v1/trajectories?reward={reward}")

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/reward"


def test_an_infra_failure_is_a_failure_without_a_reward(client: APIClient) -> None:
    trajectory = factories.TrajectoryFactory(failed=True)
    factories.AttemptFactory(trajectory=trajectory, failed=True, number=1)

    (row,) = get(client, f"runs/{trajectory.run_id}/trajectories")["results"]

    assert row["reward"] is None
    assert row["failure"] == {
        "stage": "exec",
        "kind": "lost",
        "message": "the sandbox is gone",
    }
    assert row["duration_s"] == 300


def test_a_row_of_the_list_shows_the_newest_attempt(client: APIClient) -> None:
    trajectory = factories.TrajectoryFactory(num_attempts=2)
    factories.AttemptFactory(trajectory=trajectory, failed=True, number=1)
    factories.AttemptFactory(trajectory=trajectory, running=True, number=2)

    (row,) = get(client, "trajectories")["results"]

    assert row["attempt_status"] == "running"
    assert row["failure"] is None


def test_a_detail_has_every_attempt_and_no_turn(client: APIClient) -> None:
    trajectory = factories.TrajectoryFactory(completed=True)
    factories.AttemptFactory(trajectory=trajectory, number=1, failed=True)
    second = factories.AttemptFactory(
        trajectory=trajectory,
        number=2,
        completed=True,
        engine=factories.EngineFactory(run=trajectory.run, index=3),
    )
    factories.TurnFactory(attempt=second)

    found = get(client, f"trajectories/{trajectory.pk}")

    assert found["instruction"] == trajectory.task.instruction
    assert [(a["number"], a["status"]) for a in found["attempts"]] == [
        (1, "failed"),
        (2, "completed"),
    ]
    assert found["attempts"][0]["failure"]["kind"] == "lost"
    assert found["attempts"][1]["engine"] == 3
    assert "observation" not in str(found)


def test_turns_are_those_of_the_newest_attempt_unless_one_is_named(client: APIClient) -> None:
    trajectory = factories.TrajectoryFactory()
    for number, size in ((1, 2), (2, 5)):
        attempt = factories.AttemptFactory(trajectory=trajectory, number=number, failed=True)
        for index in range(size):
            factories.TurnFactory(attempt=attempt, index=index, action=f"{number}.{index}")

    def actions(query: str) -> list[str]:
        page = get(client, f"trajectories/{trajectory.pk}/turns?{query}")
        return [turn["action"] for turn in page["results"]]

    assert actions("") == ["2.0", "2.1", "2.2", "2.3", "2.4"]
    assert actions("attempt=1") == ["1.0", "1.1"]
    assert actions("from_index=3") == ["2.3", "2.4"]
    assert actions("attempt=3") == []
    first = get(client, f"trajectories/{trajectory.pk}/turns?limit=2")
    second = get(client, f"trajectories/{trajectory.pk}/turns?limit=2&cursor={first['next']}")
    assert [turn["action"] for turn in second["results"]] == ["2.2", "2.3"]


def test_a_sandbox_and_a_failure_name_their_trajectory(client: APIClient) -> None:
    attempt = factories.AttemptFactory(running=True)
    factories.SandboxFactory(run_id=attempt.run_id, attempt_id=attempt.pk)
    lone = factories.SandboxFactory()
    failure = factories.FailureFactory(run_id=attempt.run_id, attempt_id=attempt.pk)

    (box,) = get(client, f"sandboxes?run={attempt.run_id}")["results"]
    (member_row,) = get(client, f"failures/{failure.group_id}/members")["results"]

    assert box["trajectory_id"] == member_row["trajectory_id"] == attempt.trajectory_id
    assert get(client, "sandboxes")["results"][0]["id"] == lone.pk
    assert get(client, "sandboxes")["results"][0]["trajectory_id"] is None


def test_failure_groups_are_filtered_by_run_stage_and_class(client: APIClient) -> None:
    first = factories.FailureGroupFactory(stage="exec", kind="lost")
    second = factories.FailureGroupFactory(stage="infer", kind="infer_infra")
    run = factories.RunFactory()
    factories.FailureFactory(group=first, run_id=run.pk)

    assert ids(client, f"failures?run={run.pk}") == [first.pk]
    assert ids(client, "failures?kind=infer_infra,oom") == [second.pk]
    assert ids(client, "failures?stage=exec") == [first.pk]


def test_a_worker_says_how_many_of_its_slots_are_busy(client: APIClient) -> None:
    worker = factories.WorkerFactory(num_slots=8)
    for _ in range(3):
        factories.AttemptFactory(running=True, worker=worker)
    factories.AttemptFactory(completed=True, worker=worker)

    (row,) = get(client, "workers")["results"]

    assert (row["num_slots"], row["num_busy"]) == (8, 3)


def test_an_engine_shows_the_version_it_should_have_reached(client: APIClient) -> None:
    engine = factories.EngineFactory(weight_version=3, run__weight_version=5)

    (row,) = get(client, f"runs/{engine.run_id}/engines")["results"]

    assert (row["weight_version"], row["target_version"]) == (3, 5)


def test_somebody_without_a_project_sees_no_machine(client: APIClient) -> None:
    factories.WorkerFactory()
    stranger = APIClient()
    stranger.force_login(factories.UserFactory())

    assert ids(client, "workers")
    assert ids(client, "nodes")
    assert ids(stranger, "workers") == []
    assert ids(stranger, "nodes") == []


def test_quarantined_tasks_are_counted_and_found(client: APIClient) -> None:
    good = factories.TaskFactory()
    factories.TaskFactory(task_set=good.task_set, quarantined_at=factories.NOW)

    (task_set,) = get(client, "task-sets")["results"]

    assert task_set["num_quarantined"] == 1
    assert ids(client, f"task-sets/{task_set['id']}/tasks?is_quarantined=false") == [good.pk]

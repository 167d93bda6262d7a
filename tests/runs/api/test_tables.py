"""The trajectory table: sorted and narrowed by any column, counted by facet, exported whole; a group side by side."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from datetime import timedelta
from typing import Any

import pyarrow.parquet as pq
import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from controlplane.accounts.models import Role, User
from runs.api.views import exports
from runs.models import Trajectory
from runs.selectors.facets import facets_of
from runs.selectors.trajectories import trajectories
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


def sampled(group: Any, *, seconds: float = 10, driver: str = "local", **fields: Any) -> Trajectory:
    """A trajectory with one attempt that ended after so many seconds in a box of a driver."""
    failure = fields.pop("failure", None)
    trait = {"failed": True} if failure else {"completed": True}
    trajectory = factories.TrajectoryFactory(group=group, **{**trait, "num_attempts": 1, **fields})
    attempt = factories.AttemptFactory(
        trajectory=trajectory,
        number=1,
        finished_at=NOW + timedelta(seconds=seconds),
        timings={"start": 1.0, "llm": seconds / 2},
        **({"failed": True, "failure_class": failure} if failure else {"completed": True}),
    )
    factories.SandboxFactory(
        project=group.run.project, run_id=group.run_id, attempt_id=attempt.pk, driver=driver
    )
    return trajectory


@pytest.fixture
def few() -> list[int]:
    """Four of one run: solved in 30 s, unsolved at its turn cap in 20 s, invalid in 5 s, in flight."""
    stage = factories.StageFactory(name="rl-training")
    step = factories.StepFactory(stage=stage, done=True, index=7, trained_version=9)
    calc = factories.GroupFactory(
        stage=stage,
        task__key="calc-1",
        task__repository="calc",
        status="consumed",
        step=step,
        reward_std=0.7,
    )
    rows = factories.GroupFactory(
        stage=stage, task__key="rows-1", task__repository="rows", reward_std=0.0
    )
    solved = sampled(calc, seconds=30, num_turns=8, output_tokens=100, version_min=4)
    capped = sampled(
        rows, seconds=20, num_turns=80, reward=0.0, stop_reason="turn_cap", driver="docker"
    )
    invalid = sampled(rows, seconds=5, failure="lost", num_turns=2)
    still_open = factories.TrajectoryFactory(group=rows, num_attempts=1)
    running = factories.AttemptFactory(trajectory=still_open, running=True, number=1)
    factories.TurnFactory.create_batch(3, attempt=running)
    return [each.pk for each in (solved, capped, invalid, still_open)]


def test_every_filter_finds_its_rows(client: APIClient, few: list[int]) -> None:
    solved, capped, invalid, still_open = few
    run = Trajectory.objects.get(pk=solved).run_id
    step = Trajectory.objects.get(pk=solved).group.step_id
    cases: dict[str, list[int]] = {
        "outcome=solved": [solved],
        "outcome=invalid,running": [still_open, invalid],
        "repository=rows": [still_open, invalid, capped],
        "turns=gte:8": [capped, solved],
        "turns=gte:8,lt:80": [solved],
        "tokens=100": [solved],
        "duration=gt:19.9": [capped, solved],
        "driver=docker": [capped],
        "failure=lost": [invalid],
        f"step={step}": [solved],
        "staleness=gte:5": [solved],
        "staleness=gte:6": [],
        "is_zero_gradient=true": [capped],
        "is_zero_gradient=false": [solved],
        "q=calc": [solved],
        "q=is gone": [invalid],
    }

    for query, expected in cases.items():
        found = get(client, f"runs/{run}/trajectories?{query}")["results"]
        assert [row["id"] for row in found] == expected, query
    by_id = get(client, f"runs/{run}/trajectories?q={capped}")["results"]
    assert capped in [row["id"] for row in by_id]


def test_rows_without_a_value_come_last_whichever_way_the_list_runs(
    client: APIClient, few: list[int]
) -> None:
    solved, capped, invalid, still_open = few
    cases = {
        "duration": [invalid, capped, solved, still_open],
        "-duration": [solved, capped, invalid, still_open],
        "-turns": [capped, solved, invalid, still_open],
        "staleness": [solved, still_open, invalid, capped],
        "-llm_share": [invalid, capped, solved, still_open],
        "failure": [invalid, still_open, capped, solved],
    }

    for sort, expected in cases.items():
        found = get(client, f"trajectories?sort={sort}")["results"]
        if sort in ("-llm_share", "failure"):  # equal shares; an attempt without a failure says ""
            assert {row["id"] for row in found} == set(expected)
        else:
            assert [row["id"] for row in found] == expected, sort
    assert client.get("/api/v1/trajectories?sort=colour").status_code == 422


def test_a_row_says_what_ran_it_and_counts_the_turns_of_one_in_flight(
    client: APIClient, few: list[int]
) -> None:
    rows = {row["id"]: row for row in get(client, "trajectories")["results"]}
    solved, capped, invalid, still_open = (rows[pk] for pk in few)

    assert (solved["duration_s"], solved["llm_share"], solved["driver"]) == (30.0, 0.5, "local")
    assert (solved["step_index"], solved["staleness"]) == (7, 5)
    assert (capped["staleness"], capped["driver"]) == (None, "docker")
    assert (invalid["outcome"], invalid["reward"], invalid["failure"]["kind"]) == (
        "invalid",
        None,
        "lost",
    )
    assert (still_open["outcome"], still_open["num_turns"], still_open["duration_s"]) == (
        "running",
        3,
        None,
    )


def test_a_failure_leads_to_its_group(client: APIClient, few: list[int]) -> None:
    attempt = Trajectory.objects.get(pk=few[2]).attempts.get()
    failure = factories.FailureFactory(run_id=attempt.run_id, attempt_id=attempt.pk)

    (row,) = get(client, "trajectories?outcome=invalid")["results"]

    assert (row["failure_group"], row["fingerprint"]) == (
        failure.group_id,
        failure.group.fingerprint,
    )


def test_facets_count_under_the_other_filters_and_totals_under_all(
    client: APIClient, few: list[int]
) -> None:
    run = Trajectory.objects.get(pk=few[0]).run_id

    found = get(client, f"runs/{run}/trajectories/facets?outcome=unsolved,invalid")

    assert found["facets"]["outcome"] == [
        {"value": "invalid", "count": 1},
        {"value": "running", "count": 1},
        {"value": "solved", "count": 1},
        {"value": "unsolved", "count": 1},
    ]
    assert found["facets"]["repository"] == [{"value": "rows", "count": 2}]
    assert found["facets"]["failure"] == [{"value": "lost", "count": 1}]
    assert found["totals"] == {
        "count": 2,
        "valid": 1,
        "solved": 0,
        "reward_mean": 0.0,
        "turns": 82,
        "prompt_tokens": 0,
        "output_tokens": 0,
        "hours": pytest.approx(25 / 3600),
    }


def test_two_facets_narrow_each_other_but_not_themselves() -> None:
    nothing = {"reward_sum": 0.0, "turns": 0, "read_tokens": 0, "written_tokens": 0, "seconds": 0.0}

    def rows(outcome: str, repository: str, count: int) -> dict[str, Any]:
        return {
            "outcome": outcome,
            "task_repository": repository,
            "stop_reason": "",
            "stage_name": "rl",
            "driver": None,
            "failure_kind": None,
            "count": count,
            "valid": count,
            "solved": 0,
            **nothing,
        }

    found = facets_of(
        [
            rows("solved", "a", 1),
            rows("solved", "b", 2),
            rows("unsolved", "a", 4),
            rows("unsolved", "b", 8),
        ],
        {"outcome": {"solved"}, "repository": {"b"}},
    )

    assert found["facets"]["outcome"] == [
        {"value": "unsolved", "count": 8},
        {"value": "solved", "count": 2},
    ]
    assert found["facets"]["repository"] == [{"value": "b", "count": 2}, {"value": "a", "count": 1}]
    assert found["facets"]["driver"] == []
    assert found["totals"]["count"] == 2


def _export(client: APIClient, query: str) -> bytes:
    answer: Any = client.get(f"/api/v1/runs/{query}")
    assert answer.status_code == 200

    async def whole() -> bytes:
        pieces = [piece async for piece in answer.streaming_content]
        await sync_to_async(connections.close_all)()  # those of the thread that made the pieces
        return b"".join(pieces)

    return asyncio.run(whole())


@pytest.mark.django_db(transaction=True)
def test_an_export_has_every_row_of_the_filter_in_each_format(
    client: APIClient, few: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "CHUNK", 2)
    run = Trajectory.objects.get(pk=few[0]).run_id
    path = f"{run}/trajectories/export?sort=-duration&format="

    lines = [json.loads(line) for line in _export(client, path + "ndjson").splitlines()]
    flat = list(csv.DictReader(io.StringIO(_export(client, path + "csv").decode())))
    table = pq.read_table(io.BytesIO(_export(client, path + "parquet"))).to_pylist()

    assert [row["id"] for row in lines] == few
    assert lines == get(client, f"runs/{run}/trajectories?sort=-duration")["results"]
    assert [int(row["id"]) for row in flat] == few
    assert [row["reward"] for row in flat] == ["1.0", "0.0", "", ""], "an invalid one is no zero"
    assert [row["id"] for row in table] == few
    assert [row["reward"] for row in table] == [1.0, 0.0, None, None]
    assert table[0]["created_at"] == NOW
    assert (
        _export(client, f"{run}/trajectories/export?format=csv&outcome=cancelled").count(b"\n") == 1
    )
    assert not pq.read_table(
        io.BytesIO(_export(client, f"{run}/trajectories/export?format=parquet&outcome=cancelled"))
    ).to_pylist()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("key", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_cell_of_a_csv_is_a_formula(client: APIClient, key: str) -> None:
    group = factories.GroupFactory(task__key=key, task__repository="plain")
    sampled(group, advantage=-0.5)

    (row,) = csv.DictReader(
        io.StringIO(
            _export(client, f"{group.run_id}/trajectories/export?format=csv").decode(), newline=""
        )
    )

    assert row["task"] == f"'{key}"
    assert (row["repository"], row["advantage"]) == ("plain", "-0.5")


@pytest.mark.django_db(transaction=True)
def test_an_export_of_more_chunks_costs_the_same_queries_a_chunk(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "CHUNK", 2)
    group = factories.GroupFactory()
    for _ in range(6):
        sampled(group)
    query = f"{group.run_id}/trajectories/export"

    with CaptureQueriesContext(connection) as captured:
        answer = client.get(f"/api/v1/runs/{query}")
    before = len(captured)
    rows = trajectories(User.objects.get(), run=group.run_id)
    with CaptureQueriesContext(connection) as of_chunks:
        assert [len(chunk) for chunk in rows.chunks(2)] == [2, 2, 2]

    assert answer.status_code == 200
    assert before <= 4, "nothing is read before it is asked for"
    assert len(of_chunks) <= 3 * 3


def test_a_format_that_does_not_exist_is_refused(client: APIClient) -> None:
    run = factories.RunFactory()

    answer = client.get(f"/api/v1/runs/{run.pk}/trajectories/export?format=xlsx")

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/format"


def test_a_group_shows_its_members_side_by_side_and_why_it_has_no_gradient(
    client: APIClient,
) -> None:
    group = factories.GroupFactory(num_members=2, num_valid=2, reward_mean=0.0, reward_std=0.0)
    for index, command in ((1, "ls"), (0, "cat a.py")):
        one = factories.TrajectoryFactory(
            group=group, index=index, completed=True, reward=0.0, num_attempts=2
        )
        factories.AttemptFactory(trajectory=one, failed=True, number=1, patch="not this one")
        attempt = factories.AttemptFactory(
            trajectory=one,
            completed=True,
            reward=0.0,
            number=2,
            patch=f"patch of {command}",
            grade={"details": {"passed": 1}},
        )
        factories.TurnFactory(attempt=attempt, index=0, command=command)
        factories.TurnFactory(attempt=attempt, index=1, command="x" * 3_000)

    found = get(client, f"groups/{group.pk}")

    assert found["zero_gradient"] == "none_solved"
    assert [m["trajectory"]["index"] for m in found["members"]] == [0, 1]
    first = found["members"][0]
    assert (first["patch"], first["grade"]) == ("patch of cat a.py", {"details": {"passed": 1}})
    assert [c["command"][:8] for c in first["commands"]] == ["cat a.py", "xxxxxxxx"]
    assert len(first["commands"][1]["command"]) == 2_000


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"reward_mean": 1.0, "reward_std": 0.0}, "all_solved"),
        ({"reward_mean": 0.0, "reward_std": 0.0}, "none_solved"),
        ({"reward_mean": 0.5, "reward_std": 0.0}, "equal_rewards"),
        ({"reward_mean": 0.5, "reward_std": 0.7}, ""),
        (
            {"status": "dropped", "drop_reason": "too_few_valid", "reward_mean": 1.0},
            "too_few_valid",
        ),
        ({}, ""),
    ],
)
def test_groups_say_and_are_found_by_why_they_have_no_gradient(
    client: APIClient, fields: dict[str, Any], reason: str
) -> None:
    group = factories.GroupFactory(**fields)

    (row,) = get(client, f"runs/{group.run_id}/groups")["results"]
    found = get(client, f"runs/{group.run_id}/groups?zero_gradient=all_solved,none_solved")[
        "results"
    ]

    assert row["zero_gradient"] == reason
    assert bool(found) is (reason in ("all_solved", "none_solved"))

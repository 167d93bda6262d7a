"""Launching, commanding and reading runs over REST."""

from __future__ import annotations

import json
import math
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.db import connection, transaction
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.accounts.models import Role
from runs.models import Event, Recipe, Run
from tests import factories
from tests.factories import NOW
from tests.scenario import launchable_recipe, member

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> APIClient:
    found = APIClient()
    found.force_login(member(Role.OPERATOR, factories.ProjectFactory()))
    return found


def get(client: APIClient, path: str) -> Any:
    answer = client.get(f"/api/v1/{path}")
    assert answer.status_code == 200, answer.content
    return answer.json()


def post(client: APIClient, path: str, body: Any = None, **headers: str) -> Any:
    return client.post(f"/api/v1/{path}", body or {}, format="json", headers=headers)


def test_a_launch_answers_the_run_and_the_same_key_launches_nothing_more(
    client: APIClient, tmp_path: Path
) -> None:
    body = {"source": launchable_recipe(factories.ProjectFactory(), tmp_path), "name": "mine"}

    first = post(client, "runs", body, **{"Idempotency-Key": "k1"})
    again = post(client, "runs", body, **{"Idempotency-Key": "k1"})
    other = post(client, "runs", {"source": body["source"] + "\n"}, **{"Idempotency-Key": "k1"})

    assert first.status_code == again.status_code == 201
    assert first.json()["id"] == again.json()["id"] == Run.objects.get().pk
    assert (first.json()["name"], first.json()["status"]) == ("mine", "queued")
    assert [stage["name"] for stage in first.json()["stages"]] == ["base", "rl-training"]
    assert other.status_code == 409
    assert other.json()["code"] == "idempotency_key_reused"


@pytest.mark.django_db(transaction=True)
def test_of_two_launches_at_once_with_one_key_the_second_is_a_conflict(
    client: APIClient, tmp_path: Path
) -> None:
    source = launchable_recipe(factories.ProjectFactory(), tmp_path)
    answers: list[Any] = []

    def launch() -> None:
        try:
            answers.append(post(client, "runs", {"source": source}, **{"Idempotency-Key": "k"}))
        finally:
            connection.close()

    thread = threading.Thread(target=launch)
    with transaction.atomic():
        factories.RunFactory(idempotency_key="k")
        thread.start()
        wait_until_somebody_waits_for_a_lock()
    thread.join()

    assert answers[0].status_code == 409
    assert answers[0].json()["code"] == "conflict"
    assert Run.objects.count() == 1


def wait_until_somebody_waits_for_a_lock() -> None:
    with connection.cursor() as cursor:
        while True:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
            if cursor.fetchone()[0]:
                return
            time.sleep(0.02)


def test_a_refused_recipe_names_every_wrong_field(client: APIClient) -> None:
    recipe = json.loads(json.dumps(factories.RECIPE))
    recipe["agent"]["turn_cap"] = 0
    recipe["colour"] = "red"

    answer = post(client, "runs", {"source": yaml.safe_dump(recipe)})

    assert answer.status_code == 422
    assert answer["Content-Type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["status"], problem["code"]) == (422, "recipe_invalid")
    assert {error["pointer"] for error in problem["errors"]} == {"/agent/turn_cap", "/colour"}
    assert not Run.objects.exists()


def test_a_failed_preflight_refuses_the_launch_with_the_checks(client: APIClient) -> None:
    body = {"source": factories.RECIPE_SOURCE}

    checks = post(client, "preflight", body).json()
    answer = post(client, "runs", body)

    assert checks["is_launchable"] is False
    assert answer.status_code == 422
    assert answer.json()["code"] == "preflight_failed"
    errors = [check for check in checks["checks"] if check["level"] == "error"]
    assert [e["message"] for e in answer.json()["errors"]] == [
        f"{c['sentence']} {c['remedy']}" for c in errors
    ]


@pytest.mark.parametrize("key", ["", "x" * 201, "tab\there"])
def test_an_idempotency_key_that_is_none_is_refused(client: APIClient, key: str) -> None:
    answer = post(client, "runs", {"source": "x"}, **{"Idempotency-Key": key})

    assert answer.json()["code"] == "bad_key"


def test_a_command_that_the_status_does_not_allow_is_a_conflict(client: APIClient) -> None:
    run = factories.RunFactory(succeeded=True)

    answer = post(client, f"runs/{run.pk}/pause", {"reason": "tea"})

    assert answer.status_code == 409
    assert answer.json()["code"] == "invalid_transition"


def test_a_command_keeps_its_reason_and_answers_the_run(client: APIClient) -> None:
    run = factories.RunFactory()

    answer = post(client, f"runs/{run.pk}/pause", {"reason": "tea"})

    assert answer.json()["status"] == "paused"
    assert "tea" in Event.objects.get(run=run).sentence


def test_runs_are_filtered_by_any_of_the_named_statuses_and_by_a_part_of_the_name(
    client: APIClient,
) -> None:
    factories.RunFactory(name="alpha")
    factories.RunFactory(name="beta", succeeded=True)
    factories.RunFactory(name="alphabet", failed=True)

    def names(query: str) -> list[str]:
        return [run["name"] for run in get(client, f"runs?{query}")["results"]]

    assert names("") == ["alphabet", "beta", "alpha"]
    assert names("status=succeeded,failed") == ["alphabet", "beta"]
    assert names("name=ALPHA&status=running") == ["alpha"]


@pytest.mark.parametrize(
    "query", ["status=fine", "limit=0", "limit=501", "limit=x", "cursor=x", "name=%00"]
)
def test_a_query_that_means_nothing_is_refused(client: APIClient, query: str) -> None:
    answer = client.get(f"/api/v1/runs?{query}")

    assert answer.status_code == 422
    assert answer["Content-Type"] == "application/problem+json"


def test_an_id_that_no_database_holds_is_not_found(client: APIClient) -> None:
    assert client.get(f"/api/v1/runs/{10**30}").status_code == 404
    assert client.get(f"/api/v1/trajectories?run={10**30}").status_code == 404


@pytest.mark.parametrize("sent", ["{", '"text"', "[]"])
def test_a_body_that_is_no_object_is_refused_in_the_one_shape(client: APIClient, sent: str) -> None:
    answer = client.post("/api/v1/runs", sent, content_type="application/json")

    assert answer.status_code in (400, 422)
    assert answer["Content-Type"] == "application/problem+json"


def test_a_detail_counts_by_status_and_measures_rates_over_ten_minutes(client: APIClient) -> None:
    now = timezone.now()
    run = factories.RunFactory(started_at=now - timedelta(hours=2))
    group = factories.GroupFactory(stage__run=run)
    long_ago, just_now = now - timedelta(hours=1), now - timedelta(minutes=1)
    for finished_at in (long_ago, just_now, just_now):
        factories.TrajectoryFactory(group=group, completed=True, finished_at=finished_at)
    factories.TrajectoryFactory(group=group, failed=True, finished_at=just_now)
    trajectory = factories.TrajectoryFactory(group=group)
    factories.AttemptFactory(trajectory=trajectory, failed=True)
    factories.AttemptFactory(trajectory=trajectory, grading=True)
    factories.AttemptFactory(trajectory=factories.TrajectoryFactory(group=group))
    factories.StepFactory(
        stage=group.stage, status="done", num_trajectories=1, finished_at=just_now
    )

    counts = get(client, f"runs/{run.pk}")["counts"]

    assert counts["in_flight"] == 1
    assert counts["max_in_flight"] == factories.RECIPE["rollout"]["max_in_flight"]
    assert counts["queued"] == 1
    assert (counts["completed"], counts["failed"], counts["cancelled"]) == (3, 1, 0)
    assert counts["infra_failures"] == 1
    assert counts["produced_per_h"] == pytest.approx(12, rel=0.01)
    assert counts["consumed_per_h"] == pytest.approx(6, rel=0.01)


def test_training_twice_counts_once_a_step_that_still_counts(client: APIClient) -> None:
    run = factories.RunFactory()
    group = factories.GroupFactory(stage__run=run)
    once, again, twice = factories.TrajectoryFactory.create_batch(3, group=group)
    kept = factories.StepFactory.create_batch(2, stage=group.stage, done=True)
    superseded = factories.StepFactory(stage=group.stage, status="superseded", finished_at=NOW)
    for step, trajectory in (
        (kept[0], once),
        (kept[0], again),
        (superseded, again),
        (kept[0], twice),
        (kept[1], twice),
    ):
        factories.ConsumptionFactory(step=step, trajectory=trajectory)

    assert get(client, f"runs/{run.pk}")["counts"]["trained_twice"] == 1


def test_a_finished_run_has_the_rates_of_its_whole_life(client: APIClient) -> None:
    run = factories.RunFactory(succeeded=True)  # one hour
    group = factories.GroupFactory(stage__run=run)
    factories.TrajectoryFactory.create_batch(3, group=group, completed=True)

    assert get(client, f"runs/{run.pk}")["counts"]["produced_per_h"] == pytest.approx(3)


def test_a_queued_run_has_no_rates(client: APIClient) -> None:
    run = factories.RunFactory(queued=True)

    assert get(client, f"runs/{run.pk}")["counts"]["produced_per_h"] is None


def test_an_eval_stage_has_its_result_beside_the_blind_baselines_of_its_task_set(
    client: APIClient,
) -> None:
    run = factories.RunFactory()
    line = {"mean": 0.1, "low": 0.05, "high": 0.2}
    for version, baselines in ((1, {}), (2, {"uniform": line})):
        factories.TaskSetFactory(
            project=run.project, name="tiny-held-out", version=version, baselines=baselines
        )
    result = {
        "pass_at_1": 0.5,
        "low": 0.4,
        "high": 0.6,
        "tasks": 3,
        "attempts": 5,
        "invalid": 1,
        "valid_only": 0.6,
        "if_invalid_solved": 0.7,
        "paired": {"against": "base", "mean": 0.2, "low": 0.1, "high": 0.3},
    }
    factories.StageFactory(run=run, kind="eval", name="base", result={**result, "per_task": {}})
    factories.StageFactory(run=run, kind="rl", name="rl-training")

    base, rl = get(client, f"runs/{run.pk}/stages")["stages"]

    assert base["result"] == result
    assert base["baselines"] == {"uniform": line}
    assert (base["num_done"], base["num_total"]) == (6, 6)
    assert (rl["result"], rl["baselines"]) == (None, {})


def test_progress_counts_trajectories_of_an_evaluation_and_steps_of_training(
    client: APIClient,
) -> None:
    run = factories.RunFactory()
    held_out = factories.TaskSetFactory(project=run.project, name="tiny-held-out", num_tasks=4)
    factories.TaskFactory(task_set=held_out, quarantined_at=NOW)
    base = factories.StageFactory(run=run, index=0, kind="eval", name="base")
    group = factories.GroupFactory(stage=base)
    factories.TrajectoryFactory(group=group, completed=True)
    factories.TrajectoryFactory(group=group, failed=True)
    factories.TrajectoryFactory(group=group)
    factories.StageFactory(
        run=run, index=1, kind="rl", name="rl-training", num_steps=2, num_steps_done=1
    )
    factories.StageFactory(
        run=run, index=2, kind="sft", name="sft", progress={"step": 3, "num_steps": 9}
    )
    expected = [(2, 3 * 2), (1, 2), (3, 9)]

    detail = get(client, f"runs/{run.pk}")["stages"]
    listed = get(client, "runs")["results"][0]["stages"]

    assert [(stage["num_done"], stage["num_total"]) for stage in detail] == expected
    assert [(stage["num_done"], stage["num_total"]) for stage in listed] == expected


def test_a_curve_keeps_nan_and_infinities_as_words(client: APIClient) -> None:
    run = factories.RunFactory()
    values = [0.5, math.nan, math.inf, -math.inf]
    for step, value in enumerate(values):
        factories.MetricPointFactory(run=run, name="train/loss", step=step, value=value)
    factories.MetricPointFactory(run=run, name="train/loss", resume=1, step=1, value=0.25)
    factories.MetricPointFactory(run=run, name="time/wait_s", value=3.0)

    series = get(client, f"runs/{run.pk}/metrics?name=train/loss,train/none")["series"]

    assert [(curve["name"], len(curve["points"])) for curve in series] == [
        ("train/loss", 5),
        ("train/none", 0),
    ]
    points = [(p["resume"], p["step"], p["value"]) for p in series[0]["points"]]
    assert points == [
        (0, 0, 0.5),
        (0, 1, "NaN"),
        (0, 2, "Infinity"),
        (0, 3, "-Infinity"),
        (1, 1, 0.25),
    ]
    everything = get(client, f"runs/{run.pk}/metrics")["series"]
    assert {(curve["name"], curve["unit"]) for curve in everything} == {
        ("train/loss", ""),
        ("time/wait_s", "s"),
    }


def test_a_recipe_is_stored_read_and_replaced(client: APIClient) -> None:
    source = "# a comment stays\n" + factories.RECIPE_SOURCE
    for text in (factories.RECIPE_SOURCE, source):
        answer = client.put("/api/v1/recipes/tiny", {"source": text}, format="json")
        assert answer.status_code == 200

    assert get(client, "recipes/tiny")["source"] == source
    assert Recipe.objects.count() == 1


def test_a_recipe_with_errors_is_not_stored(client: APIClient) -> None:
    answer = client.put("/api/v1/recipes/tiny", {"source": "version: 1"}, format="json")

    assert answer.status_code == 422
    assert {"/name", "/model", "/stages", "/task_sets"} <= {
        error["pointer"] for error in answer.json()["errors"]
    }
    assert not Recipe.objects.exists()


def test_an_evaluation_counts_invalid_trajectories_apart(client: APIClient) -> None:
    stage = factories.StageFactory(kind="eval", name="base")
    for key, rewards in (("a", [1.0, 0.0]), ("b", [1.0, None])):
        group = factories.GroupFactory(stage=stage, task__key=key)
        for reward in rewards:
            if reward is None:
                factories.TrajectoryFactory(group=group, failed=True)
            else:
                factories.TrajectoryFactory(group=group, completed=True, reward=reward)

    (found,) = get(client, f"runs/{stage.run_id}/evals")["evaluations"]

    assert found["pass_at_1"]["mean"] == pytest.approx(0.5), "an invalid one is not solved"
    assert found["is_final"] is False
    assert (found["num_scheduled"], found["num_valid"], found["num_invalid"]) == (4, 3, 1)
    assert [
        (t["task"], t["num_valid"], t["num_solved"], t["pass_at_1"]) for t in found["tasks"]
    ] == [
        ("a", 2, 1, 0.5),
        ("b", 1, 1, 0.5),
    ]


def test_events_are_filtered_by_level(client: APIClient) -> None:
    run = factories.RunFactory()
    for level in ("info", "warning", "error"):
        factories.EventFactory(run=run, level=level, at=NOW)

    found = get(client, f"runs/{run.pk}/events?level=warning,error")["results"]

    assert [event["level"] for event in found] == ["error", "warning"]

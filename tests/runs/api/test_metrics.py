"""Curves of a run over REST: names, axes, ranges, resumes."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from controlplane.accounts.models import Role
from runs.models import MetricPoint, Run
from tests import factories
from tests.factories import NOW
from tests.scenario import member

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> APIClient:
    found = APIClient()
    found.force_login(member(Role.VIEWER, factories.ProjectFactory()))
    return found


@pytest.fixture
def run() -> Run:
    """Two lives of three steps a minute apart: the second began at step 3, ten minutes after the first had ended."""
    run = factories.RunFactory(started_at=NOW, recipe=_recipe(), resume=1)
    stage = factories.StageFactory(run=run, index=0, kind="rl", name="rl-training", num_steps=4)
    for resume, step, minute in [(0, 1, 1), (0, 2, 2), (0, 3, 3), (1, 3, 14), (1, 4, 15)]:
        at = NOW + timedelta(minutes=minute)
        factories.StepFactory(
            stage=stage,
            run=run,
            index=step,
            resume=resume,
            status="superseded" if (resume, step) == (0, 3) else "done",
            num_trajectories=8,
            started_at=at - timedelta(minutes=1),
            finished_at=at,
        )
        _point(run, "reward/mean", step, value=step + resume / 10, resume=resume, at=at)
        _point(run, "train/tokens", step, value=1000.0, resume=resume, at=at)
    factories.EventFactory(
        run=run, kind="trainer_lost", sentence="It died.", at=NOW + timedelta(minutes=4)
    )
    factories.EventFactory(
        run=run, kind="rolled_back", sentence="Back to 2.", at=NOW + timedelta(minutes=12)
    )
    return run


def _recipe() -> dict[str, Any]:
    rl = {"kind": "rl", "name": "rl-training", "algorithm": {"max_grad_norm": 0.5}}
    return {"name": "tiny", "stages": [rl]}


def _point(run: Run, name: str, step: int, **fields: Any) -> None:
    factories.MetricPointFactory(run=run, name=name, step=step, **fields)


def get(client: APIClient, path: str) -> Any:
    answer = client.get(f"/api/v1/{path}")
    assert answer.status_code == 200, answer.content
    return answer.json()


def reward(client: APIClient, run: Run, query: str) -> Any:
    (found,) = get(client, f"runs/{run.pk}/series?name=reward/mean&{query}")["series"]
    return found


def test_the_effective_history_is_drawn_and_what_a_resume_undid_is_a_ghost(
    client: APIClient, run: Run
) -> None:
    found = reward(client, run, "smooth=mean:2")

    assert found["buckets"]["x"] == [1, 2, 3, 4]
    assert found["buckets"]["last"] == [1, 2, 3.1, 4.1]
    assert found["smooth"] == pytest.approx([1, 1.5, 2.55, 3.6])
    assert (found["ghosts"]["x"], found["ghosts"]["last"]) == ([3], [3])
    assert (found["is_raw"], found["num_points"], found["num_unplaced"]) == (True, 4, 0)
    assert found["resumes"] == [
        {"resume": 1, "step": 3, "x": 3, "reason": "It died.", "downtime_s": 600}
    ]


def test_a_step_that_was_undone_is_a_ghost_also_where_the_new_life_says_nothing(
    client: APIClient, run: Run
) -> None:
    for step in (2, 3):
        _point(run, "train/kl", step, value=0.5, at=NOW)

    (found,) = get(client, f"runs/{run.pk}/series?name=train/kl")["series"]

    assert (found["buckets"]["x"], found["ghosts"]["x"]) == ([2], [3])


@pytest.mark.parametrize(
    ("axis", "places"),
    [
        ("wall", [NOW.timestamp() + 60 * minute for minute in (1, 2, 14, 15)]),
        ("elapsed", [60, 120, 840, 900]),
        ("active_elapsed", [60, 120, 240, 300]),
        ("trajectories", [8, 16, 24, 32]),
        ("tokens", [1000, 2000, 3000, 4000]),
    ],
)
def test_a_curve_on_each_axis(client: APIClient, run: Run, axis: str, places: list[float]) -> None:
    found = reward(client, run, f"x={axis}")

    assert found["buckets"]["x"] == pytest.approx(places)
    assert found["resumes"][0]["x"] == pytest.approx(places[2])


def test_a_second_training_stage_goes_on_where_the_first_ended(client: APIClient, run: Run) -> None:
    more = factories.StageFactory(run=run, index=1, kind="rl", name="more", num_steps=2)
    factories.StepFactory(
        stage=more, run=run, index=1, resume=1, done=True, num_trajectories=4, started_at=NOW
    )
    _point(run, "reward/mean", 5, value=5.0, resume=1, at=NOW + timedelta(minutes=16))

    assert reward(client, run, "x=trajectories")["buckets"]["x"] == [8, 16, 24, 32, 36]


def test_points_without_a_place_on_an_axis_are_counted(client: APIClient, run: Run) -> None:
    for step in (10, 20):
        _point(run, "sft/loss", step, value=1.0)

    (found,) = get(client, f"runs/{run.pk}/series?name=sft/loss&x=tokens")["series"]

    assert (found["num_points"], found["num_unplaced"]) == (0, 2)
    assert found["buckets"]["x"] == []


def test_a_range_is_bucketed_anew_and_its_smoothing_looks_before_it(
    client: APIClient, run: Run
) -> None:
    run.metric_points.all().delete()
    MetricPoint.objects.bulk_create(
        MetricPoint(run=run, name="reward/mean", resume=1, step=step, value=step, at=NOW)
        for step in range(3, 1003)
    )
    whole = reward(client, run, "buckets=10")

    near = reward(client, run, "buckets=10&from=500&to=509&smooth=mean:4")

    assert (whole["is_raw"], len(whole["buckets"]["x"]), whole["num_points"]) == (False, 10, 1000)
    assert sum(whole["buckets"]["count"]) == 1000
    assert near["buckets"]["last"] == [float(step) for step in range(500, 510)]
    assert near["smooth"][0] == (497 + 498 + 499 + 500) / 4
    assert near["central"]["low"] == pytest.approx(500.09)


def test_what_json_cannot_hold_is_counted_by_kind(client: APIClient, run: Run) -> None:
    for step, value in enumerate([math.nan, math.inf, -math.inf, -math.inf, 1.0], start=5):
        _point(run, "reward/mean", step, value=value, resume=1, at=NOW)

    found = reward(client, run, "buckets=1")

    kinds = {(mark["kind"], mark["count"]) for mark in found["buckets"]["non_finite"]}
    assert kinds == {("NaN", 1), ("Infinity", 1), ("-Infinity", 2)}
    assert (found["buckets"]["count"], found["buckets"]["last"]) == ([9], [1])


def test_every_curve_of_a_run_has_a_name_a_meaning_and_its_last_value(
    client: APIClient, run: Run
) -> None:
    _point(run, "train/ess/lag_2", 2, value=math.nan)
    _point(run, "train/grad_norm", 1, value=0.25)
    _point(run, "mine/own", 1, value=3.0)

    found = {row["name"]: row for row in get(client, f"runs/{run.pk}/metric-names")["metrics"]}

    assert list(found) == [
        "reward/mean",
        "train/grad_norm",
        "train/ess/lag_2",
        "train/tokens",
        "mine/own",
    ]
    rewards = found["reward/mean"]
    assert (rewards["num_points"], rewards["last"], rewards["last_step"]) == (5, 4.1, 4)
    assert (rewards["group"], rewards["population"]) == ("Reward", "valid")
    lag = found["train/ess/lag_2"]
    assert (lag["label"], lag["unit"], lag["last"]) == (
        "Effective sample size, lag 2",
        "share",
        "NaN",
    )
    assert found["train/grad_norm"]["thresholds"] == [{"label": "clip", "value": 0.5}]
    assert (found["mine/own"]["group"], found["mine/own"]["definition"]) == ("Mine", "")


def test_a_file_has_every_point_of_the_range_with_its_place_on_the_axis(
    client: APIClient, run: Run
) -> None:
    _point(run, "reward/mean", 5, value=math.nan, resume=1, at=NOW + timedelta(minutes=16))

    answer = client.get(
        f"/api/v1/runs/{run.pk}/series/export?name=reward/mean&x=active_elapsed&from=120"
    )

    header, *rows = _text(answer).splitlines()
    assert header == "name,resume,step,at,x,value,is_superseded"
    columns = [row.split(",") for row in rows]
    assert [(c[1], c[2], c[5], c[6]) for c in columns] == [
        ("0", "2", "2.0", "0"),
        ("1", "3", "3.1", "0"),
        ("1", "4", "4.1", "0"),
        ("1", "5", "nan", "0"),
        ("0", "3", "3.0", "1"),
    ]
    assert [float(c[4]) for c in columns] == pytest.approx([120, 240, 300, 360, 180])
    assert f"series-{run.pk}.csv" in answer["Content-Disposition"]


def _text(answer: Any) -> str:
    async def read() -> bytes:
        return b"".join([piece async for piece in answer.streaming_content])

    return async_to_sync(read)().decode()


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("x=parsecs", "/x"),
        ("buckets=0", "/buckets"),
        ("buckets=2001", "/buckets"),
        ("from=nan", "/from"),
        ("to=inf", "/to"),
        ("smooth=mean:0", "/smooth"),
        ("smooth=mean:101", "/smooth"),
        ("smooth=ema:0.995", "/smooth"),
        ("smooth=ema:1", "/smooth"),
        ("smooth=best", "/smooth"),
    ],
)
def test_a_query_that_means_nothing_is_refused_by_field(
    client: APIClient, run: Run, query: str, pointer: str
) -> None:
    answer = client.get(f"/api/v1/runs/{run.pk}/series?{query}")

    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


def test_many_curves_and_points_cost_the_queries_of_one(client: APIClient, run: Run) -> None:
    def queries(names: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            get(client, f"runs/{run.pk}/series?x=tokens&name={names}")
        return len(captured)

    of_one = queries("reward/mean")
    for step in range(5, 50):
        _point(run, f"train/{step}", step, value=1.0)

    assert queries(",".join(f"train/{step}" for step in range(5, 50))) == of_one
    assert of_one <= 10

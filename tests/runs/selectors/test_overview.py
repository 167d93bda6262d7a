"""The overview of a run: every trajectory has one fate, and the sums add up."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from controlplane.accounts.models import Role
from controlplane.errors import NotFound
from runs.selectors.boxes import max_concurrent
from runs.selectors.overview import OverviewRow, overview
from runs.selectors.work import fate_of
from tests import factories
from tests.factories import NOW
from tests.scenario import member

pytestmark = pytest.mark.django_db

LATER = NOW + timedelta(hours=1)


class World:
    """A run with one RL stage; trajectories are added by what becomes of them."""

    def __init__(self, **run: Any) -> None:
        self.project = factories.ProjectFactory()
        self.run = factories.RunFactory(project=self.project, **run)
        self.stage = factories.StageFactory(run=self.run, index=1, name="rl-training")
        self.user = member(Role.VIEWER, self.project)

    def group(self, status: str, **fields: Any) -> Any:
        if status == "consumed":
            fields["step"] = factories.StepFactory(stage=self.stage, done=True)
        return factories.GroupFactory(stage=self.stage, status=status, **fields)

    def trajectory(self, group: Any, trait: str = "completed", **fields: Any) -> Any:
        """One attempt with 3 turns and 30 tokens."""
        made = factories.TrajectoryFactory(group=group, **{trait: True}, num_attempts=1, **fields)
        self.attempt(made, trait)
        return made

    def attempt(self, trajectory: Any, trait: str, number: int = 1, **fields: Any) -> Any:
        defaults = {"num_turns": 3, "output_tokens": 30, "started_at": NOW}
        return factories.AttemptFactory(
            trajectory=trajectory, number=number, **{trait: True}, **(defaults | fields)
        )

    def overview(self) -> OverviewRow:
        return overview(self.user, run=self.run.pk, now=LATER)


def fates(row: OverviewRow) -> dict[str, tuple[int, int, int]]:
    return {
        each["fate"]: (each["trajectories"], each["turns"], each["tokens"])
        for each in row["fates"]
        if each["trajectories"] or each["tokens"]
    }


def test_each_trajectory_has_one_fate_and_its_turns_and_tokens_go_with_it() -> None:
    world = World()
    world.trajectory(world.group("consumed"), advantage=0.7)
    world.trajectory(world.group("consumed"), advantage=0.0)
    world.trajectory(world.group("ready"))
    world.trajectory(world.group("dropped", drop_reason="stale"))
    world.trajectory(world.group("dropped", drop_reason="superseded"))
    world.trajectory(world.group("dropped", drop_reason="too_few_valid"))
    world.trajectory(world.group("consumed"), "failed")

    assert fates(world.overview()) == {
        "trained": (1, 3, 30),
        "zero_advantage": (1, 3, 30),
        "waiting": (1, 3, 30),
        "stale": (1, 3, 30),
        "superseded": (1, 3, 30),
        "invalid": (2, 6, 60),
    }


def test_tokens_of_an_attempt_that_the_infrastructure_failed_are_invalid_though_the_next_one_was_trained() -> (
    None
):
    world = World()
    trajectory = factories.TrajectoryFactory(
        group=world.group("consumed"), completed=True, num_attempts=2, advantage=1.0
    )
    world.attempt(trajectory, "failed", number=1, output_tokens=500)
    world.attempt(trajectory, "completed", number=2)

    assert fates(world.overview()) == {"trained": (1, 3, 30), "invalid": (0, 3, 500)}


@pytest.mark.parametrize(
    ("reason", "fate"),
    [("stale", "stale"), ("group_released", "released"), ("run_stopped", "cancelled")],
)
def test_a_cancelled_trajectory_says_why(reason: str, fate: str) -> None:
    assert fate_of("cancelled", reason, "open", "", has_advantage=False) == fate


def test_selection_sums_add_up_and_means_leave_invalid_ones_out() -> None:
    world = World()
    world.trajectory(world.group("consumed"), advantage=1.0, reward=1.0, num_turns=8)
    world.trajectory(world.group("consumed"), "failed", num_turns=2)
    world.trajectory(world.group("dropped", drop_reason="stale"), reward=1.0, num_turns=80)
    world.trajectory(world.group("ready"), reward=1.0, num_turns=5)

    rows = {row["population"]: row for row in world.overview()["selection"]}
    finished, *parts = (rows[n] for n in ("finished", "consumed", "discarded", "waiting"))

    for name in ("num", "num_valid", "sum_turns", "sum_reward"):
        assert finished[name] == sum(part[name] for part in parts), name
    assert (finished["num"], finished["num_valid"], finished["sum_turns"]) == (4, 3, 95)
    assert rows["consumed"]["mean_turns"] == 8
    assert rows["discarded"]["mean_turns"] == 41
    assert rows["discarded"]["mean_reward"] == 1


def test_parts_of_the_time_add_up_in_each_population() -> None:
    world = World()
    done = factories.TrajectoryFactory(group=world.group("ready"), completed=True, num_attempts=1)
    timings = {"start": 10, "setup": 5, "llm": 200, "exec": 30, "verify": 20}
    world.attempt(done, "completed", timings=timings)
    lost = factories.TrajectoryFactory(group=world.group("open"), num_attempts=2)
    world.attempt(lost, "failed", timings={"start": 60})
    live = world.attempt(lost, "running", number=2, started_at=LATER - timedelta(seconds=100))
    factories.TurnFactory(attempt=live, llm_s=40, exec_s=10)

    splits = {row["population"]: row for row in world.overview()["time"]}

    assert [splits[n]["num_attempts"] for n in ("finished_ok", "finished", "with_in_flight")] == [
        1,
        2,
        3,
    ]
    for split in splits.values():
        parts = split["parts"]
        assert sum(part["mean_s"] for part in parts) == pytest.approx(split["mean_s"])
        assert sum(part["share"] for part in parts) == pytest.approx(1)
    ok = {part["part"]: part["mean_s"] for part in splits["finished_ok"]["parts"]}
    assert (ok["llm"], ok["verify"], ok["other"]) == (200, 20, 35)
    all_of_it = {part["part"]: part["mean_s"] * 3 for part in splits["with_in_flight"]["parts"]}
    assert all_of_it["llm"] == pytest.approx(240)
    assert splits["with_in_flight"]["mean_s"] == pytest.approx((300 + 300 + 100) / 3)


def test_the_error_rate_of_calls_counts_turns_and_failures_of_all_attempts() -> None:
    world = World()
    trajectory = factories.TrajectoryFactory(group=world.group("ready"), completed=True)
    world.attempt(trajectory, "failed", number=1, num_turns=7, num_llm_errors=3)
    world.attempt(trajectory, "completed", number=2, num_turns=10, num_llm_errors=0)

    assert world.overview()["calls"] == {"calls": 20, "errors": 3, "error_rate": 0.15}


def test_a_funnel_counts_who_entered_failed_and_tried_again() -> None:
    world = World()
    failures = factories.FailureGroupFactory(
        project=world.project, stage="start", message="no answer within 20 s"
    )
    trajectory = factories.TrajectoryFactory(group=world.group("ready"), completed=True)
    lost = world.attempt(trajectory, "failed", number=1)
    kept = world.attempt(trajectory, "completed", number=2)
    box = {"project": world.project, "run_id": world.run.pk, "gone": True}
    factories.SandboxFactory(**box, attempt_id=lost.pk, timings={"admit": 1.0})
    factories.SandboxFactory(
        **box, attempt_id=kept.pk, timings={"admit": 3.0, "start": 2.0, "llm": 9.0}
    )
    factories.FailureFactory(group=failures, run_id=world.run.pk, attempt_id=lost.pk)
    factories.FailureFactory(
        group=failures, run_id=world.run.pk, attempt_id=kept.pk, is_by_policy=True
    )

    admit, start, infer = world.overview()["funnel"]

    assert (admit["stage"], admit["entered"], admit["ok"], admit["p50_s"]) == ("admit", 2, 2, 2.0)
    assert (start["entered"], start["ok"], start["failed"], start["retried"]) == (2, 1, 1, 1)
    assert start["p50_s"] == 2.0
    assert start["top_failure"] == {
        "id": failures.pk,
        "message": "no answer within 20 s",
        "num": 1,
    }
    assert (infer["stage"], infer["entered"]) == ("infer", 1)


def test_drivers_are_compared_by_quartiles_and_by_how_far_they_were_taken() -> None:
    world = World()
    for minute, driver in ((0, "e2b"), (1, "e2b"), (10, "e2b"), (0, "docker")):
        factories.SandboxFactory(
            project=world.project,
            run_id=world.run.pk,
            driver=driver,
            status="gone",
            created_at=NOW + timedelta(minutes=minute),
            finished_at=NOW + timedelta(minutes=minute + 5),
            timings={"start": 1.0 + minute},
        )

    e2b, docker = world.overview()["drivers"]

    assert (e2b["driver"], e2b["num_sandboxes"], e2b["max_concurrent"]) == ("e2b", 3, 2)
    assert e2b["stages"] == [
        {"stage": "start", "num": 3, "q25_s": 1.5, "median_s": 2.0, "q75_s": 6.5}
    ]
    assert (docker["driver"], docker["max_concurrent"]) == ("docker", 1)
    assert world.overview()["cost"]["sandbox_h"] == pytest.approx(20 / 60)


def test_spans_that_only_touch_are_not_open_together() -> None:
    began, ended = np.array([0.0, 5.0, 9.0]), np.array([5.0, 9.0, 12.0])

    assert max_concurrent(began, ended) == 1
    assert max_concurrent(began, ended + 1) == 2
    assert max_concurrent(np.empty(0), np.empty(0)) == 0


def test_production_and_consumption_are_rates_of_the_last_ten_minutes_of_a_stage_that_runs() -> (
    None
):
    world = World()
    recent = LATER - timedelta(minutes=2)
    group = world.group("ready")
    for _ in range(3):
        made = factories.TrajectoryFactory(
            group=group, completed=True, num_attempts=1, finished_at=recent
        )
        world.attempt(made, "completed")
    world.trajectory(group, finished_at=NOW)
    factories.StepFactory(
        stage=world.stage, done=True, started_at=recent, finished_at=recent, num_trajectories=2
    )

    balance = world.overview()["balance"]

    assert balance == {"produced_per_h": 18, "consumed_per_h": 12, "window_s": 600}


def test_the_buffer_knows_how_long_and_how_many_versions_its_oldest_group_has_waited() -> None:
    world = World(weight_version=7)
    world.group("ready", ready_at=LATER - timedelta(seconds=90), oldest_version=5)
    world.group("ready", ready_at=LATER - timedelta(seconds=10), oldest_version=7)
    world.group("open")

    assert world.overview()["buffer"] == {
        "num_ready": 2,
        "num_open": 1,
        "capacity": 6,
        "oldest_s": 90,
        "oldest_lag": 2,
    }


def test_the_topology_adds_up_the_engines_that_are_there() -> None:
    world = World(weight_version=4)

    def load(waiting: int, usage: float) -> dict[str, Any]:
        return {"running": 10, "queued": waiting, "token_usage": usage}

    factories.EngineFactory(run=world.run, weight_version=4, load=load(0, 0.2))
    factories.EngineFactory(run=world.run, weight_version=2, status="syncing", load=load(5, 0.9))
    factories.EngineFactory(run=world.run, status="lost", load=load(50, 1.0))
    world.group("dropped", drop_reason="stale")

    topology = world.overview()["topology"]

    assert topology["engines"] == {
        "num": 2,
        "num_serving": 1,
        "num_lost": 1,
        "running": 20,
        "queued": 5,
        "kv_max": 0.9,
        "gen_tokens_per_s": 0,
        "lag": 2,
    }
    assert topology["dropped"] == [{"name": "stale", "num": 1}]


def test_an_engine_is_busy_while_it_has_an_attempt_however_many() -> None:
    world = World(finished_at=LATER, status="succeeded")
    engine = factories.EngineFactory(run=world.run, status="gone", finished_at=LATER)
    group = world.group("ready")
    for began, ended in ((0, 20), (10, 30), (50, 60)):
        made = factories.TrajectoryFactory(group=group, completed=True)
        world.attempt(
            made,
            "completed",
            engine=engine,
            started_at=NOW + timedelta(minutes=began),
            finished_at=NOW + timedelta(minutes=ended),
        )

    cost = world.overview()["cost"]

    assert cost["engine_h"] == pytest.approx(1)
    assert cost["engine_busy_h"] == pytest.approx(40 / 60)


def test_a_life_of_the_trainer_says_what_it_made_and_why_it_began() -> None:
    world = World()

    def step(index: int, resume: int, minute: int, status: str) -> None:
        at = NOW + timedelta(minutes=minute)
        factories.StepFactory(
            stage=world.stage,
            index=index,
            resume=resume,
            status=status,
            started_at=at,
            finished_at=at,
        )

    step(1, 0, 1, "done")
    step(2, 0, 2, "superseded")
    factories.EventFactory(
        run=world.run, kind="rolled_back", at=NOW + timedelta(minutes=3), sentence="Back to 1."
    )
    step(2, 1, 4, "done")
    factories.EventFactory(
        run=world.run, kind="rolled_back", at=NOW + timedelta(minutes=5), sentence="Back to 2."
    )
    step(3, 2, 6, "done")

    first, second, third = world.overview()["lives"]

    assert (first["num_done"], first["num_superseded"], first["sentence"]) == (1, 1, "")
    assert (second["resume"], second["first_step"], second["sentence"]) == (1, 2, "Back to 1.")
    assert third["sentence"] == "Back to 2."


def test_a_clone_shows_what_was_changed_but_only_to_who_may_see_its_source() -> None:
    source = factories.RunFactory(name="first")
    recipe = {**source.recipe, "seed": 9}
    world = World(cloned_from=source, recipe=recipe)
    stranger = factories.RunFactory(project=factories.ProjectFactory(slug="theirs"))
    other = factories.RunFactory(project=world.project, cloned_from=stranger)

    origin = world.overview()["origin"]

    assert origin == {
        "id": source.pk,
        "name": "first",
        "changes": [{"path": "seed", "before": source.recipe["seed"], "after": 9}],
    }
    assert overview(world.user, run=other.pk, now=LATER)["origin"] is None


def test_a_run_that_has_not_begun_has_an_overview_too() -> None:
    world = World(queued=True)
    world.stage.delete()

    row = world.overview()

    assert row["verdict"]["bound"] == "none"
    assert row["balance"] == {"produced_per_h": None, "consumed_per_h": None, "window_s": 0}
    assert (row["buffer"]["capacity"], row["funnel"], row["lives"]) == (None, [], [])


def test_a_run_of_another_project_is_not_found() -> None:
    world = World()
    outsider = member(Role.ADMIN, factories.ProjectFactory(slug="theirs"))

    with pytest.raises(NotFound):
        overview(outsider, run=world.run.pk, now=LATER)

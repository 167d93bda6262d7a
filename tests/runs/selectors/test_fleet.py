"""Boxes, failure groups, tasks and engines as the pages show them."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest

from controlplane.accounts.models import Role, User
from controlplane.errors import NotFound
from runs.selectors import fleet, sandboxes, tasks
from runs.selectors.failures import failure_group, failure_groups, why_grouped
from runs.selectors.sandbox_detail import sandbox_detail
from tests import factories
from tests.factories import NOW
from tests.scenario import member

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def viewer() -> User:
    return member(Role.VIEWER, factories.ProjectFactory())


@pytest.fixture
def stranger() -> User:
    return member(Role.ADMIN, factories.ProjectFactory(slug="theirs"))


def box(**fields: Any) -> Any:
    return factories.SandboxFactory(**fields)


def test_a_box_is_an_orphan_when_it_lives_and_no_attempt_in_flight_has_it(viewer: User) -> None:
    running = factories.AttemptFactory(running=True)
    over = factories.AttemptFactory(failed=True)
    box(attempt_id=running.pk)
    box(attempt_id=over.pk, gone=True)
    orphans = [box(attempt_id=over.pk), box(attempt_id=None)]

    found = sandboxes.sandboxes(viewer, is_orphan=True).all()

    assert {row["id"] for row in found} == {one.pk for one in orphans}
    assert sandboxes.sandbox_fleet(viewer)["num_orphans"] == 2


def test_boxes_are_counted_by_state_against_the_cap_of_their_run(viewer: User) -> None:
    run = factories.RunFactory()
    for status in ("leased", "leased", "starting"):
        box(run_id=run.pk, status=status)
    box(run_id=run.pk, gone=True, level="unsafe")
    factories.WorkerFactory(num_slots=7)
    factories.WorkerFactory(num_slots=9, status="draining")

    of_run = sandboxes.sandbox_fleet(viewer, run=run.pk)
    of_all = sandboxes.sandbox_fleet(viewer)

    assert (of_run["num_alive"], of_run["counts"]["leased"], of_run["counts"]["gone"]) == (3, 2, 1)
    assert (of_run["limit"], of_run["limit_source"], of_run["num_unsafe"]) == (16, "recipe", 1)
    assert (of_all["limit"], of_all["limit_source"]) == (7, "workers")


def test_start_latency_is_of_the_start_alone_and_of_those_that_started(viewer: User) -> None:
    for start in (1.0, 2.0, 3.0):
        box(driver="local", level="bwrap", timings={"image": 1.0, "start": start, "setup": 9.0})
    box(driver="local", level="bwrap", status="failed", timings={"image": 50.0}, finished_at=NOW)

    (row,) = sandboxes.sandbox_fleet(viewer)["starts"]

    assert (row["num_boxes"], row["num_failed"], row["num_measured"]) == (4, 1, 3)
    assert [row["p50"], row["p90"], row["setup_p50"]] == pytest.approx([3.0, 3.8, 9.0])


def test_the_carpet_of_a_run_is_a_byte_a_cell(viewer: User, stranger: User) -> None:
    run = factories.RunFactory()
    box(run_id=run.pk, gone=True, timings={"start": 60.0})
    box(gone=True)

    found = sandboxes.sandbox_carpet(viewer, run=run.pk, bins=10, now=NOW + HOUR)

    cells = base64.b64decode(found["cells"])
    assert (found["num_slots"], found["num_bins"], found["num_boxes"]) == (1, 10, 1)
    assert len(cells) == 10
    names = [found["stages"][code] for code in cells]
    assert (names[0], names[5]) == ("starting", "in use")
    with pytest.raises(NotFound):
        sandboxes.sandbox_carpet(stranger, run=run.pk, now=NOW)


def test_a_failed_box_says_where_what_and_what_became_of_its_data(
    viewer: User, stranger: User
) -> None:
    group = factories.GroupFactory(stage__kind="rl", stage__index=1, num_members=4)
    trajectory = factories.TrajectoryFactory(group=group, completed=True, reward=0.0)
    first = factories.AttemptFactory(
        trajectory=trajectory, number=1, failed=True, created_at=NOW - timedelta(seconds=3)
    )
    factories.AttemptFactory(trajectory=trajectory, number=2, completed=True, reward=0.0)
    failures = factories.FailureGroupFactory(stage="setup", kind="transport", num_failures=2)
    factories.FailureFactory(group=failures, attempt_id=first.pk, evidence={"output": "no route"})
    factories.FailureFactory(group=failures)
    failed = box(
        attempt_id=first.pk, status="failed", finished_at=NOW, timings={"start": 2.0, "exec": 0.0}
    )

    found = sandbox_detail(viewer, failed.pk)

    life = {stage["name"]: (stage["state"], stage["seconds"]) for stage in found["life"]}
    assert life["admit"] == ("done", 3.0)
    assert life["start"] == ("done", 2.0)
    assert life["setup"] == ("failed", None)
    assert life["exec"] == ("not_reached", None), "a zero after the failure is no measurement"
    assert found["failure"] is not None
    assert found["failure"]["evidence"] == {"output": "no route"}
    assert found["policy"] is not None
    assert found["policy"]["retries"] == 3
    assert (found["num_alike"], len(found["alike"])) == (1, 1)
    effect = found["effect"]
    assert effect is not None
    assert (effect["is_invalid"], effect["required_valid"]) == (True, 2)
    assert effect["later"] == {"number": 2, "status": "completed", "reward": 0.0}
    assert effect["sentence"].startswith(
        "Attempt 1 is invalid: no reward. Attempt 2 completed with reward 0."
    )
    with pytest.raises(NotFound):
        sandbox_detail(stranger, failed.pk)


@pytest.mark.parametrize(
    ("status", "num_ended", "num_valid", "usable"),
    [("open", 1, 0, None), ("open", 3, 0, False), ("open", 3, 2, True), ("dropped", 4, 1, False)],
)
def test_a_group_is_usable_while_enough_members_may_still_be_valid(
    viewer: User, status: str, num_ended: int, num_valid: int, usable: bool | None
) -> None:
    reason = {"drop_reason": "too_few_valid"} if status == "dropped" else {}
    group = factories.GroupFactory(
        stage__kind="rl",
        stage__index=1,
        status=status,
        num_ended=num_ended,
        num_valid=num_valid,
        **reason,
    )
    trajectory = factories.TrajectoryFactory(group=group, failed=True)
    attempt = factories.AttemptFactory(trajectory=trajectory, failed=True)

    effect = sandbox_detail(viewer, box(attempt_id=attempt.pk).pk)["effect"]

    assert effect is not None
    assert effect["is_group_usable"] is usable


def failure(group: Any, *, attempt: Any = None, **fields: Any) -> Any:
    attempt_id = attempt.pk if attempt else None
    run_id = attempt.run_id if attempt else None
    return factories.FailureFactory(group=group, attempt_id=attempt_id, run_id=run_id, **fields)


def test_a_failure_group_says_what_it_did_and_how_it_is_spread(
    viewer: User, stranger: User
) -> None:
    group = factories.FailureGroupFactory(num_failures=4, last_at=NOW)
    lost = factories.AttemptFactory(trajectory__failed=True, failed=True)
    saved = factories.AttemptFactory(trajectory__completed=True, failed=True)
    factories.AttemptFactory(trajectory=saved.trajectory, completed=True)
    for _ in range(2):
        failure(group, attempt=lost, host="a", driver="e2b", at=NOW - HOUR)
    failure(group, attempt=saved, host="b", driver="e2b", engine="engine 3", at=NOW)
    failure(group, host="b", driver="local", at=NOW - 60 * HOUR)

    (row,) = failure_groups(viewer, now=NOW).all()
    detail = failure_group(viewer, group.pk, now=NOW)
    of_run = failure_group(viewer, group.pk, now=NOW, run=saved.run_id)

    assert (row["num_here"], row["num_trajectories"], row["num_runs"]) == (4, 2, 2)
    assert row["num_invalidated"] == 1, "the other one was tried again and has its reward"
    assert (row["hourly"][-2:], sum(row["hourly"]), len(row["hourly"])) == ([2, 1], 3, 48)
    facets = {
        facet["name"]: {one["value"]: one["num_failures"] for one in facet["values"]}
        for facet in detail["facets"]
    }
    assert facets["host"] == {"a": 2, "b": 2}
    assert facets["driver"] == {"e2b": 3, "local": 1}
    assert facets["engine"] == {"": 3, "engine 3": 1}
    assert facets["run"] == {str(lost.run_id): 2, str(saved.run_id): 1, "": 1}
    assert facets["stage"] == {lost.stage.name: 2, saved.stage.name: 1, "": 1}
    assert facets["task"][lost.trajectory.task.key] == 2
    assert (detail["num_failed_attempts"], detail["num_attempts"]) == (2, 3)
    assert (of_run["num_here"], of_run["num_failures"]) == (1, 4)
    with pytest.raises(NotFound):
        failure_group(stranger, group.pk, now=NOW)


def test_failure_groups_are_found_by_state_and_sorted_by_their_last_failure(viewer: User) -> None:
    old = factories.FailureGroupFactory(first_at=NOW - 100 * HOUR, last_at=NOW)
    new = factories.FailureGroupFactory(first_at=NOW - HOUR, last_at=NOW - HOUR)
    factories.FailureGroupFactory(last_at=NOW - 3 * HOUR, resolved_at=NOW)

    found = failure_groups(viewer, now=NOW, state=["new", "ongoing"], sort="-last_at").all()

    assert [(row["id"], row["state"]) for row in found] == [(old.pk, "ongoing"), (new.pk, "new")]


def test_a_fingerprint_is_explained_part_by_part() -> None:
    parts = why_grouped("v1:start:start_timeout:no shell in PATH within N s: see URL")

    assert [part["part"] for part in parts] == [
        "v1",
        "start",
        "start_timeout",
        "no shell in PATH within N s: see URL",
        "URL",
        "PATH",
        "N",
    ]


def test_a_task_says_what_the_policy_made_of_it(viewer: User, stranger: User) -> None:
    task_set = factories.TaskSetFactory(num_tasks=4)
    stage = factories.StageFactory(kind="rl", num_steps=24)
    made: dict[str, Any] = {}
    for key, rewards in (
        ("always", [1.0, 1.0]),
        ("sometimes", [1.0, 0.0, None]),
        ("never", [0.0]),
        ("untried", []),
    ):
        made[key] = factories.TaskFactory(task_set=task_set, key=key)
        step = (
            factories.StepFactory(stage=stage, index=3, done=True) if key == "sometimes" else None
        )
        group = factories.GroupFactory(
            stage=stage, task=made[key], step=step, status="consumed" if step else "open"
        )
        for reward in rewards:
            fate = {"failed": True} if reward is None else {"completed": True, "reward": reward}
            trajectory = factories.TrajectoryFactory(group=group, **fate)
            factories.AttemptFactory(trajectory=trajectory, number=1, **fate)

    rows = {row["key"]: row for row in tasks.tasks(viewer, task_set=task_set.pk).all()}
    set_row = tasks.task_set_detail(viewer, task_set.pk)
    detail = tasks.task_detail(viewer, task_set=task_set.pk, task=made["sometimes"].pk)

    assert {key: row["bucket"] for key, row in rows.items()} == {key: key for key in made}
    assert set_row["buckets"] == dict.fromkeys(made, 1)
    some = rows["sometimes"]
    assert (some["num_trajectories"], some["num_valid"], some["num_solved"]) == (3, 2, 1)
    assert [some["solve_rate"], some["infra_share"]] == pytest.approx([0.5, 1 / 3])
    assert (rows["untried"]["solve_rate"], rows["untried"]["infra_share"]) == (None, None)
    assert [
        row["key"] for row in tasks.tasks(viewer, task_set=task_set.pk, bucket=["never"]).all()
    ] == ["never"]
    by_rate = tasks.tasks(viewer, task_set=task_set.pk, sort="-solve_rate").all()
    assert [row["key"] for row in by_rate] == ["always", "sometimes", "never", "untried"]
    buckets = [
        (b["first_step"], b["last_step"], b["num_solved"], b["num_trajectories"])
        for b in detail["steps"]
    ]
    assert len(buckets) == 12
    assert buckets[1] == (2, 3, 1, 2), "an invalid one is in no rate"
    assert (detail["stages"][0]["num_invalid"], detail["failures"][0]["num_attempts"]) == (1, 1)
    with pytest.raises(NotFound):
        tasks.task_detail(stranger, task_set=task_set.pk, task=made["never"].pk)


def test_an_engine_says_how_far_behind_it_is_and_how_often_it_was_replaced(viewer: User) -> None:
    run = factories.RunFactory(weight_version=5)
    factories.EngineFactory(run=run, index=0, status="lost", finished_at=NOW)
    factories.EngineFactory(
        run=run, index=0, weight_version=3, load={"running": 2.0, "somebody_elses": 1}
    )

    row = fleet.engines(viewer).all()[0]

    assert (row["version_skew"], row["num_restarts"], row["load"]) == (2, 1, {"running": 2.0})


def test_queues_count_what_waits_by_what_it_waits_for(viewer: User, stranger: User) -> None:
    run = factories.RunFactory()
    stage = factories.StageFactory(run=run, kind="rl")
    trajectory = {"trajectory__group__stage": stage}
    factories.AttemptFactory(**trajectory, created_at=NOW - HOUR)
    factories.AttemptFactory(**trajectory, dispatched_at=NOW)
    factories.AttemptFactory(
        **trajectory, running=True, worker=factories.WorkerFactory(num_slots=8)
    )
    factories.EngineFactory(run=run, status="starting")

    found = {row["name"]: row for row in fleet.queues(viewer)["queues"]}
    theirs = {row["name"]: row for row in fleet.queues(stranger)["queues"]}

    assert (found["prompt"]["depth"], found["prompt"]["oldest_at"]) == (1, NOW - HOUR)
    rollout = found["rollout"]
    assert (rollout["depth"], rollout["oldest_at"], rollout["num_busy"]) == (1, NOW, 1)
    assert (rollout["num_consumers"], rollout["num_slots"]) == (1, 8)
    assert (found["train"]["depth"], found["engine"]["depth"]) == (1, 1)
    assert {name: theirs[name]["depth"] for name in ("prompt", "rollout", "train", "engine")} == {
        "prompt": 0,
        "rollout": 0,
        "train": 0,
        "engine": 0,
    }

"""A step from near, and the event feed by kind."""

from __future__ import annotations

import pytest

from controlplane.accounts.models import Role
from controlplane.errors import NotFound
from runs.selectors.batches import step_detail
from runs.selectors.history import event_kinds, events
from tests import factories
from tests.scenario import member

pytestmark = pytest.mark.django_db


def test_a_step_has_its_groups_in_order_with_every_member_and_attempt() -> None:
    step = factories.StepFactory(done=True)
    second = factories.GroupFactory(stage=step.stage, index=8, status="consumed", step=step)
    first = factories.GroupFactory(stage=step.stage, index=7, status="consumed", step=step)
    valid = factories.TrajectoryFactory(group=first, index=0, completed=True, advantage=0.5)
    lost = factories.TrajectoryFactory(group=first, index=1, failed=True)
    factories.AttemptFactory(trajectory=valid, number=2, completed=True)
    factories.AttemptFactory(trajectory=valid, number=1, failed=True)
    user = member(Role.VIEWER, step.run.project)

    row = step_detail(user, run=step.run_id, step=step.pk)

    assert [group["id"] for group in row["groups"]] == [first.pk, second.pk]
    members = row["groups"][0]["members"]
    assert [(m["id"], m["reward"], m["advantage"]) for m in members] == [
        (valid.pk, 1.0, 0.5),
        (lost.pk, None, None),
    ]
    assert [span["status"] for span in members[0]["attempts"]] == ["failed", "completed"]


def test_a_superseded_step_keeps_its_members_though_its_groups_were_freed() -> None:
    step = factories.StepFactory(status="superseded")
    group = factories.GroupFactory(stage=step.stage, status="ready")
    trained = factories.TrajectoryFactory(group=group, completed=True)
    factories.ConsumptionFactory(step=step, trajectory=trained)
    user = member(Role.VIEWER, step.run.project)

    row = step_detail(user, run=step.run_id, step=step.pk)

    assert [member["id"] for member in row["groups"][0]["members"]] == [trained.pk]


def test_metrics_of_a_step_are_found_though_curves_count_through_earlier_stages() -> None:
    run = factories.RunFactory()
    factories.StageFactory(run=run, index=0, num_steps=30)
    stage = factories.StageFactory(run=run, index=1)
    step = factories.StepFactory(stage=stage, index=2, resume=1)
    for at, resume, value in ((32, 1, float("nan")), (32, 0, 0.1), (2, 1, 0.2)):
        factories.MetricPointFactory(
            run=run, name="train/loss", step=at, resume=resume, value=value
        )
    factories.MetricPointFactory(run=run, name="sft/loss", step=32, resume=1)

    row = step_detail(member(Role.VIEWER, run.project), run=run.pk, step=step.pk)

    assert row["values"] == [{"name": "train/loss", "value": "NaN"}]


def test_a_step_of_another_run_is_not_found() -> None:
    step = factories.StepFactory()
    other = factories.RunFactory(project=step.run.project)

    with pytest.raises(NotFound):
        step_detail(member(Role.VIEWER, step.run.project), run=other.pk, step=step.pk)


def test_events_are_counted_and_filtered_by_kind() -> None:
    run = factories.RunFactory()
    factories.EventFactory.create_batch(2, run=run, kind="groups_stale", level="warning")
    factories.EventFactory(run=run, kind="run_started")
    user = member(Role.VIEWER, run.project)

    assert event_kinds(user, run=run.pk) == [
        {"kind": "groups_stale", "level": "warning", "num": 2},
        {"kind": "run_started", "level": "info", "num": 1},
    ]
    found, _ = events(user, run=run.pk, kind=["run_started"]).page(10, None)
    assert [event["kind"] for event in found] == ["run_started"]

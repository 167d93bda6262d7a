"""Draining a worker: what it has finishes, it gets nothing more."""

from __future__ import annotations

import uuid

import pytest

from controlplane.accounts.models import AuditEntry, Role
from controlplane.errors import Conflict, Forbidden, NotFound
from runs import scheduler
from runs.models import Attempt, Worker
from runs.selectors.fleet import workers as worker_rows
from runs.services import attempts, groups, workers
from tests import factories
from tests.factories import NOW
from tests.runs.lab import Lab
from tests.scenario import member

pytestmark = pytest.mark.django_db


def open_attempts(lab: Lab) -> list[Attempt]:
    stage = lab.eval
    stage.move("running")
    groups.open_groups(stage, [groups.tasks_of_stage(stage)[0]], 2, now=NOW)
    return list(Attempt.objects.order_by("pk"))


def test_a_draining_worker_gets_no_attempt_and_one_that_is_back_does() -> None:
    lab = Lab()
    actor = member(Role.OPERATOR, lab.run.project)
    first, second = open_attempts(lab)
    assert attempts.claim_attempt(first.pk, lab.worker.pk, now=NOW) is not None

    workers.drain_worker(lab.worker.pk, actor=actor, reason="a new kernel", now=NOW)
    assert attempts.claim_attempt(second.pk, lab.worker.pk, now=NOW) is None
    assert workers.beat(lab.worker) == "draining"
    first.refresh_from_db()
    assert first.status == "starting", "what it has goes on"

    workers.undrain_worker(lab.worker.pk, actor=actor, reason="done", now=NOW)
    assert attempts.claim_attempt(second.pk, lab.worker.pk, now=NOW) is not None
    assert list(AuditEntry.objects.order_by("id").values_list("action", flat=True)) == [
        "worker.drain",
        "worker.undrain",
    ]


def test_what_a_draining_worker_holds_takes_no_slot_of_the_others() -> None:
    lab = Lab(num_slots=1)
    actor = member(Role.OPERATOR, lab.run.project)
    first, second = open_attempts(lab)
    attempts.claim_attempt(first.pk, lab.worker.pk, now=NOW)
    workers.drain_worker(lab.worker.pk, actor=actor, reason="r", now=NOW)
    factories.WorkerFactory(node=lab.worker.node, num_slots=1)

    scheduler.decide(lab.run, now=NOW)

    second.refresh_from_db()
    assert second.dispatched_at == NOW


def test_the_list_says_who_drained_it_why_and_whether_it_is_empty() -> None:
    lab = Lab()
    actor = member(Role.OPERATOR, lab.run.project)
    attempts.claim_attempt(open_attempts(lab)[0].pk, lab.worker.pk, now=NOW)
    workers.drain_worker(lab.worker.pk, actor=actor, reason="a new kernel", now=NOW)

    (row,) = worker_rows(actor).all()

    assert (row["status"], row["num_busy"]) == ("draining", 2), "its attempt, the lab's engine"
    assert (row["drained_by"], row["drain_reason"]) == (actor.username, "a new kernel")


def test_a_worker_is_empty_when_it_holds_no_attempt_no_engine_and_no_stage() -> None:
    viewer = member(Role.VIEWER, factories.ProjectFactory())
    owner = {"lease_token": uuid.uuid4(), "lease_expires_at": NOW}
    workers_of = [factories.WorkerFactory(name=name, kind="engine") for name in "abc"]
    factories.EngineFactory(worker=workers_of[0], **owner)
    factories.EngineFactory(worker=workers_of[0], status="gone", finished_at=NOW, **owner)
    factories.StageFactory(lease_worker=workers_of[1], **owner)

    assert {row["name"]: row["num_busy"] for row in worker_rows(viewer).all()} == {
        "a": 1,
        "b": 1,
        "c": 0,
    }


def test_only_an_operator_of_some_project_may_drain() -> None:
    worker = factories.WorkerFactory()
    viewer = member(Role.VIEWER, factories.ProjectFactory())

    with pytest.raises(Forbidden):
        workers.drain_worker(worker.pk, actor=viewer, reason="r", now=NOW)
    with pytest.raises(NotFound):
        workers.drain_worker(worker.pk, actor=factories.UserFactory(), reason="r", now=NOW)
    assert Worker.objects.get().status == "live"


def test_what_is_over_cannot_be_drained() -> None:
    worker = factories.WorkerFactory(status="lost")
    actor = member(Role.OPERATOR, factories.ProjectFactory())

    with pytest.raises(Conflict, match="is lost, not live"):
        workers.drain_worker(worker.pk, actor=actor, reason="r", now=NOW)
    with pytest.raises(NotFound):
        workers.drain_worker(worker.pk + 1, actor=actor, reason="r", now=NOW)

"""Caps measured: configured, used now, and the highest so far."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.accounts.models import Role
from runs.models import Attempt, Engine
from runs.selectors.limits import limits
from runs.services import groups
from runs.services.limits import measure_limits
from sandboxes.models import Limit
from tests import factories
from tests.factories import NOW
from tests.runs.lab import Lab
from tests.scenario import member

pytestmark = pytest.mark.django_db


def test_a_running_run_is_measured_and_its_peak_is_kept() -> None:
    lab = Lab()
    lab.rl.move("running")
    groups.open_groups(lab.rl, groups.tasks_of_stage(lab.rl)[:2], 4, now=NOW)
    Engine.objects.update(load={"running": 5.0, "queued": 2.0, "longest_tokens": 300.0})
    measure_limits(now=NOW)
    Engine.objects.update(load={"running": 3.0, "queued": 0.0})
    measure_limits(now=NOW + timedelta(seconds=5))

    found = {(one.layer, one.name): one for one in Limit.objects.all()}
    running = found["engine", "max_running"]
    assert (running.configured, running.measured, running.peak) == (64, 3, 5)
    assert running.measured_at == NOW + timedelta(seconds=5)
    longest = found["engine", "longest sequence"]
    assert (longest.configured, longest.measured, longest.peak) == (448, None, 300)
    admission = found["admission", "open and ready groups"]
    assert (admission.configured, admission.measured) == (6, 2)
    assert found["workers", "rollout slots"].configured == 64
    assert {one.scope for one in found.values()} == {"", f"run {lab.run.pk}"}


def test_nothing_is_measured_while_no_run_is_active() -> None:
    factories.RunFactory(succeeded=True)

    measure_limits(now=NOW)

    assert not Limit.objects.exists()


def test_a_limit_says_who_waits_behind_it() -> None:
    lab = Lab()
    lab.rl.move("running")
    groups.open_groups(lab.rl, groups.tasks_of_stage(lab.rl)[:1], 4, now=NOW)
    Engine.objects.update(load={"queued": 7})
    measure_limits(now=NOW)
    factories.LimitFactory(project=lab.run.project, layer="docker", name="networks", measured=None)

    rows = {(r["layer"], r["name"]): r for r in limits(member(Role.VIEWER, lab.run.project)).all()}

    assert Attempt.objects.filter(status="queued").count() == 4
    assert rows["rollout", "max_in_flight"]["num_waiting"] == 4
    assert rows["workers", "rollout slots"]["num_waiting"] == 4
    assert rows["engine", "max_queued"]["num_waiting"] == 7
    assert rows["docker", "networks"]["num_waiting"] is None

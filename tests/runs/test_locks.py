"""Who waits for whom: attempts are locked before groups, the stage before both."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import connection, transaction
from django.db.models import Q

from runs.models import Attempt
from runs.services import attempts
from tests.factories import NOW
from tests.runs.lab import Lab, result

pytestmark = pytest.mark.django_db(transaction=True)


def in_thread(call: Callable[[], object]) -> tuple[threading.Thread, list[Exception]]:
    errors: list[Exception] = []

    def run() -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - the test's thread looks at it
            errors.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread, errors


def test_a_stop_and_a_report_of_siblings_do_not_deadlock() -> None:
    lab = Lab()
    lab.begin("rl")
    group = lab.open_rl_groups(1)[0]
    reporting = Attempt.objects.filter(trajectory__group=group).order_by("-pk")[0]
    token = lab.claim_to_grading(reporting).token

    with transaction.atomic():
        attempts._owned(reporting.pk, token)  # the worker has its attempt, not yet its group
        stopping, errors = in_thread(
            lambda: attempts.cancel_all(Q(run=lab.run), "run_stopped", now=NOW)
        )
        stopping.join(0.5)
        assert stopping.is_alive(), "the stop waits for the report"
        attempts.complete_attempt(reporting.pk, token, result(), reward=1.0, now=NOW)
    stopping.join(10)

    assert errors == []
    group.refresh_from_db()
    assert (group.status, group.num_ended) == ("dropped", 4)
    reporting.refresh_from_db()
    assert (reporting.status, reporting.reward) == ("completed", 1.0)

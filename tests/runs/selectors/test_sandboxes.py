"""The carpet: many who ask at once share a computation, each only with those who see the same."""

from __future__ import annotations

import copy
import time
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction

from controlplane.accounts.models import User
from runs.selectors import sandboxes
from runs.selectors.sandboxes import SandboxCarpetRow, sandbox_carpet
from tests.factories import (
    ApiTokenFactory,
    MembershipFactory,
    ProjectFactory,
    SandboxFactory,
    UserFactory,
)

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def ask(actor: User) -> SandboxCarpetRow:
    try:
        return sandbox_carpet(actor, now=NOW)
    finally:
        connection.close()


@pytest.mark.django_db(transaction=True)
def test_a_token_of_one_project_gets_no_answer_that_its_person_was_given() -> None:
    person = UserFactory()
    first, second = ProjectFactory(slug="first"), ProjectFactory(slug="second")
    for project in (first, second):
        MembershipFactory(user=person, project=project)
    SandboxFactory(project=first, created_at=NOW - timedelta(minutes=1))
    SandboxFactory(project=second, created_at=NOW - timedelta(minutes=1))
    by_token = copy.copy(person)
    by_token.presented_token = ApiTokenFactory(user=person, project=first)

    with ThreadPoolExecutor(3) as pool:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("LOCK TABLE sandboxes_sandbox IN ACCESS EXCLUSIVE MODE")
            asked: list[Future[SandboxCarpetRow]] = [pool.submit(ask, person) for _ in range(2)]
            deadline = time.monotonic() + 20
            while not sandboxes._carpets._next and time.monotonic() < deadline:
                time.sleep(0.02)
            asked.append(pool.submit(ask, by_token))
            time.sleep(0.3)
        answers = [one.result(20)["num_boxes"] for one in asked]
    assert answers == [2, 2, 1]

from __future__ import annotations

import inspect

import pytest
from factory.django import DjangoModelFactory

from tests import factories

FACTORIES = [
    kind
    for _, kind in inspect.getmembers(factories, inspect.isclass)
    if issubclass(kind, DjangoModelFactory) and kind is not DjangoModelFactory
]
STATES = [
    pytest.param(kind, trait, id=f"{kind.__name__}-{trait}")
    for kind in FACTORIES
    for trait in ["", *kind._meta.parameters]  # type: ignore[attr-defined]
]


@pytest.mark.django_db
@pytest.mark.parametrize(("kind", "trait"), STATES)
def test_every_factory_and_trait_makes_a_row_that_the_constraints_accept(
    kind: type[DjangoModelFactory], trait: str
) -> None:
    row = kind(**{trait: True} if trait else {})

    assert row.pk
    assert str(row)


@pytest.mark.django_db
def test_rows_below_one_trajectory_share_its_run_and_project() -> None:
    attempt = factories.AttemptFactory(running=True)

    assert attempt.run == attempt.stage.run == attempt.trajectory.group.run
    assert attempt.trajectory.task.task_set.project == attempt.run.project

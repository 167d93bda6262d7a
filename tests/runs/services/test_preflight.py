from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.errors import Forbidden, Invalid
from runs.models import Run, Task, TaskSet
from runs.services.preflight import Check, preflight
from runs.services.runs import launch_run
from tests.factories import (
    NOW,
    RECIPE,
    MembershipFactory,
    ProjectFactory,
    TaskFactory,
    TaskSetFactory,
    UserFactory,
    WorkerFactory,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def source(tmp_path: Path) -> str:
    """A recipe that this installation can run."""
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 448}')
    (tmp_path / "tokenizer.json").write_text("{}")
    for name, split, repository in (
        ("tiny-train", "train", "a/train"),
        ("tiny-held-out", "held_out", "a/held-out"),
    ):
        task_set = TaskSetFactory(name=name, split=split)
        TaskFactory(task_set=task_set, repository=repository)
    for kind in ("rollout", "train", "engine"):
        WorkerFactory(kind=kind)
    return yaml.safe_dump({**RECIPE, "model": {"path": str(tmp_path), "context_length": 448}})


def changed(source: str, change: Any) -> str:
    recipe = copy.deepcopy(yaml.safe_load(source))
    change(recipe)
    return yaml.safe_dump(recipe)


def errors(source: str) -> dict[str, Check]:
    return {c.name: c for c in preflight(ProjectFactory(), source) if c.level == "error"}


def test_a_recipe_that_can_run_has_no_error(source: str) -> None:
    assert not errors(source)


def test_a_contaminated_split_is_refused_and_named(source: str) -> None:
    train = TaskSet.objects.get(name="tiny-train")
    TaskFactory(task_set=train, key="leak", repository="A/Held-Out")

    found = errors(source)["contamination"]
    assert "a/held-out" in found.sentence
    assert (found.configured, found.measured) == (0, 1)


def test_training_on_a_held_out_set_is_refused(source: str) -> None:
    broken = changed(source, lambda r: r["stages"][1].update(task_set="held_out"))

    assert errors(broken)["split"].pointer == "/stages/1/task_set"


def test_a_context_that_the_model_has_no_positions_for_is_refused(source: str) -> None:
    broken = changed(source, lambda r: r["model"].update(context_length=512))

    found = errors(broken)["model"]
    assert (found.configured, found.measured) == (512, 448)


def test_a_missing_task_set_says_how_to_import_one(source: str) -> None:
    broken = changed(source, lambda r: r["task_sets"].update(train="nothing"))

    assert "import it first" in errors(broken)["task_set"].sentence


def test_a_set_in_quarantine_is_refused(source: str) -> None:
    Task.objects.filter(task_set__name="tiny-train").update(quarantined_at=NOW)

    assert errors(source)["task_set"].pointer == "/task_sets/train"


def test_a_refused_launch_names_every_field_and_makes_no_run(source: str) -> None:
    broken = changed(
        source, lambda r: (r["task_sets"].update(train="nothing"), r["model"].update(path="/none"))
    )
    with pytest.raises(Invalid) as caught:
        launch_run(UserFactory(admin=True), ProjectFactory(), broken, now=NOW)

    assert {e.pointer for e in caught.value.errors} == {"/model/path", "/task_sets/train"}
    assert not Run.objects.exists()


def test_a_viewer_may_not_launch(source: str) -> None:
    viewer = MembershipFactory(role="viewer").user

    with pytest.raises(Forbidden):
        launch_run(viewer, ProjectFactory(), source, now=NOW)


def test_missing_workers_are_a_warning_not_a_refusal(source: str) -> None:
    from runs.models import Worker

    Worker.objects.all().delete()
    checks = preflight(ProjectFactory(), source)

    assert [c.level for c in checks if c.name == "workers"] == ["warning"] * 3

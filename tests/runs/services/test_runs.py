"""Clones, starts from a checkpoint, and checkpoints on demand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from controlplane.blobs import BlobStore
from controlplane.errors import Conflict, Forbidden, Invalid, NotFound
from runs.models import Checkpoint, Event, Run, WeightVersion
from runs.services import weights
from runs.services.engines import engine_orders
from runs.services.preflight import preflight
from runs.services.runs import finish_run, launch_run, pause_run, request_checkpoint
from tests.factories import (
    NOW,
    CheckpointFactory,
    MembershipFactory,
    ProjectFactory,
    RunFactory,
    StageFactory,
    UserFactory,
    WeightVersionFactory,
)
from tests.runs.lab import Lab
from tests.scenario import launchable_recipe

pytestmark = pytest.mark.django_db

BLOB = "p1/weights/kept"


@pytest.fixture
def source(tmp_path: Path) -> str:
    return launchable_recipe(ProjectFactory(), tmp_path)


@pytest.fixture
def checkpoint(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    """A complete one of a finished run of the same recipe; its weights are in the blob store."""
    monkeypatch.setattr(settings, "BLOB_URL", f"file://{tmp_path}/blobs")
    BlobStore(settings.BLOB_URL).put(f"{BLOB}/manifest.json", b"{}")
    run = RunFactory(recipe_source=source, succeeded=True)
    WeightVersionFactory(run=run, version=7, blob=BLOB)
    found: Checkpoint = CheckpointFactory(
        stage=StageFactory(run=run, name="rl-training"), step=40, weight_version=7
    )
    return found


def launch(source: str, **options: Any) -> Run:
    return launch_run(UserFactory(admin=True), ProjectFactory(), source, now=NOW, **options)


def refusal(source: str, checkpoint: int) -> str:
    checks = preflight(ProjectFactory(), source, from_checkpoint=checkpoint)
    (error,) = [check for check in checks if check.level == "error"]
    assert error.remedy
    return error.sentence


def test_a_run_from_a_checkpoint_starts_with_its_weights(
    source: str, checkpoint: Checkpoint
) -> None:
    run = launch(source, from_checkpoint=checkpoint.pk)

    assert run.cloned_from == checkpoint.run
    assert run.from_checkpoint == checkpoint
    assert run.weight_version == 0
    start = WeightVersion.objects.get(run=run)
    assert (start.version, start.parent_version, start.blob) == (0, None, BLOB)
    assert (
        "starting from the weights of checkpoint at step 40" in Event.objects.get(run=run).sentence
    )


def test_its_engines_and_its_trainer_are_given_these_weights(checkpoint: Checkpoint) -> None:
    lab = Lab()
    weights.start_from(lab.run, WeightVersion.objects.get(blob=BLOB), now=NOW)
    lab.begin("rl")

    assert lab.claim_training().weights == BLOB
    assert lab.engine.lease_token is not None
    assert engine_orders(lab.engine.pk, lab.engine.lease_token, None).weights == BLOB


def test_a_clone_names_its_parent_and_begins_with_the_recipes_model(source: str) -> None:
    parent = RunFactory(recipe_source=source)

    run = launch(source, from_run=parent.pk)

    assert (run.cloned_from, run.from_checkpoint) == (parent, None)
    assert not WeightVersion.objects.filter(run=run).exists()


def test_a_run_of_another_project_cannot_be_cloned(source: str) -> None:
    theirs = RunFactory(project=ProjectFactory(slug="theirs"))

    with pytest.raises(NotFound):
        launch(source, from_run=theirs.pk)


def test_the_same_key_with_another_checkpoint_is_a_conflict(
    source: str, checkpoint: Checkpoint
) -> None:
    first = launch(source, from_checkpoint=checkpoint.pk, idempotency_key="k")

    assert launch(source, from_checkpoint=checkpoint.pk, idempotency_key="k") == first
    with pytest.raises(Conflict):
        launch(source, idempotency_key="k")


@pytest.mark.parametrize(
    ("status", "words"),
    [("pruned", "It was pruned"), ("corrupt", "set aside"), ("writing", "still being written")],
)
def test_a_checkpoint_that_is_not_whole_starts_nothing(
    source: str, checkpoint: Checkpoint, status: str, words: str
) -> None:
    Checkpoint.objects.update(status=status)

    assert words in refusal(source, checkpoint.pk)
    with pytest.raises(Invalid) as caught:
        launch(source, from_checkpoint=checkpoint.pk)
    assert [error.pointer for error in caught.value.errors] == ["/from_checkpoint"]
    assert Run.objects.count() == 1


def test_weights_that_are_gone_start_nothing(source: str, checkpoint: Checkpoint) -> None:
    BlobStore(settings.BLOB_URL).delete(BLOB)
    assert "not in the blob store" in refusal(source, checkpoint.pk)

    WeightVersion.objects.update(pruned_at=NOW)
    assert "weights were pruned" in refusal(source, checkpoint.pk)


def test_a_checkpoint_of_another_model_or_project_starts_nothing(
    source: str, checkpoint: Checkpoint
) -> None:
    Run.objects.update(recipe={**checkpoint.run.recipe, "model": {"path": "/another"}})
    assert "another model" in refusal(source, checkpoint.pk)

    Run.objects.update(project=ProjectFactory(slug="theirs"))
    assert f"no checkpoint {checkpoint.pk}" in refusal(source, checkpoint.pk)


def test_weights_that_two_runs_name_go_with_the_last_of_them(
    checkpoint: Checkpoint,
) -> None:
    lab = Lab()
    weights.start_from(lab.run, WeightVersion.objects.get(blob=BLOB), now=NOW)
    lab.begin("rl")
    for version in range(1, weights.KEEP_WEIGHTS + 2):
        WeightVersionFactory(run=lab.run, version=version, blob=f"own/{version}")
    plan = lab.claim_training()
    lab.run.stages.update(weight_version=None)

    assert weights.prune_weights(plan.stage_id, plan.token, now=NOW) == ["own/1"]
    assert WeightVersion.objects.get(run=lab.run, version=0).pruned_at == NOW
    WeightVersion.objects.filter(run=checkpoint.run).update(pruned_at=NOW)
    WeightVersion.objects.filter(run=lab.run, version=0).update(pruned_at=None)
    assert weights.prune_weights(plan.stage_id, plan.token, now=NOW) == [BLOB]


# Checkpoint now


def ask(run: Run, **changes: Any) -> None:
    given: dict[str, Any] = {"actor": UserFactory(admin=True), "reason": "before lunch", "now": NOW}
    request_checkpoint(run, **given | changes)
    run.refresh_from_db()


def test_a_checkpoint_is_asked_for_with_a_reason_and_its_writing_says_so() -> None:
    lab = Lab()
    lab.begin("rl")
    plan = lab.claim_training()

    ask(lab.run)
    assert lab.run.checkpoint_asked_at == NOW
    assert "before lunch" in Event.objects.get(kind="checkpoint_asked").sentence
    assert weights.is_checkpoint_asked(lab.run.pk)

    weights.record_checkpoint(
        plan.stage_id, plan.token, blob="b", num_bytes=1, step=3, keep=2, now=NOW
    )
    assert Run.objects.get(pk=lab.run.pk).checkpoint_asked_at is None
    assert "step 3" in Event.objects.get(kind="checkpoint_written").sentence


def test_a_checkpoint_by_interval_says_nothing() -> None:
    lab = Lab()
    lab.begin("rl")
    plan = lab.claim_training()
    weights.record_checkpoint(
        plan.stage_id, plan.token, blob="b", num_bytes=1, step=3, keep=2, now=NOW
    )

    assert not Event.objects.filter(kind="checkpoint_written").exists()


def test_a_second_request_and_one_without_a_trainer_are_conflicts() -> None:
    lab = Lab()
    lab.begin("rl")
    ask(lab.run)

    with pytest.raises(Conflict, match="already"):
        ask(lab.run)
    with pytest.raises(Conflict, match="no trainer"):
        ask(RunFactory(succeeded=True))


def test_a_paused_run_with_nothing_new_says_so() -> None:
    lab = Lab()
    lab.begin("rl")
    pause_run(lab.run, actor=UserFactory(admin=True), reason="tea", now=NOW)

    with pytest.raises(Conflict, match="nothing to save"):
        ask(lab.run)


def test_a_viewer_may_not_ask() -> None:
    run = RunFactory()
    viewer = MembershipFactory(project=run.project, role="viewer").user

    with pytest.raises(Forbidden):
        ask(run, actor=viewer)


def test_a_run_that_ends_owes_no_checkpoint() -> None:
    lab = Lab()
    lab.begin("rl")
    ask(lab.run)

    finish_run(lab.run, "failed", now=NOW, sentence="It broke.")
    lab.run.refresh_from_db()

    assert lab.run.checkpoint_asked_at is None

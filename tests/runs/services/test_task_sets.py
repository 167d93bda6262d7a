from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from controlplane.accounts.models import AuditEntry, Role
from controlplane.blobs import BlobStore
from controlplane.errors import Conflict, Forbidden, Invalid, NotFound
from runs.models import Task, TaskSet
from runs.selectors.task_sets import usable_tasks
from runs.services.task_sets import import_task_set, quarantine_task, release_task
from tests import factories
from tests.factories import NOW, ProjectFactory
from tests.scenario import member

pytestmark = pytest.mark.django_db


def write_task(folder: Path, key: str, *, repository: str = "owner/repo") -> Path:
    task = folder / key
    for name, text in {
        "instruction.md": "Fix it.",
        "task.toml": f'[metadata]\nrepository = "{repository}"\n[verifier]\ntimeout_sec = 9.0\n',
        "environment/workspace/m.py": "x = 1\n",
        "tests/test.sh": "exit 0\n",
    }.items():
        path = task / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return task


def load(folder: Path, blobs: Path, name: str = "set") -> TaskSet:
    return import_task_set(
        ProjectFactory(),
        BlobStore(f"file://{blobs}"),
        name=name,
        split="train",
        directory=folder,
        now=NOW,
    )


def test_a_folder_of_tasks_becomes_a_set_with_one_archive_a_task(tmp_path: Path) -> None:
    write_task(tmp_path / "in", "one")
    write_task(tmp_path / "in", "two", repository="owner/other")
    task_set = load(tmp_path / "in", tmp_path / "blobs")

    assert (task_set.version, task_set.num_tasks) == (1, 2)
    task = Task.objects.get(key="two")
    assert (task.repository, task.verify_timeout_s) == ("owner/other", 9.0)
    data = BlobStore(f"file://{tmp_path / 'blobs'}").get(task.archive)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert "environment/workspace/m.py" in tar.getnames()


def test_the_same_content_is_the_same_version_and_other_content_the_next(tmp_path: Path) -> None:
    task = write_task(tmp_path / "in", "one")
    first = load(tmp_path / "in", tmp_path / "blobs")
    os.utime(task / "instruction.md", (1, 1))
    assert load(tmp_path / "in", tmp_path / "blobs") == first
    (task / "instruction.md").write_text("Fix it well.")

    assert load(tmp_path / "in", tmp_path / "blobs").version == 2


@pytest.mark.parametrize(
    "missing", ["instruction.md", "task.toml", "environment/workspace/m.py", "tests/test.sh"]
)
def test_every_wrong_task_is_named_and_nothing_is_imported(tmp_path: Path, missing: str) -> None:
    write_task(tmp_path / "in", "good")
    broken = write_task(tmp_path / "in", "broken")
    (broken / missing).unlink()
    if missing.startswith("environment"):
        (broken / "environment" / "workspace").rmdir()

    with pytest.raises(Invalid) as caught:
        load(tmp_path / "in", tmp_path / "blobs")
    assert [error.pointer for error in caught.value.errors] == ["/broken"]
    assert not TaskSet.objects.exists()


def test_a_task_without_a_repository_cannot_be_checked_for_contamination(tmp_path: Path) -> None:
    task = write_task(tmp_path / "in", "one")
    (task / "task.toml").write_text("[metadata]\n")

    with pytest.raises(Invalid, match="cannot be imported") as caught:
        load(tmp_path / "in", tmp_path / "blobs")
    assert "repository is missing" in caught.value.errors[0].message


def test_a_link_out_of_the_task_is_refused(tmp_path: Path) -> None:
    task = write_task(tmp_path / "in", "one")
    (task / "environment" / "workspace" / "secret").symlink_to("/etc/shadow")

    with pytest.raises(Invalid):
        load(tmp_path / "in", tmp_path / "blobs")


def test_a_person_takes_a_task_out_and_lets_it_back_in_with_a_reason() -> None:
    task = factories.TaskFactory()
    actor = member(Role.OPERATOR, task.task_set.project)

    quarantine_task(task.pk, actor=actor, reason="flaky tests", now=NOW)
    task.refresh_from_db()
    assert task.quarantined_at == NOW
    assert task.quarantine_reason == f"flaky tests ({actor})"
    assert not usable_tasks(task.task_set).exists()
    with pytest.raises(Conflict):
        quarantine_task(task.pk, actor=actor, reason="again", now=NOW)

    release_task(task.pk, actor=actor, reason="mended", now=NOW)
    task.refresh_from_db()
    assert (task.quarantined_at, task.quarantine_reason) == (None, "")
    with pytest.raises(Conflict):
        release_task(task.pk, actor=actor, reason="again", now=NOW)

    entries = AuditEntry.objects.order_by("id").values_list("action", "details__reason")
    assert list(entries) == [("task.quarantine", "flaky tests"), ("task.release", "mended")]


def test_a_viewer_may_not_quarantine_and_a_stranger_does_not_know_of_the_task() -> None:
    task = factories.TaskFactory()
    viewer = member(Role.VIEWER, task.task_set.project)
    stranger = member(Role.ADMIN, factories.ProjectFactory(slug="theirs"))

    with pytest.raises(Forbidden):
        quarantine_task(task.pk, actor=viewer, reason="r", now=NOW)
    with pytest.raises(NotFound):
        quarantine_task(task.pk, actor=stranger, reason="r", now=NOW)
    with pytest.raises(NotFound):
        release_task(task.pk + 1, actor=viewer, reason="r", now=NOW)

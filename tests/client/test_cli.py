"""The `longtail` command against the real application."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.accounts.models import Role
from controlplane.accounts.services.tokens import issue_token
from longtail_client.cli import plain
from runs.models import Run
from tests import factories
from tests.factories import NOW
from tests.scenario import launchable_recipe, member
from tests.serving import serve

CLIENT = Path(__file__).parents[2] / "client"


class Shell:
    """Runs `longtail` as a process of its own, with one operator's token."""

    def __init__(self, address: str) -> None:
        self.project = factories.ProjectFactory()
        operator = member(Role.OPERATOR, self.project)
        _, self.token = issue_token(operator, self.project, name="cli", role=Role.OPERATOR, now=NOW)
        self.url = f"http://{address}"

    def __call__(
        self, *words: str | int | Path, stdin: str = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        secrets = {"LONGTAIL_URL": self.url, "LONGTAIL_TOKEN": self.token}
        return subprocess.run(
            [
                sys.executable,
                "-c",
                "from longtail_client.cli import main; main()",
                *map(str, words),
            ],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(CLIENT), **secrets, **environment},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def json(self, *words: str | int) -> Any:
        done = self(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def longtail(transactional_db: None, services: None) -> Iterator[Shell]:
    with serve() as address:
        yield Shell(address)


def test_a_run_is_launched_read_and_commanded(longtail: Shell, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(launchable_recipe(longtail.project, tmp_path))

    launched = longtail("runs", "launch", "-f", recipe, "--name", "mine")
    run = Run.objects.get()

    assert launched.returncode == 0, launched.stderr
    assert launched.stdout == f"Run {run.pk} (mine) is queued.\n"
    assert longtail.json("runs", "get", run.pk)["name"] == "mine"
    assert [row["id"] for row in longtail.json("runs", "ls")] == [run.pk]
    assert longtail("runs", "recipe", run.pk).stdout == run.recipe_source + "\n"
    assert longtail.json("runs", "checkpoints", run.pk) == []
    too_early = longtail("runs", "checkpoint", run.pk, "--reason", "before lunch")
    assert (too_early.returncode, too_early.stderr) == (
        2,
        "Refused (no_checkpoint_now): The run is queued: no trainer is at work.\n",
    )
    assert longtail.json("runs", "stop", run.pk, "--reason", "tea")["status"] == "cancelled"
    assert longtail.json("runs", "resume", run.pk)["status"] == "queued"
    refused = longtail("runs", "pause", run.pk)
    assert refused.returncode == 2
    assert "invalid_transition" in refused.stderr


def test_a_recipe_comes_from_standard_input_too(longtail: Shell, tmp_path: Path) -> None:
    source = launchable_recipe(longtail.project, tmp_path)

    done = longtail("preflight", "-f", "-", "--json", stdin=source)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["is_launchable"] is True


def test_a_preflight_with_an_error_ends_with_one(longtail: Shell, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(factories.RECIPE_SOURCE)

    done = longtail("preflight", "-f", recipe)

    assert done.returncode == 1
    assert "error" in done.stdout


def test_a_refusal_ends_with_two_and_names_the_field(longtail: Shell, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(factories.RECIPE_SOURCE.replace("turn_cap: 10", "turn_cap: 0"))

    done = longtail("runs", "launch", "-f", recipe)

    assert done.returncode == 2
    assert "recipe_invalid" in done.stderr
    assert "/agent/turn_cap" in done.stderr
    assert not Run.objects.exists()


@pytest.mark.parametrize(("trait", "code"), [("succeeded", 0), ("failed", 1), ("cancelled", 1)])
def test_watching_ends_as_the_run_did(longtail: Shell, trait: str, code: int) -> None:
    run = factories.RunFactory(**{trait: True})

    assert longtail("runs", "watch", run.pk).returncode == code


def test_wrong_usage_ends_with_two(longtail: Shell) -> None:
    assert longtail("runs", "get").returncode == 2
    assert longtail("runs", "launch", "-f", "/nowhere.yaml").returncode == 2
    missing = longtail("runs", "ls", LONGTAIL_TOKEN="")
    assert missing.returncode == 2
    assert "LONGTAIL_TOKEN" in missing.stderr


def test_a_token_that_is_not_valid_is_refused(longtail: Shell) -> None:
    done = longtail("runs", "ls", LONGTAIL_TOKEN="lt_0_guess")

    assert done.returncode == 2
    assert "authentication_failed" in done.stderr


def test_a_server_that_is_away_ends_with_three(longtail: Shell) -> None:
    done = longtail("runs", "ls", LONGTAIL_URL="http://127.0.0.1:1")

    assert done.returncode == 3


def test_trajectories_and_failures_are_listed_and_read(longtail: Shell) -> None:
    attempt = factories.AttemptFactory(completed=True, trajectory__completed=True)
    factories.TurnFactory(attempt=attempt, observation="\x1b]0;owned\x07 \x1b[31mred")
    factories.FailureGroupFactory(num_failures=2, kind="oom")
    factories.FailureGroupFactory(num_failures=9, kind="lost")

    listed = longtail.json("trajectories", "ls", "--run", attempt.run_id, "--reward", "gte:0.5")
    shown = longtail("trajectories", "get", attempt.trajectory_id, "--turns")

    assert [row["id"] for row in listed] == [attempt.trajectory_id]
    assert longtail.json("trajectories", "ls", "--invalid") == []
    assert [row["kind"] for row in longtail.json("failures", "top")] == ["lost", "oom"]
    assert "red" in shown.stdout
    assert "\x1b" not in shown.stdout
    assert "\x07" not in shown.stdout


def test_text_of_a_sandbox_cannot_command_the_terminal() -> None:
    hostile = "a\x1b[2Jb\rc\x9bd\x00e\u202ef\x7fg\n\th ü 漢"

    shown = plain(hostile)

    assert shown == "a␛[2Jb␍c�d␀e�f�g\n\th ü 漢"

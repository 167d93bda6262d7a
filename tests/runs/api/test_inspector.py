"""One attempt by parts: outline, texts, patch, verdict, tokens, log, ATIF, siblings."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django.fixtures import Settings
from rest_framework.test import APIClient

from controlplane.accounts.models import Role
from controlplane.blobs import BlobStore
from runs.models import Attempt, Turn
from runs.selectors.tokens import read_arrays
from tests import factories
from tests.factories import NOW
from tests.scenario import member
from tests.workers.trainer.builders import make_model_dir, make_trajectory
from workers.rl.arrays import TrajectoryArrays, encode

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> APIClient:
    found = APIClient()
    found.force_login(member(Role.VIEWER, factories.ProjectFactory()))
    return found


@pytest.fixture
def attempt() -> Attempt:
    trajectory = factories.TrajectoryFactory(completed=True)
    found: Attempt = factories.AttemptFactory(trajectory=trajectory, completed=True, number=1)
    return found


def get(client: APIClient, attempt: Attempt, path: str) -> Any:
    answer = client.get(f"/api/v1/trajectories/{attempt.trajectory_id}/{path}")
    assert answer.status_code == 200, answer.content
    return answer.json()


def say(attempt: Attempt, *commands: str, **fields: Any) -> None:
    for index, command in enumerate(commands):
        factories.TurnFactory(
            attempt=attempt, index=index, command=command, action=command, **fields
        )


# Outline


def test_the_outline_says_where_to_look_first(client: APIClient, attempt: Attempt) -> None:
    say(
        attempt,
        "ls src 2>&1",
        "cat a.py > /dev/null",
        "sed -i 's/a/b/' a.py",
        "ls src 2>&1",
        "python -m pytest -q",
        "",
        "ls src 2>&1",
        "submit",
    )
    Turn.objects.filter(index=1).update(exit_code=1)
    Turn.objects.filter(index=2).update(is_timed_out=True, exit_code=124)
    Turn.objects.filter(index=4).update(truncated_bytes=10)
    Turn.objects.filter(index=5).update(action="I think", finish_reason="length")
    found = get(client, attempt, "skeleton")

    assert (found["first_edit"], found["first_test"], found["submit"]) == (2, 4, 7)
    assert (found["errors"], found["timeouts"], found["cut"]) == ([1, 2], [2], [4, 5])
    assert (found["no_action"], found["repeated"]) == ([5], [3, 6])
    assert found["repeats"] == [{"command": "ls src 2>&1", "turns": [0, 3, 6]}]
    assert found["turns"]["preview"][5] == "I think"


def test_the_outline_of_ten_thousand_turns_is_below_a_megabyte(
    client: APIClient, attempt: Attempt
) -> None:
    turns = [
        factories.TurnFactory.build(
            attempt=attempt,
            index=index,
            command=f"\x1b[31m\u200b{index} " + "漢\x01" * 300,
            started_at=NOW + timedelta(seconds=index * 1.234),
            llm_s=1.23456789,
            prompt_tokens=60_000,
        )
        for index in range(10_000)
    ]
    Turn.objects.bulk_create(turns)
    answer = client.get(f"/api/v1/trajectories/{attempt.trajectory_id}/skeleton")

    assert len(answer.content) < 1_000_000
    assert len(answer.json()["turns"]["index"]) == 10_000


def test_the_outline_is_that_of_the_attempt_that_was_asked_for(
    client: APIClient, attempt: Attempt
) -> None:
    second = factories.AttemptFactory(trajectory=attempt.trajectory, failed=True, number=2)
    say(attempt, "ls")
    say(second, "a", "b")

    assert len(get(client, attempt, "skeleton")["turns"]["index"]) == 2
    assert len(get(client, attempt, "skeleton?attempt=1")["turns"]["index"]) == 1
    missing = client.get(f"/api/v1/trajectories/{attempt.trajectory_id}/skeleton?attempt=3")
    assert missing.status_code == 404


# Texts


def test_a_body_of_a_megabyte_is_cut_says_so_and_is_loaded_by_parts(
    client: APIClient, attempt: Attempt
) -> None:
    whole = "".join(chr(0x4E00 + i % 1000) for i in range(1_000_000))
    say(attempt, "cat big", observation=whole)
    (turn,) = get(client, attempt, "turns")["results"]

    assert turn["observation_length"] == 1_000_000
    loaded = turn["observation"]
    assert len(loaded) == 65_536
    while len(loaded) < turn["observation_length"]:
        path = f"turns/0/text?part=observation&from={len(loaded)}"
        part = get(client, attempt, path)
        assert (part["start"], part["length"]) == (len(loaded), 1_000_000)
        loaded += part["text"]
    assert loaded == whole


def test_a_range_of_a_body_is_what_was_asked_for(client: APIClient, attempt: Attempt) -> None:
    say(attempt, "abcdefgh")

    assert get(client, attempt, "turns/0/text?part=command&from=2&to=5")["text"] == "cde"
    assert get(client, attempt, "turns/0/text?part=command&from=5&to=2")["text"] == ""
    assert get(client, attempt, "turns/0/text?part=command&from=99")["text"] == ""
    url = f"/api/v1/trajectories/{attempt.trajectory_id}/turns/7/text?part=command"
    assert client.get(url).status_code == 404


# Verdict and patch


def test_named_tests_and_counts_of_a_grade_are_checks(client: APIClient, attempt: Attempt) -> None:
    attempt.grade = {
        "details": {
            "fail_to_pass:test_adds": True,
            "P2P/test_old": False,
            "pass_to_pass_passed": 11,
            "pass_to_pass_total": 12,
            "visible_tests": 18,
            "visible_passed": 16,
            "note": "<b>\x1b[31m",
        },
        "output": "ok\n",
        "duration_s": 0.5,
    }
    attempt.save()
    found = get(client, attempt, "tests")

    assert [
        (c["kind"], c["name"], c["passed"], c["total"], c["value"]) for c in found["checks"]
    ] == [
        ("fail_to_pass", "test_adds", 1, 1, None),
        ("pass_to_pass", "test_old", 0, 1, None),
        ("pass_to_pass", "tests", 11, 12, None),
        ("other", "note", None, None, "<b>\x1b[31m"),
        ("other", "visible", 16, 18, None),
    ]
    assert (found["is_graded"], found["duration_s"], found["output"]) == (True, 0.5, "ok\n")


def test_the_patch_is_as_it_was_graded(client: APIClient, attempt: Attempt) -> None:
    attempt.patch, attempt.is_patch_cut = "--- a/x\n+++ b/x\n", True
    attempt.save()
    found = get(client, attempt, "patch")

    assert (found["patch"], found["is_cut"]) == ("--- a/x\n+++ b/x\n", True)


# Log


def lines(answer: dict[str, Any]) -> list[tuple[int, int | None, str, str]]:
    return [(row["number"], row["turn"], row["part"], row["text"]) for row in answer["lines"]]


@pytest.fixture
def logged(attempt: Attempt) -> Attempt:
    say(attempt, "ls\ncat x", "make", observation="one\n\ntwo\n")
    Turn.objects.filter(index=1).update(observation="cut", log="\x1b[31mTwo\x1b[0m\nthree")
    attempt.grade = {"output": "1 failed\ntwo (again)\n"}
    attempt.save()
    return attempt


def test_the_log_numbers_every_line_of_commands_outputs_and_verifier(
    client: APIClient, logged: Attempt
) -> None:
    found = get(client, logged, "log")

    assert found["total"] == 10
    assert lines(found) == [
        (1, 0, "command", "ls"),
        (2, 0, "command", "cat x"),
        (3, 0, "output", "one"),
        (4, 0, "output", ""),
        (5, 0, "output", "two"),
        (6, 1, "command", "make"),
        (7, 1, "output", "\x1b[31mTwo\x1b[0m"),
        (8, 1, "output", "three"),
        (9, None, "verifier", "1 failed"),
        (10, None, "verifier", "two (again)"),
    ]
    assert lines(get(client, logged, "log?from=8&limit=2")) == lines(found)[7:9]
    assert get(client, logged, "log?from=99")["lines"] == []
    assert get(client, logged, "log?from=99")["total"] == 10


def test_a_search_counts_every_hit_whatever_page_is_asked_for(
    client: APIClient, logged: Attempt
) -> None:
    found = get(client, logged, "log?q=two&limit=1&from=6")
    assert (found["num_hits"], [line[0] for line in lines(found)]) == (3, [7])
    literal = get(client, logged, "log?q=(again)")
    assert [line[0] for line in lines(literal)] == [10]
    pattern = get(client, logged, "log?q=^t(wo|hree)&regex=true")
    assert [line[0] for line in lines(pattern)] == [5, 8, 10]
    assert get(client, logged, "log?q=nothing%25like_it")["num_hits"] == 0


@pytest.mark.parametrize("pattern", ["(", "a{9999}", "[b-a]"])
def test_a_pattern_that_is_none_is_refused(
    client: APIClient, logged: Attempt, pattern: str
) -> None:
    url = f"/api/v1/trajectories/{logged.trajectory_id}/log"
    answer = client.get(url, {"q": pattern, "regex": "true"})

    assert answer.status_code == 422


def test_a_pattern_made_to_be_slow_is_stopped_and_said(
    client: APIClient, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runs.selectors.attempt_log.SEARCH_MS", 1)
    say(attempt, "x", observation=("a" * 200 + "\n") * 3_000)
    url = f"/api/v1/trajectories/{attempt.trajectory_id}/log"
    answer = client.get(url, {"q": r"(a*)*\1(a*)*b", "regex": "true"})

    assert answer.status_code == 422
    assert "too long" in answer.json()["title"]


def test_a_line_of_a_megabyte_is_cut_and_says_where_the_rest_is(
    client: APIClient, attempt: Attempt
) -> None:
    say(attempt, "cat", observation="first\n" + "x" * 1_000_000 + "end")
    (line,) = get(client, attempt, "log?q=end")["lines"]

    assert (line["number"], len(line["text"]), line["length"]) == (3, 4_000, 1_000_003)
    begin = line["start"] + line["length"] - 3
    path = f"turns/{line['turn']}/text?part={line['source']}&from={begin}"
    assert get(client, attempt, path)["text"] == "end"


# Tokens


@pytest.fixture
def sampled(
    attempt: Attempt, tmp_path: Path, settings: Settings
) -> tuple[Attempt, TrajectoryArrays]:
    settings.BLOB_URL = f"file://{tmp_path}/blobs"
    model = make_model_dir(tmp_path / "model")
    attempt.run.recipe = {**attempt.run.recipe, "model": {"path": str(model)}}
    attempt.run.save()
    arrays = make_trajectory(np.random.default_rng(3), 2, 60)
    BlobStore(settings.BLOB_URL).put("a", encode(arrays))
    attempt.blob = "a"
    attempt.save()
    read_arrays.cache_clear()
    return attempt, arrays


def test_tokens_carry_mask_log_probs_and_versions_in_their_places(
    client: APIClient, sampled: tuple[Attempt, TrajectoryArrays]
) -> None:
    attempt, arrays = sampled
    found = get(client, attempt, "tokens?from=10&to=30")

    assert (found["length"], found["start"], len(found["ids"])) == (60, 10, 20)
    assert found["ids"] == arrays.tokens[10:30].tolist()
    assert found["mask"] == arrays.mask[10:30].tolist()
    for i, is_sampled in enumerate(found["mask"]):
        given = (found["logprobs"][i], found["versions"][i])
        if is_sampled:
            assert given == (pytest.approx(float(arrays.logprobs[10 + i]), abs=1e-4), 2)
        else:
            assert given == (None, None)
    assert found["num_sampled"] == int(arrays.mask.sum())
    assert all(arrays.mask[at] == 1 and arrays.mask[at - 1] == 0 for at in found["turn_starts"])
    assert len(found["pieces"]) == 20
    assert found["trainer"] is None
    assert "No step has trained on it" in found["notes"][0]


def test_the_trainers_log_probs_lie_beside_the_engines(
    client: APIClient, sampled: tuple[Attempt, TrajectoryArrays], settings: Settings
) -> None:
    attempt, arrays = sampled
    trained = arrays.logprobs[arrays.mask == 1] + np.float32(0.25)
    BlobStore(settings.BLOB_URL).put("a.logprobs-1", trained.astype("<f4").tobytes())
    step = factories.StepFactory(stage=attempt.stage, done=True, index=7)
    superseded = factories.StepFactory(stage=attempt.stage, status="superseded", index=9)
    for each, key in ((step, "a.logprobs-1"), (superseded, "other")):
        factories.ConsumptionFactory(step=each, trajectory=attempt.trajectory, logprobs=key)
    found = get(client, attempt, "tokens")

    gaps = [
        t - m
        for t, m, kept in zip(found["trainer"], found["logprobs"], found["mask"], strict=True)
        if kept
    ]
    assert gaps == [pytest.approx(0.25, abs=1e-3)] * len(gaps)
    assert (found["step"], found["notes"]) == (7, [])
    assert found["gap_mean"] == pytest.approx(0.25, abs=1e-3)


def test_log_probs_that_do_not_fit_the_tokens_are_not_shown(
    client: APIClient, sampled: tuple[Attempt, TrajectoryArrays], settings: Settings
) -> None:
    attempt, _ = sampled
    BlobStore(settings.BLOB_URL).put("short", b"\0" * 8)
    step = factories.StepFactory(stage=attempt.stage, done=True)
    factories.ConsumptionFactory(step=step, trajectory=attempt.trajectory, logprobs="short")
    found = get(client, attempt, "tokens")

    assert found["trainer"] is None
    assert "were not kept" in found["notes"][0]


def test_without_its_tokenizer_there_are_ids_and_the_reason(
    client: APIClient, sampled: tuple[Attempt, TrajectoryArrays], tmp_path: Path
) -> None:
    (tmp_path / "model" / "tokenizer.json").unlink()
    found = get(client, sampled[0], "tokens?to=5")

    assert (found["pieces"], len(found["ids"])) == (None, 5)
    assert any("Ids only" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(None, "gone from the blob store"), (b"LTA1nonsense", "corrupt")],
)
def test_tokens_that_cannot_be_read_are_said(
    client: APIClient,
    sampled: tuple[Attempt, TrajectoryArrays],
    tmp_path: Path,
    content: bytes | None,
    sentence: str,
) -> None:
    file = tmp_path / "blobs" / "a"
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    found = get(client, sampled[0], "tokens")

    assert found["length"] == 0
    assert sentence in found["notes"][0]


# ATIF

SAMPLE_FIELDS = {
    "trajectory": {"schema_version", "session_id", "trajectory_id", "agent", "steps", "notes",
                   "final_metrics", "extra"},
    "step": {"step_id", "timestamp", "source", "model_name", "message", "reasoning_content",
             "tool_calls", "observation", "metrics", "llm_call_count", "extra"},
    "metrics": {"prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd",
                "prompt_token_ids", "completion_token_ids", "logprobs", "extra"},
}  # fmt: skip


def test_an_atif_document_has_every_turn_and_only_fields_of_the_format(
    client: APIClient, sampled: tuple[Attempt, TrajectoryArrays]
) -> None:
    attempt, _ = sampled
    num_turns = len(get(client, attempt, "tokens")["turn_starts"])
    say(attempt, *[f"echo {i}" for i in range(num_turns - 1)], "submit", observation="\x1b[1m\n")
    Turn.objects.filter(command="submit").update(observation="")
    url = f"/api/v1/trajectories/{attempt.trajectory_id}/atif"
    answer = client.get(url)
    document = json.loads(answer.content)

    assert answer["Content-Disposition"].startswith("attachment;")
    assert document["schema_version"] == "ATIF-v1.7"
    assert set(document) <= SAMPLE_FIELDS["trajectory"]
    assert [step["step_id"] for step in document["steps"]] == list(range(1, num_turns + 2))
    user, *agent = document["steps"]
    assert (user["source"], user["message"]) == ("user", attempt.trajectory.task.instruction)
    for index, step in enumerate(agent):
        assert set(step) <= SAMPLE_FIELDS["step"]
        assert set(step["metrics"]) <= SAMPLE_FIELDS["metrics"]
        (call,) = step["tool_calls"]
        (result,) = step["observation"]["results"]
        assert result["source_call_id"] == call["tool_call_id"] == f"turn-{index}"
        assert call["arguments"]["command"] == step["message"]
    assert agent[0]["observation"]["results"][0]["content"] == "\x1b[1m\n"
    assert document["extra"]["reward"] == 1.0


def test_the_tokens_of_an_atif_document_put_together_are_the_blobs(
    client: APIClient, sampled: tuple[Attempt, TrajectoryArrays]
) -> None:
    attempt, arrays = sampled
    say(attempt, *["ls"] * len(get(client, attempt, "tokens")["turn_starts"]))
    document = get(client, attempt, "atif")
    ids: list[int] = []
    logprobs: list[float] = []
    for step in document["steps"][1:]:
        metrics = step["metrics"]
        ids += metrics["extra"]["new_prompt_token_ids"] + metrics["completion_token_ids"]
        logprobs += metrics["logprobs"]
        assert len(metrics["logprobs"]) == len(metrics["extra"]["weight_versions"])

    assert ids == arrays.tokens[: len(ids)].tolist()
    assert arrays.mask[len(ids) :].sum() == 0, "what is left was never read by the model"
    np.testing.assert_array_equal(np.array(logprobs, np.float32), arrays.logprobs[arrays.mask == 1])


# Around it


def test_siblings_are_the_whole_group_with_their_newest_attempts(
    client: APIClient, attempt: Attempt
) -> None:
    group = attempt.trajectory.group
    other = factories.TrajectoryFactory(group=group, failed=True)
    factories.AttemptFactory(trajectory=other, failed=True, number=1)
    factories.AttemptFactory(
        trajectory=other, failed=True, number=2, failure_class="oom", timings={"llm": 2.0}
    )
    waiting = factories.TrajectoryFactory(group=group)
    factories.TrajectoryFactory()
    found = get(client, attempt, "siblings")

    assert [row["id"] for row in found["members"]] == [attempt.trajectory_id, other.pk, waiting.pk]
    assert found["members"][1]["failure"]["kind"] == "oom"
    assert found["members"][1]["timings"] == {"llm": 2.0}
    assert (found["members"][2]["attempt_status"], found["members"][2]["reward"]) == (None, None)
    assert (found["group"], found["num_members"]) == (group.pk, group.num_members)


def test_the_sandboxes_of_all_its_attempts_are_listed(client: APIClient, attempt: Attempt) -> None:
    second = factories.AttemptFactory(trajectory=attempt.trajectory, failed=True, number=2)
    for each in (attempt, second):
        factories.SandboxFactory(project=attempt.run.project, attempt_id=each.pk)
    factories.SandboxFactory(project=attempt.run.project)
    rows = get(client, attempt, "sandboxes")["results"]

    assert [row["attempt"] for row in rows] == [2, 1]


@pytest.mark.parametrize(
    ("path", "most"),
    [
        ("skeleton", 2), ("turns", 2), ("turns/0/text", 2), ("patch", 1), ("tests", 1),
        ("tokens", 2), ("log", 4), ("atif", 2), ("siblings", 3), ("sandboxes", 2),
    ],
)  # fmt: skip
def test_a_part_costs_few_queries(
    client: APIClient, attempt: Attempt, path: str, most: int
) -> None:
    say(attempt, *["ls"] * 30)
    get(client, attempt, path)  # warm: content types, settings
    with CaptureQueriesContext(connection) as captured:
        get(client, attempt, path)
    own = [
        query["sql"]
        for query in captured
        if not any(name in query["sql"] for name in ("auth_user", "django_session", "accounts_"))
        and "SAVEPOINT" not in query["sql"]
    ]

    assert len(own) <= most, "\n".join(own)

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.workers.trainer.builders import CONTEXT, store, write_traces
from workers.engines.chat import load_chat
from workers.rl.arrays import TrajectoryArrays
from workers.trainer.batches import read_batch, read_traces


def trajectory(versions: list[int]) -> TrajectoryArrays:
    """One prompt token, then one trained token a version (-1: an observation)."""
    return TrajectoryArrays(
        tokens=np.arange(1 + len(versions), dtype=np.int32),
        mask=np.array([0, *(v >= 0 for v in versions)], np.uint8),
        logprobs=-np.arange(1 + len(versions), dtype=np.float32),
        versions=np.array([-1, *versions], np.int32),
    )


def test_columns_run_over_the_trained_tokens_of_all_trajectories(tmp_path: Path) -> None:
    rows = store(tmp_path, [trajectory([3, -1, 4]), trajectory([5])], [0.5, -1.0])
    batch = read_batch(rows, version=5, context_length=CONTEXT)
    assert batch.mu.tolist() == [-1, -3, -1]
    assert batch.lag.tolist() == [2, 1, 0]
    assert batch.document.tolist() == [0, 0, 1]
    assert batch.advantages.tolist() == [0.5, -1.0]
    assert batch.is_kept.tolist() == [True] * 3


def test_masked_trajectories_and_old_tokens_are_counted_but_not_kept(tmp_path: Path) -> None:
    rows = store(tmp_path, [trajectory([3, 4]), trajectory([4])], [1.0, -1.0])
    rows[1]["is_masked"] = True
    batch = read_batch(rows, version=5, context_length=CONTEXT, min_token_version=4)
    assert batch.is_kept.tolist() == [False, True, False]
    assert batch.document.tolist() == [0, 0, 1]


def test_a_batch_that_cannot_be_trained_is_refused_with_its_reason(tmp_path: Path) -> None:
    rows = store(tmp_path, [trajectory([6]), trajectory([0] * CONTEXT), trajectory([-1])], [1] * 3)
    for chosen, reason in (
        ([], "at least one trajectory"),
        (rows[:1], "sampled by weights 6, newer than the trainer's 5"),
        (rows[1:2], f"{CONTEXT + 1} tokens, the context holds {CONTEXT}"),
        (rows[2:], "no trajectory of the step has a trained token"),
    ):
        with pytest.raises(ValueError, match=reason):
            read_batch(chosen, version=5, context_length=CONTEXT)
    Path(rows[2]["url"].removeprefix("file://")).write_bytes(b"garbage")
    with pytest.raises(ValueError, match=r"2\.blob: not a trajectory blob"):
        read_batch(rows[2:], version=5, context_length=CONTEXT)
    with pytest.raises(FileNotFoundError):
        read_batch([{"url": f"{tmp_path}/none", "advantage": 1}], version=0, context_length=9)


def test_a_trace_weighs_its_actions_fully_and_the_rest_as_asked(
    model_dir: Path, tmp_path: Path
) -> None:
    chat = load_chat(model_dir)
    file = write_traces(tmp_path / "traces.jsonl", 1)
    traces = read_traces(str(file), chat, context_length=CONTEXT, observation_weight=0.25)
    prompt, observation = chat.prompt("", "list a"), chat.observation("no")
    first, second = chat.action("ls a"), chat.action("submit")
    document = traces.documents[0]
    assert document.tokens.tolist() == [*prompt, *first, *observation, *second]
    assert document.positions.tolist() == list(range(1, len(document.tokens)))
    assert traces.weights.tolist() == [
        *([0.25] * (len(prompt) - 1)),
        *([1.0] * len(first)),
        *([0.25] * len(observation)),
        *([1.0] * len(second)),
    ]


def test_without_observation_weight_only_actions_are_trained(
    model_dir: Path, tmp_path: Path
) -> None:
    chat = load_chat(model_dir)
    file = write_traces(tmp_path / "traces.jsonl", 1)
    traces = read_traces(str(file), chat, context_length=20, observation_weight=0.0)
    assert traces.num_truncated == 1
    assert traces.documents[0].tokens[traces.documents[0].positions].tolist() == [
        *chat.action("ls a"),
        *chat.action("submit")[: 20 - len(chat.prompt("", "list a") + chat.action("ls a no")) - 2],
    ]


def test_a_line_that_is_no_trace_is_named(model_dir: Path, tmp_path: Path) -> None:
    file = write_traces(tmp_path / "traces.jsonl", 2)
    file.write_text(file.read_text() + json.dumps({"instruction": "x", "turns": [{}]}) + "\n")
    with pytest.raises(
        ValueError, match=r"traces\.jsonl, line 3 is no trace: KeyError\('action'\)"
    ):
        read_traces(str(file), load_chat(model_dir), context_length=CONTEXT, observation_weight=0.0)

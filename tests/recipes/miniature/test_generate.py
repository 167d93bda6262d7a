"""The generator: deterministic, disjoint, and nothing of a held-out task where it could be learned."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from itertools import combinations
from pathlib import Path

import pytest

from recipes.miniature.__main__ import (
    NUM_HELD_OUT,
    TURN_CAP,
    draw_split,
    draw_trace_tasks,
    generate,
)
from recipes.miniature.base_model import train_tokenizer, write_base_model
from recipes.miniature.families import SPLITS, function_shapes, load_families, shared_functions
from recipes.miniature.tasks import MAX_CANDIDATES, MIN_CANDIDATES, Task
from recipes.miniature.traces import Trace, try_answer
from workers.engines.chat import load_chat
from workers.engines.reference.model import load_model

HELD_OUT_SHA256 = "87ce4f39f4444de0b99beacd4b194e5cda2efbbd026c7be5e8407b68ca8822d9"
"""The held-out tasks were drawn once, before any policy was measured on them. They never change."""


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("seed-1")
    generate(1, out)
    return out


@pytest.fixture(scope="module")
def splits() -> dict[str, list[Task]]:
    return {split: draw_split(split, seed=1) for split in SPLITS}


@pytest.fixture(scope="module")
def held_out(splits: dict[str, list[Task]]) -> list[Task]:
    return splits["held_out"]


@pytest.fixture(scope="module")
def traces(generated: Path) -> list[Trace]:
    return [json.loads(line) for line in (generated / "traces.jsonl").read_text().splitlines()]


def test_the_same_seed_writes_the_same_bytes(generated: Path, tmp_path: Path) -> None:
    again = generate(1, tmp_path)
    assert again == json.loads((generated / "manifest.json").read_text())


def test_another_seed_changes_the_training_tasks_and_traces_only() -> None:
    for split in ("held_out", "validation"):
        assert [t.key for t in draw_split(split, 1)] == [t.key for t in draw_split(split, 2)]
        assert [t.source for t in draw_split(split, 1)] == [t.source for t in draw_split(split, 2)]
    assert not {t.source for t in draw_split("train", 1)} & {
        t.source for t in draw_split("train", 2)
    }


def test_another_seed_gives_another_model(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["one two"])
    for seed in (1, 2):
        write_base_model(tokenizer, seed, tmp_path / str(seed))
    one, two = ((tmp_path / str(seed) / "model.safetensors").read_bytes() for seed in (1, 2))
    assert one != two


def test_the_held_out_tasks_are_those_that_were_drawn_once(held_out: list[Task]) -> None:
    text = "".join(f"{t.key} {t.fix}\n{t.source}" for t in sorted(held_out, key=lambda t: t.key))
    assert len({t.key for t in held_out}) == NUM_HELD_OUT == 48
    assert sha256(text.encode()).hexdigest() == HELD_OUT_SHA256


def test_no_family_and_no_function_is_in_two_splits() -> None:
    for one, two in combinations(SPLITS, 2):
        assert not shared_functions(one, two)
        assert not {f.name for f in load_families(one)} & {f.name for f in load_families(two)}


def test_a_renamed_copy_of_a_function_has_the_same_shape() -> None:
    one = "def clamp(x, lo):\n    if x < lo:\n        return lo\n    return x\n"
    two = (
        "def bound(value, least):\n    if value < least:\n        return least\n    return value\n"
    )
    assert function_shapes(one) == function_shapes(two)
    assert function_shapes(one) != function_shapes(two.replace("<", "<="))


def test_task_directories_name_their_repository_and_split_families(generated: Path) -> None:
    names = {split: {f.name for f in load_families(split)} for split in SPLITS}
    for split in SPLITS:
        for folder in (generated / "tasks" / split).iterdir():
            toml = (folder / "task.toml").read_text()
            metadata = dict(re.findall(r'^(repository|family) = "(.+)"$', toml, re.MULTILINE))
            assert metadata["repository"].startswith(metadata["family"])
            assert metadata["family"] in names[split]
            assert 'setup = ". .tools/setup.sh"' in toml


def test_the_agent_never_sees_which_edit_repairs(generated: Path) -> None:
    environment = next((generated / "tasks" / "held_out").iterdir()) / "environment"
    files = {str(p.relative_to(environment)) for p in environment.rglob("*") if p.is_file()}
    tools = ("check.py", "setup.sh", "original.py", "edits.txt", "listing.txt")
    assert files == {
        "Dockerfile",
        "workspace/m.py",
        "workspace/test.sh",
        "workspace/tests.txt",
        *(f"workspace/.tools/{name}" for name in tools),
    }


def test_exactly_the_fix_restores_the_module(held_out: list[Task]) -> None:
    for task in held_out:
        assert MIN_CANDIDATES <= len(task.candidates) <= MAX_CANDIDATES
        assert len(set(task.candidates)) == len(task.candidates)
        assert task.candidates[task.fix].apply(task.source) == task.repository.source
        assert task.outcome(task.fix) == ("OK", 1.0)


def test_traces_come_from_training_families_and_from_no_repository_of_the_tasks(
    splits: dict[str, list[Task]], traces: list[Trace]
) -> None:
    own = {task.instruction for task in draw_trace_tasks(1)}
    assert {trace["instruction"] for trace in traces} == own
    assert {task.repository.split for task in draw_trace_tasks(1)} == {"train"}
    for tasks in splits.values():
        assert not own & {task.instruction for task in tasks}


def test_a_trace_is_what_the_tools_would_have_answered(traces: list[Trace]) -> None:
    for trace in traces:
        *tries, last = trace["turns"]
        assert last == {"action": "submit", "observation": ""}
        numbers = [int(turn["action"].removeprefix("try ")) - 1 for turn in tries]
        for i, turn in enumerate(tries):
            result = turn["observation"].split(" tried ")[0]
            assert re.fullmatch(r"OK|timeout|FAILED \d+/\d+", result)
            assert turn["observation"] == try_answer(result, numbers[: i + 1])
        assert trace["reward"] == 0.0 or tries[-1]["observation"] == "OK"


def test_the_longest_trajectory_fits_the_context(
    generated: Path, splits: dict[str, list[Task]]
) -> None:
    chat = load_chat(generated / "model")
    context = load_model(generated / "model").config.max_positions
    for tasks in splits.values():
        for task in tasks:
            tokens = len(chat.prompt("", task.instruction))
            order = list(range(len(task.candidates)))[-TURN_CAP:]
            for turn, candidate in enumerate(order, 1):
                tokens += len(chat.action(f"try {candidate + 1}"))
                tokens += len(chat.observation(try_answer("FAILED 10/15", order[:turn])))
            assert tokens <= context, (task.key, tokens)


def test_numbers_and_words_of_the_tasks_are_single_tokens(generated: Path) -> None:
    chat = load_chat(generated / "model")
    assert len(chat.action("try 13")) == 3
    assert chat.action("submit") == [*chat.encode("submit"), chat.end_id]
    assert chat.encode("\n 13: L2 < -> <=")[1] == chat.encode("try 13")[1]
    assert len(chat.encode("FAILED 3/15 tried 3 7")) == 7

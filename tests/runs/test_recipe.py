from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from controlplane.errors import Invalid
from runs.recipe import RlStage, load
from tests.factories import RECIPE


def pointers(changes: Any) -> dict[str, str]:
    recipe = copy.deepcopy(RECIPE)
    changes(recipe)
    with pytest.raises(Invalid) as caught:
        load(yaml.safe_dump(recipe))
    return {error.pointer: error.message for error in caught.value.errors}


def test_the_recipe_of_the_repository_is_valid() -> None:
    from controlplane.up.environment import ROOT

    assert load((ROOT / "recipes" / "miniature.yaml").read_text()).name == "miniature"


def test_an_unknown_key_is_named_with_its_path() -> None:
    errors = pointers(lambda r: r["agent"].update(turn_limit=3))

    assert list(errors) == ["/agent/turn_limit"]


def test_a_wrong_unit_is_refused() -> None:
    assert "/timeouts/command_s" in pointers(lambda r: r["timeouts"].update(command_s="5s"))


def test_a_broken_timeout_chain_names_both_links() -> None:
    errors = pointers(lambda r: r["timeouts"].update(turn_s=500))

    assert "must be more than timeouts/turn_s (500 s)" in errors["/timeouts/agent_s"]


def test_a_sandbox_that_dies_under_its_agent_is_refused() -> None:
    errors = pointers(lambda r: r["sandbox"].update(lifetime_s=100))

    assert "start + setup + agent + verify (350 s)" in errors["/sandbox/lifetime_s"]


def test_concurrency_that_admission_cannot_fill_says_what_would() -> None:
    errors = pointers(lambda r: r["rollout"].update(max_in_flight=48))

    assert "set max_staleness to 5 or more" in errors["/stages/1/max_staleness"]


def test_a_stage_on_an_unnamed_task_set_is_refused() -> None:
    errors = pointers(lambda r: r["stages"][0].update(task_set="verified"))

    assert "/stages/0/task_set" in errors


def test_min_valid_defaults_to_half_of_the_group_and_never_below_two() -> None:
    stage = {"kind": "rl", "name": "a", "task_set": "t", "num_steps": 1}

    assert RlStage.model_validate({**stage, "group_size": 8}).required_valid == 4
    assert RlStage.model_validate({**stage, "group_size": 2}).required_valid == 2
    assert RlStage.model_validate({**stage, "group_size": 8}).hard_staleness == 6


def test_what_is_not_yaml_is_refused_in_words() -> None:
    with pytest.raises(Invalid, match="not YAML"):
        load("a: [")
    with pytest.raises(Invalid, match="not a mapping"):
        load("")

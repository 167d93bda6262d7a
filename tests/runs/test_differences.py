from runs.differences import differences


def test_only_leaves_that_differ_are_named_by_their_path() -> None:
    before = {"seed": 1, "stages": [{"name": "rl", "num_steps": 60}], "limits": {"cap": 5}}
    after = {"seed": 1, "stages": [{"name": "rl", "num_steps": 145}], "limits": {"cap": 5}}

    assert differences(before, after) == [("stages/0/num_steps", 60, 145)]


def test_what_one_of_them_lacks_is_a_difference_to_nothing() -> None:
    before = {"old": 1, "both": {"a": []}}
    after = {"both": {"a": []}, "new": [1, 2]}

    assert differences(before, after) == [("new/0", None, 1), ("new/1", None, 2), ("old", 1, None)]


def test_equal_recipes_have_no_difference() -> None:
    recipe = {"a": {"b": [1, {"c": None}]}}

    assert differences(recipe, recipe) == []

from __future__ import annotations

import gc

import pytest

from recipes.miniature.execution import evaluate

ENDLESS_AND_DEAF = """\
class Deaf:
    def __del__(self):
        while True:
            pass

def call():
    Deaf()
    while True:
        pass
"""


@pytest.mark.timeout(30)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_limit_whose_exception_was_lost_comes_again() -> None:
    assert evaluate(ENDLESS_AND_DEAF, ["call()"]) is None


def test_the_collector_does_not_spend_the_time_of_a_call() -> None:
    """In a large process one collection takes longer than the limit."""
    collections = []

    def note(phase: str, info: dict[str, int]) -> None:
        collections.append((phase, info))

    source = "def call():\n    return len([[i] for i in range(5_000)])\n"
    gc.callbacks.append(note)
    try:
        assert evaluate(source, ["call()"]) == ["5000"]
    finally:
        gc.callbacks.remove(note)
    assert collections == []
    assert gc.isenabled()

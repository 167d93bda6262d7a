from __future__ import annotations

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

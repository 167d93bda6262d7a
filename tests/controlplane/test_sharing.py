from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from controlplane.sharing import Shared

pytestmark = pytest.mark.django_db(transaction=True)


class Counter:
    """Computes its turn's number when it is let."""

    def __init__(self) -> None:
        self.num = 0
        self.begun = threading.Semaphore(0)
        self.let = threading.Semaphore(0)

    def __call__(self) -> int:
        self.num += 1
        mine = self.num
        self.begun.release()
        assert self.let.acquire(timeout=10)
        return mine


def asks(
    pool: ThreadPoolExecutor, shared: Shared[int], compute: Callable[[], int], num: int
) -> list[Future[int]]:
    return [pool.submit(shared.ask, "run 7", compute) for _ in range(num)]


def test_all_who_ask_while_one_is_computed_share_the_next_and_none_gets_an_older() -> None:
    shared, compute = Shared[int](), Counter()
    with ThreadPoolExecutor(12) as pool:
        first = asks(pool, shared, compute, 1)
        assert compute.begun.acquire(timeout=10)
        later = asks(pool, shared, compute, 8)
        while len(shared._next) == 0:
            threading.Event().wait(0.01)
        threading.Event().wait(0.1)
        compute.let.release(2)
        assert [one.result(10) for one in first] == [1]
        assert [one.result(10) for one in later] == [2] * 8
    assert compute.num == 2
    assert not shared._running
    assert not shared._next


def test_a_question_after_the_answer_is_computed_anew() -> None:
    shared, compute = Shared[int](), Counter()
    compute.let.release(2)
    assert [shared.ask("run 7", compute), shared.ask("run 7", compute)] == [1, 2]


def test_another_key_does_not_wait() -> None:
    shared, compute = Shared[int](), Counter()
    with ThreadPoolExecutor(2) as pool:
        waiting = asks(pool, shared, compute, 1)
        assert compute.begun.acquire(timeout=10)
        assert shared.ask("run 8", lambda: 80) == 80
        compute.let.release()
        assert waiting[0].result(10) == 1


def test_what_fails_fails_for_all_who_share_it_and_not_for_the_next() -> None:
    shared, compute = Shared[int](), Counter()

    def fail() -> int:
        raise RuntimeError("no database")

    with ThreadPoolExecutor(4) as pool:
        first = asks(pool, shared, compute, 1)
        assert compute.begun.acquire(timeout=10)
        later = asks(pool, shared, fail, 3)
        threading.Event().wait(0.1)
        compute.let.release()
        assert first[0].result(10) == 1
        for one in later:
            with pytest.raises(RuntimeError, match="no database"):
                one.result(10)
    assert shared.ask("run 7", lambda: 3) == 3

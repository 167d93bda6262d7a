from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from recipes.miniature.tasks import Task, draw_tasks
from sandboxes.drivers.local import LocalDriver
from tests.recipes.miniature.box import Box


@pytest.fixture(scope="session")
def tasks() -> list[Task]:
    return draw_tasks("train", "tests", num_forks=1, per_repository=3)


@pytest.fixture(scope="session")
def driver() -> Iterator[LocalDriver]:
    driver = LocalDriver()
    if missing := driver.probe().missing:
        pytest.skip("; ".join(missing))
    yield driver
    driver.close()


@pytest.fixture
def open_box(driver: LocalDriver) -> Iterator[Callable[[Task], Box]]:
    boxes: list[Box] = []

    def open_box(task: Task) -> Box:
        boxes.append(Box(task, driver))
        return boxes[-1]

    yield open_box
    for box in boxes:
        box.close()


@pytest.fixture
def box(tasks: list[Task], open_box: Callable[[Task], Box]) -> Box:
    return open_box(tasks[0])

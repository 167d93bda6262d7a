from __future__ import annotations

from pathlib import Path

import pytest

from recipes.miniature.tasks import Task, draw_tasks
from tests.recipes.miniature.box import Box


@pytest.fixture(scope="session")
def tasks() -> list[Task]:
    return draw_tasks("train", "tests", num_forks=1, per_repository=3)


@pytest.fixture
def box(tasks: list[Task], tmp_path: Path) -> Box:
    return Box(tasks[0], tmp_path / "box")

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workers.trainer.builders import make_model_dir


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model_dir(tmp_path_factory.mktemp("trainer") / "model")

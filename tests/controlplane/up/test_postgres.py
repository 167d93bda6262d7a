"""The embedded PostgreSQL: which binaries, which data, which words when it cannot start."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg
import pytest

from controlplane.up import postgres
from controlplane.up.errors import CannotStart
from controlplane.up.postgres import Binaries


def test_the_session_database_answers(services: None) -> None:
    with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        row = connection.execute("SELECT 1").fetchone()
    assert row == (1,)


def test_data_is_opened_only_by_its_own_major_version(tmp_path: Path) -> None:
    newer = Binaries(tmp_path, "18.4", "system")
    older = Binaries(tmp_path, "16.14", "wheel")
    (tmp_path / "PG_VERSION").write_text("16\n")
    assert postgres.choose([newer, older], tmp_path) == older
    (tmp_path / "PG_VERSION").write_text("13\n")
    with pytest.raises(CannotStart, match=r"made by PostgreSQL 13.*PostgreSQL 18\.4 \(system\)"):
        postgres.choose([newer, older], tmp_path)

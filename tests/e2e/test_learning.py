"""The claim of the README, on each of seeds 1, 2 and 3: the miniature recipe learns (minutes a seed)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, outside_environment


@pytest.mark.full
@pytest.mark.stack
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_miniature_recipe_learns(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    var = tmp_path_factory.mktemp(f"seed-{seed}")
    for folder in (var, var.parent):
        folder.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "manage.py", "demo", "--seed", str(seed), "--exit"],
        cwd=ROOT,
        env={**outside_environment(os.environ), "LONGTAIL_VAR": str(var)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    print(done.stdout[-1500:])
    report = json.loads((var / "reports" / "miniature.json").read_text())
    save_report(Path(os.environ.get("LONGTAIL_REPORTS", str(var))), seed, report)

    base, sft, rl = report["stages"]
    assert [stage["name"] for stage in report["stages"]] == ["base", "sft", "rl"]
    assert base["high"] < sft["pass_at_1"]
    assert sft["high"] < rl["low"]
    assert rl["paired"]["low"] > 0
    assert report["trained_twice"] == 0
    assert rl["pass_at_1"] > report["baselines"]["blind, 10 tries"]["mean"]


def save_report(folder: Path, seed: int, report: dict[str, object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"miniature-seed-{seed}.json").write_text(json.dumps(report, indent=1))

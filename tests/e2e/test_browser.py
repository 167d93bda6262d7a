"""A two-step run in real Chromium, launch to inspector, on the real stack (frontend/e2e/launch.browser.ts)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.e2e.conftest import ROOT, Stack
from tests.e2e.test_survival import recipe

pytestmark = [pytest.mark.stack, pytest.mark.browser, pytest.mark.timeout(600)]

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")


def two_steps(folder: Path) -> str:
    """The survival recipe, short: an evaluation of the random model, then two steps."""
    plan = yaml.safe_load(recipe(folder, name="two-steps"))
    _, rl, evaluation = plan["stages"]
    rl |= {"num_steps": 2, "groups_per_step": 1}
    plan["stages"] = [evaluation | {"name": "base", "num_tasks": 4}, rl]
    plan["rollout"]["max_in_flight"] = 8
    return yaml.safe_dump(plan)


@pytest.mark.skipif(
    not Path(CHROMIUM).exists() and "CI" not in os.environ,
    reason=f"{CHROMIUM} is missing (sudo apt-get install chromium, or set CHROMIUM)",
)
@pytest.mark.skipif(
    shutil.which("npm") is None or not (ROOT / "frontend" / "dist").exists(),
    reason="the front end is not built (make setup)",
)
def test_a_two_step_run_from_launch_to_inspector(
    stack: Stack, miniature: Path, tmp_path: Path
) -> None:
    source = tmp_path / "two-steps.yaml"
    source.write_text(two_steps(miniature))
    done = subprocess.run(
        ["npm", "run", "--silent", "e2e", "launch"],
        cwd=ROOT / "frontend",
        env={
            **os.environ,
            "CHROMIUM": CHROMIUM,
            "LONGTAIL_LINK": stack.manage("login_link"),
            "LONGTAIL_RECIPE": str(source),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert "1 passed" in done.stdout

"""Every page of the dashboard in real Chromium, on a real stack with demo data (frontend/e2e/stack)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, Stack

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")

pytestmark = [
    pytest.mark.stack,
    pytest.mark.browser,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        not Path(CHROMIUM).exists() and "CI" not in os.environ,
        reason=f"{CHROMIUM} is missing (sudo apt-get install chromium, or set CHROMIUM)",
    ),
    pytest.mark.skipif(
        shutil.which("npx") is None or not (ROOT / "frontend" / "dist").exists(),
        reason="the front end is not built (make setup)",
    ),
]


def storage_state(stack: Stack) -> str:
    """The session of the stack's first person, as Playwright's contexts take it."""
    cookies = [
        {
            "name": cookie.name,
            "value": cookie.value,
            "domain": "127.0.0.1",
            "path": "/",
            "expires": -1,
            "httpOnly": False,
            "secure": False,
            "sameSite": "Lax",
        }
        for cookie in stack.api.cookies.jar
    ]
    return json.dumps({"cookies": cookies, "origins": []})


@pytest.fixture(scope="module")
def demo(stack: Stack) -> Stack:
    stack.manage("seed_demo", "--scale", "0.02")
    return stack


@pytest.fixture(scope="module")
def state(demo: Stack) -> Path:
    path = demo.var / "browser-state.json"
    path.write_text(storage_state(demo))
    return path


def browser_files() -> list[str]:
    return sorted(path.name for path in (ROOT / "frontend/e2e/stack").glob("*.browser.ts"))


@pytest.mark.parametrize("name", browser_files())
def test_in_chromium(name: str, demo: Stack, state: Path) -> None:
    done = subprocess.run(
        ["npx", "vitest", "run", "--config", "vitest.stack.config.ts", f"stack/{name}"],
        cwd=ROOT / "frontend",
        env={
            **demo.env,
            "CHROMIUM": CHROMIUM,
            "LONGTAIL_URL": demo.url,
            "LONGTAIL_STATE": str(state),
            "LONGTAIL_PYTHON": sys.executable,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-12000:] + done.stderr[-3000:]
    assert "\n0 passed" not in done.stdout

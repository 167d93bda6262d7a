"""One real stack for all tests of this folder: `manage.py up` with short leases, its own var/ and port."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from psycopg.rows import dict_row

ROOT = Path(__file__).resolve().parents[2]
READY_S = 120


class Stack:
    """A running stack, seen from outside: its API, its database, its processes."""

    def __init__(self, var: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.var = var
        self.url = f"http://127.0.0.1:{port}"
        self.env = {
            **outside_environment(os.environ),
            "LONGTAIL_VAR": str(var),
            "LONGTAIL_LEASE_TTL_S": "8",
            "LONGTAIL_HEARTBEAT_S": "1",
            "LONGTAIL_REDISPATCH_S": "6",
            "DJANGO_SETTINGS_MODULE": "controlplane.settings",
        }
        self.log = var / "stack.log"
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--port", str(port), "--rollout-workers", "2"],
            cwd=ROOT,
            env=self.env,
            stdout=self.log.open("wb"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.wait_for(self._is_ready, READY_S, "the stack to be ready")
        sockets = (var / "services" / "run").resolve()
        self.dsn = f"host={sockets} user=postgres dbname=longtail"
        self.api = httpx.Client(base_url=f"{self.url}/api/v1", timeout=30)
        self.sign_in(self.api)

    def _is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()[-4000:]
        try:
            return bool(json.loads((self.var / "up.json").read_text())["is_ready"])
        except (OSError, ValueError):
            return False

    def manage(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def sign_in(self, client: httpx.Client) -> None:
        """As a person does: open the one-time link, press its button."""
        link = self.manage("login_link")
        page = client.get(link)
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        assert token, page.text
        answer = client.post(
            link, data={"csrfmiddlewaretoken": token.group(1)}, headers={"Referer": link}
        )
        assert answer.status_code in (200, 302), answer.text
        client.headers["X-CSRFToken"] = client.cookies["csrftoken"]
        client.headers["Referer"] = self.url

    def query(self, sql: str, *parameters: Any) -> list[dict[str, Any]]:
        with psycopg.connect(self.dsn, row_factory=dict_row) as connection:
            return connection.execute(sql, parameters).fetchall()

    def value(self, sql: str, *parameters: Any) -> Any:
        return next(iter(self.query(sql, *parameters)[0].values()))

    def wait_for(self, condition: Callable[[], Any], seconds: float, what: str) -> Any:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if result := condition():
                    return result
            except (psycopg.OperationalError, httpx.TransportError):
                pass
            time.sleep(0.2)
        pytest.fail(f"waited {seconds:.0f} s for {what}\n{self.tail()}")

    def tail(self) -> str:
        logs = sorted((self.var / "logs").glob("*.log"))
        parts = [f"--- {p.name}\n{p.read_text(errors='replace')[-1500:]}" for p in logs]
        return "\n".join([self.log.read_text()[-3000:], *parts])

    def pids(self, *words: str) -> list[int]:
        """Processes of this stack whose command line holds all words."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            is_ours = f"LONGTAIL_VAR={self.var}".encode() in environment or str(self.var) in command
            if is_ours and all(word in command for word in words):
                found.append(int(entry.name))
        return found

    def kill(self, *words: str) -> int:
        """kill -9 the first process of these words; returns its pid."""
        pid = self.wait_for(lambda: min(self.pids(*words), default=0), 30, f"a process {words}")
        os.kill(pid, signal.SIGKILL)
        return int(pid)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()


OF_THE_TEST_SESSION = {"DATABASE_URL", "REDIS_URL", "LONGTAIL_SECRET_KEY", "LONGTAIL_VAR"}


def outside_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What a shell would have: without the addresses of this test session's services."""
    return {key: value for key, value in environment.items() if key not in OF_THE_TEST_SESSION}


@pytest.fixture(scope="package")
def stack() -> Iterator[Stack]:
    with tempfile.TemporaryDirectory(prefix="longtail-e2e-", ignore_cleanup_errors=True) as folder:
        var = Path(folder)
        var.chmod(0o755)
        running = Stack(var)
        try:
            yield running
        finally:
            running.stop()


@pytest.fixture(scope="package")
def miniature(stack: Stack) -> Path:
    """The miniature recipe's tasks, traces and model, imported."""
    folder = stack.var / "miniature" / "seed-1"
    subprocess.run(
        [sys.executable, "-m", "recipes.miniature", "--seed", "1", "--out", str(folder)],
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    for name, split in (("train", "train"), ("held-out", "held_out")):
        stack.manage(
            "import_tasks",
            str(folder / "tasks" / split),
            *("--name", f"miniature-{name}", "--split", split),
        )
    return folder

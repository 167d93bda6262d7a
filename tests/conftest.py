"""One embedded PostgreSQL and Valkey for the whole session, started when a test first needs them.

Their addresses are settled at import, before Django reads its settings; DATABASE_URL and REDIS_URL
given from outside win. Several sessions on one machine share nothing.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import django
import pytest

from controlplane.up import postgres, valkey
from controlplane.up.places import open_home, service_account, service_environment
from controlplane.up.tether import tethered

STARTUP_S = 60
VAR = Path(tempfile.mkdtemp(prefix="longtail-test-"))
VAR.chmod(0o711)
HOME = open_home(VAR, service_account())
OWN_POSTGRES = "DATABASE_URL" not in os.environ
OWN_VALKEY = "REDIS_URL" not in os.environ

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
os.environ.setdefault("DATABASE_URL", postgres.url(HOME.sockets))
os.environ.setdefault("REDIS_URL", valkey.url(HOME.sockets))
os.environ["LONGTAIL_VAR"] = str(VAR)
os.environ["LONGTAIL_SECRET_KEY"] = "not a secret: this process serves tests only"
# Threads of torch that spin would starve everything else on a small machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
django.setup()


def start_service(
    command: list[str],
    log: Path,
    unready: Callable[[], str | None],
    death_signal: signal.Signals,
) -> subprocess.Popen[bytes]:
    """Start a server that ends with this process and wait until it answers."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            tethered(command, account=HOME.account, death_signal=death_signal),
            cwd="/",
            env=service_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    deadline = time.monotonic() + STARTUP_S
    while (reason := unready()) is not None:
        if process.poll() is not None or time.monotonic() > deadline:
            pytest.exit(f"{command[0]} did not start ({reason}):\n{log.read_text()}", 1)
        time.sleep(0.05)
    return process


@pytest.fixture(scope="session")
def services() -> Iterator[None]:
    """PostgreSQL at DATABASE_URL and Valkey at REDIS_URL, for this session only."""
    running = []
    if OWN_VALKEY:
        server = valkey.prepare(HOME)
        address = os.environ["REDIS_URL"]
        log = VAR / "valkey.log"
        running.append(
            start_service(server.command(), log, lambda: valkey.unready(address), signal.SIGTERM)
        )
    if OWN_POSTGRES:
        cluster = postgres.prepare(HOME, settings=postgres.NOT_DURABLE)
        address_pg = cluster.url("postgres")
        log = VAR / "postgres.log"
        running.append(
            start_service(
                cluster.command(), log, lambda: postgres.unready(address_pg), signal.SIGINT
            )
        )
        postgres.ensure_database(cluster)
    yield
    for process in reversed(running):
        process.send_signal(signal.SIGINT)
        process.wait(timeout=STARTUP_S)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(services: None) -> None:
    """pytest-django asks for this before it makes the test database."""


def pytest_unconfigure() -> None:
    shutil.rmtree(HOME.path, ignore_errors=True)
    shutil.rmtree(VAR, ignore_errors=True)

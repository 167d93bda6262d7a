"""`manage.py up` as a person meets it: one stack per var/, ports, addresses, the whole table."""

from __future__ import annotations

import os
import signal
import socket
import stat
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from controlplane.up import environment, postgres, valkey
from controlplane.up.errors import CannotStart
from controlplane.up.lock import Running, only_one, running
from controlplane.up.places import open_home, service_account
from controlplane.up.stack import choose_port, main, services
from tests.controlplane.up.watching import Lines, eventually, processes_of

Said = list[tuple[str, str]]


@pytest.fixture
def taken() -> Callable[[int], socket.socket]:
    """Listen on a port of this machine; 0 takes any."""

    def take(port: int) -> socket.socket:
        listener = socket.socket()
        listener.bind(("127.0.0.1", port))
        listener.listen()
        return listener

    return take


def test_a_taken_port_that_was_asked_for_is_refused_with_a_sentence(
    taken: Callable[[int], socket.socket],
) -> None:
    with taken(0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(CannotStart, match=f"Port {port} on 127.0.0.1 is taken"):
            choose_port("127.0.0.1", port, lambda name, text: None)


def test_a_taken_default_port_gives_the_next_free_one_and_says_so(
    taken: Callable[[int], socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: Said = []
    with taken(0) as listener:
        port = listener.getsockname()[1]
        monkeypatch.setattr("controlplane.up.stack.DEFAULT_PORT", port)
        chosen = choose_port("127.0.0.1", None, lambda *line: said.append(line))
    assert chosen > port
    assert said == [("up", f"port {port} is taken by another program: using {chosen}")]


def test_one_var_runs_one_stack_and_the_second_says_which(tmp_path: Path) -> None:
    assert running(tmp_path) is None
    first = Running(os.getpid(), "http://127.0.0.1:8000")
    with only_one(tmp_path, first):
        assert running(tmp_path) == first
        with (
            pytest.raises(CannotStart, match=rf"process {os.getpid()}, http://127.0.0.1:8000 \."),
            only_one(tmp_path, Running(1, "http://127.0.0.1:8001")),
        ):
            pass
        assert running(tmp_path) == first, "the refused one changed nothing"
    assert running(tmp_path) is None


def test_the_lock_of_a_killed_stack_holds_nobody_up(
    tmp_path: Path, launch: Callable[..., Lines]
) -> None:
    script = """if True:
        import sys, time
        from pathlib import Path
        from controlplane.up.lock import Running, only_one
        with only_one(Path(sys.argv[1]), Running(7, "http://127.0.0.1:8000")):
            print("held", flush=True)
            time.sleep(600)
    """
    holder = launch("-c", script, str(tmp_path))
    holder.until("held")
    assert running(tmp_path) == Running(7, "http://127.0.0.1:8000")
    holder.process.kill()
    holder.process.wait()
    assert running(tmp_path) is None


def test_the_secret_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    secret = environment.secret_key(tmp_path)
    assert len(secret) >= 50
    assert environment.secret_key(tmp_path) == secret
    assert stat.S_IMODE((tmp_path / "secret_key").stat().st_mode) == 0o600


def test_a_first_command_and_the_stack_it_starts_agree_on_the_addresses(
    entered_by_all: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGTAIL_VAR", str(entered_by_all / "var"))
    filled: dict[str, str] = {}
    environment.fill(filled, is_first=True)
    for name, value in filled.items():
        monkeypatch.setenv(name, value)  # as a child of that command inherits them
    table, addresses = services(open_home(entered_by_all / "var", service_account()))
    assert [process.name for process in table] == ["postgres", "valkey"], "embedded all the same"
    assert addresses == {name: filled[name] for name in ("DATABASE_URL", "REDIS_URL")}


def test_services_given_by_url_are_used_and_asked_first(
    services: None, entered_by_all: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from controlplane.up import stack

    home = open_home(entered_by_all / "var", service_account())
    table, addresses = stack.services(home)
    assert table == []
    assert addresses["DATABASE_URL"] == os.environ["DATABASE_URL"]
    monkeypatch.setenv("DATABASE_URL", postgres.url(entered_by_all))
    with pytest.raises(CannotStart, match="The PostgreSQL of DATABASE_URL does not answer"):
        stack.services(home)
    monkeypatch.setenv("DATABASE_URL", addresses["DATABASE_URL"])
    monkeypatch.setenv("REDIS_URL", valkey.url(entered_by_all))
    with pytest.raises(CannotStart, match="The server of REDIS_URL does not answer"):
        stack.services(home)


def test_what_stops_up_is_said_last_with_exit_code_1(
    entered_by_all: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LONGTAIL_VAR", str(entered_by_all / "var"))
    monkeypatch.setenv("LONGTAIL_SERVICE_UID", "0")
    monkeypatch.setattr("controlplane.up.places.os.geteuid", lambda: 0)
    assert main([]) == 1
    *_, line = capsys.readouterr().out.strip().splitlines()  # 8000 may be taken: said before it
    assert line.endswith("LONGTAIL_SERVICE_UID is 0, but PostgreSQL refuses to run as root.")


@pytest.mark.stack
@pytest.mark.timeout(300)
def test_the_whole_stack_comes_up_and_kill_9_of_it_leaves_nothing(
    entered_by_all: Path, launch: Callable[..., Lines]
) -> None:
    var = entered_by_all / "var"
    env = {**os.environ, "LONGTAIL_VAR": str(var)}
    for name in ("DATABASE_URL", "REDIS_URL", "LONGTAIL_SECRET_KEY"):
        env.pop(name)
    lines = launch("manage.py", "up", "--rollout-workers", "1", env=env)
    lines.until("up        ready: http://127.0.0.1:")
    here = running(var)
    assert here
    assert here.pid == lines.process.pid
    assert here.is_ready
    with urllib.request.urlopen(f"{here.url}/healthz") as response:
        assert response.status == 200

    second = launch("manage.py", "up", env=env)
    second.until(f"Longtail already runs here: process {here.pid}, {here.url} .")
    assert second.process.wait(60) == 1

    def left() -> list[int]:
        """The children, which all carry this var/ in their environment or command line."""
        return [pid for pid in processes_of("celery") if str(var) in environment_of(pid)]

    def environment_of(pid: int) -> str:
        try:
            return Path(f"/proc/{pid}/environ").read_text(errors="replace")
        except OSError:
            return ""

    assert len(left()) >= 5  # control, beat, rollout, train, engine
    lines.process.kill()
    lines.process.wait()
    assert eventually(lambda: left() == [] and processes_of(str(var)) == [])

    again = launch("manage.py", "up", "--rollout-workers", "1", env=env)
    again.until("up        ready: ")
    again.process.send_signal(signal.SIGINT)
    assert again.process.wait(120) == 0
    assert left() == []
    assert processes_of(str(var)) == []

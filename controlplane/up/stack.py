"""`manage.py up`: the table of Longtail's processes, and the command line that runs it."""

from __future__ import annotations

import argparse
import asyncio
import http.client
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from controlplane.up import postgres, valkey
from controlplane.up.environment import ROOT, secret_key, var_directory
from controlplane.up.errors import CannotStart
from controlplane.up.lock import Running, only_one
from controlplane.up.places import Home, open_home, service_account, service_environment
from controlplane.up.supervisor import Process, Supervisor

DEFAULT_PORT = 8000
PORTS_TO_TRY = 100
ROLLOUT_THREADS = 64
# Live messages are short: deflating each cost a quarter of a delivery and saved nothing.
WEB_FLAGS = ("--no-access-log", "--no-server-header", "--ws-per-message-deflate=false")
# Without them every process that imports torch starts a thread per core, which then spin.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "PYTHONUNBUFFERED": "1"}


def main(argv: Sequence[str]) -> int:
    """Run the stack until a signal asks to stop; returns the exit code."""
    options = _parse(argv)
    var = var_directory()
    logs = var / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    say = _speaker(logs / "up.log")
    try:
        port = choose_port(options.host, options.port, say)
        me = Running(os.getpid(), f"http://{_browser_host(options.host)}:{port}")
        with only_one(var, me):
            home = open_home(var, service_account())
            table = stages(home, var, me.url, options.host, port, options.rollout_workers)
            supervisor = Supervisor(table, logs, say)

            def on_ready() -> None:
                replace(me, is_ready=True).write(var)
                say("up", f"ready: {me.url}  (logs: {logs})")

            asyncio.run(supervisor.run(on_ready))
    except CannotStart as error:
        say("up", str(error))
        return 1
    say("up", "stopped")
    return 0


def stages(
    home: Home, var: Path, url: str, host: str, port: int, num_rollout_workers: int
) -> list[list[Process]]:
    """The processes of the whole stack, in the order of their start.

    Raises CannotStart: a service cannot be prepared, or one given by URL does not answer.
    """
    embedded, addresses = services(home)
    env = {
        **os.environ,
        **ONE_THREAD,
        **addresses,
        "LONGTAIL_VAR": str(var),
        "LONGTAIL_SECRET_KEY": os.environ.get("LONGTAIL_SECRET_KEY") or secret_key(var),
        "LONGTAIL_BASE_URL": os.environ.get("LONGTAIL_BASE_URL") or url,
    }

    celery = "-m celery -A controlplane"

    def python(name: str, *arguments: str, **options: object) -> Process:
        command = [sys.executable, *arguments]
        return replace(Process(name, command, env=env, cwd=ROOT), **options)  # type: ignore[arg-type]

    def worker(name: str, queue: str, num_threads: int) -> Process:
        flags = (
            f"worker -P threads -c {num_threads} -Q {queue} -n {name}@%h --prefetch-multiplier=1"
        )
        quiet = "--without-gossip --without-mingle --without-heartbeat -l INFO"
        return python(name, *f"{celery} {flags} {quiet}".split(), ready_text=" ready.")

    uvicorn = f"-m uvicorn controlplane.asgi:application --host {host} --port {port}"
    web = python(
        "web",
        *f"{uvicorn} --timeout-graceful-shutdown 3".split(),
        *WEB_FLAGS,
        unready=lambda: _unhealthy(host, port),
        title=url,
    )
    migrate = python("migrate", "manage.py", "migrate", "--noinput", is_task=True)
    beat = python("beat", *f"{celery} beat -l INFO --pidfile=".split())
    rollouts = [
        worker(f"rollout{number}", "rollout", ROLLOUT_THREADS)
        for number in range(1, num_rollout_workers + 1)
    ]
    others = [worker("train", "train", 1), worker("engine", "engine", 8)]
    return [embedded, [migrate], [web, worker("control", "control", 4), beat, *rollouts, *others]]


def choose_port(host: str, wanted: int | None, say: Callable[[str, str], None]) -> int:
    """The wanted port, or from 8000 on the first that is free.

    Raises CannotStart: the wanted one is taken, or all are.
    """
    candidates = [wanted] if wanted else range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TO_TRY)
    for port in candidates:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except PermissionError:
                raise CannotStart(f"Port {port} needs root: choose one above 1023.") from None
            except OSError:
                continue
        if not wanted and port != DEFAULT_PORT:
            say("up", f"port {DEFAULT_PORT} is taken by another program: using {port}")
        return port
    if wanted:
        raise CannotStart(f"Port {wanted} on {host} is taken by another program: use --port.")
    raise CannotStart(f"Every port from {DEFAULT_PORT} on is taken: use --port.")


def services(home: Home) -> tuple[list[Process], dict[str, str]]:
    """The embedded services to run, and the addresses of all.

    An address in the environment that is our own, as `manage.py` fills it in, is not a foreign one.
    """
    embedded = []
    database_url = os.environ.get("DATABASE_URL") or postgres.url(home.sockets)
    if database_url != postgres.url(home.sockets):
        if reason := postgres.unready(database_url):
            raise CannotStart(f"The PostgreSQL of DATABASE_URL does not answer: {reason}.")
    else:
        server = postgres.prepare(home)
        embedded.append(
            Process(
                "postgres",
                server.command(),
                env=service_environment(),
                account=home.account,
                unready=lambda: postgres.no_database_yet(server),
                explain=postgres.explain,
                title=str(server.binaries),
                stop_signal=signal.SIGINT,  # "fast": ends the sessions, then checkpoints
                death_signal=signal.SIGINT,
                grace_s=30,
            )
        )
    redis_url = os.environ.get("REDIS_URL") or valkey.url(home.sockets)
    if redis_url != valkey.url(home.sockets):
        if reason := valkey.unready(redis_url):
            raise CannotStart(f"The server of REDIS_URL does not answer: {reason}.")
    else:
        broker = valkey.prepare(home)
        embedded.append(
            Process(
                "valkey",
                broker.command(),
                env=service_environment(),
                account=home.account,
                unready=lambda: valkey.unready(redis_url),
                explain=valkey.explain,
                title=str(broker.binary),
                death_signal=signal.SIGTERM,
            )
        )
    return embedded, {"DATABASE_URL": database_url, "REDIS_URL": redis_url}


def _unhealthy(host: str, port: int) -> str | None:
    """Why /healthz does not answer 200, or None when it does."""
    connection = http.client.HTTPConnection(_browser_host(host), port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return str(error)
    finally:
        connection.close()
    return None if status == 200 else f"/healthz answered {status}"


def _browser_host(host: str) -> str:
    return "127.0.0.1" if host == "0.0.0.0" else host  # noqa: S104


def _speaker(log: Path) -> Callable[[str, str], None]:
    """Prints a line and appends it to `log`; a terminal that went away stops nothing."""

    def say(name: str, text: str) -> None:
        line = f"{time.strftime('%H:%M:%S')} {name:<9} {text}"
        with log.open("a") as file:
            file.write(line + "\n")
        try:
            print(line, flush=True)
        except OSError:
            sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115

    return say


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("manage.py up", description="Run the whole stack.")
    parser.add_argument("--host", default="127.0.0.1", help="where the web server listens")
    parser.add_argument("--port", type=int, help=f"default: {DEFAULT_PORT} or the next free one")
    parser.add_argument("--rollout-workers", type=int, default=2, metavar="N")
    return parser.parse_args(argv)

"""How fast the dashboard answers at size, and what 200 open dashboards get.

    seed_demo ──> PostgreSQL <── web server <── 1. list, facets, inspector over HTTP, one at a time
                      │              │
       a writer that commits         ├──────── 2. 200 WebSocket clients, two topics each
                                     └──────── 3. Chromium: a curve of 100,000 points, redrawn
                                                  4. the entry chunk of the built front end, gzip

1. Over all of the demo data (scale 1: 15,000 trajectories, 970,000 turns): the median of 15 answers, beside a
   bare SQL query of the same rows on a connection of its own.
2. At 20 commits a second for 15 s: the time from the commit to the client, and what never came. Then commits
   without a pause for 5 s: messages delivered per second. A client has lost something if it neither got an event
   nor, after it, a beacon with the cursors that PostgreSQL holds at the end.
3. Redraws as the page itself measures them, on its own zoom. Needs the built front end (`make build`) and
   Chromium.

    python benchmarks/dashboard.py [--json] [--scale S] [--only server|live|chart|size]

It starts its own stack on an empty var/. With LONGTAIL_VAR it uses the services and the demo data of that one, with
a web server of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import orjson
import psycopg
import websockets

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # also when it is run as a file

from benchmarks import processes  # noqa: E402
from controlplane.up import environment  # noqa: E402
from controlplane.up.stack import WEB_FLAGS  # noqa: E402

NUM_ANSWERS = 15
NUM_CLIENTS = 200
STEADY_HZ, STEADY_S, FLOOD_S = 20, 15.0, 5.0
SETTLE_S = 30.0
NUM_POINTS = 100_000
GOALS = {
    "list_ms": 300,
    "facets_ms": 300,
    "inspector_ms": 300,
    "chart_redraw_ms": 50,
    "lost_events": 0,
    "entry_kb_gz": 230,
}


def main() -> int:
    options = _options()
    figures: dict[str, float | None] = dict.fromkeys(
        [
            *("list_ms", "facets_ms", "inspector_ms", "chart_redraw_ms", "deliveries_per_s"),
            *("delivery_p99_ms", "lost_events", "entry_kb_gz"),
        ]
    )
    say: Callable[[str], None] = print if not options.json else _to_stderr

    def wanted(part: str) -> bool:
        return options.only in (None, part)

    if wanted("size"):
        figures["entry_kb_gz"] = entry_kb_gz()
    if options.only != "size":
        with stack(options.scale, say) as url:
            if wanted("server"):
                figures |= measure_server(url, say)
            if wanted("live"):
                figures |= measure_live(url, say)
            if wanted("chart"):
                figures |= measure_chart(url, say)
    if options.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            goal = f"  (goal: {GOALS[name]} or less)" if name in GOALS else ""
            print(f"{name:<18} {'not measured' if value is None else format(value, ',.1f')}{goal}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--scale", type=float, default=1.0, help="of the demo data")
    parser.add_argument("--only", choices=["server", "live", "chart", "size"])
    return parser.parse_args()


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr)


# the stack


@contextmanager
def stack(scale: float, say: Callable[[str], None]) -> Iterator[str]:
    """The URL of a web server over demo data; this process is set up as a Django of the same stack."""
    with tempfile.TemporaryDirectory(
        prefix="longtail-dashboard-", ignore_cleanup_errors=True
    ) as folder:
        if "LONGTAIL_VAR" in os.environ:
            command = ["-m", "uvicorn", "controlplane.asgi:application", *WEB_FLAGS]
            environment.fill(os.environ, is_first=False)
        else:
            var = Path(folder) / "var"
            var.mkdir()
            Path(folder).chmod(0o755)
            os.environ["LONGTAIL_VAR"] = str(var)
            command = ["manage.py", "up", "--rollout-workers=0"]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        os.environ["LONGTAIL_BASE_URL"] = url
        os.environ["DJANGO_SETTINGS_MODULE"] = "controlplane.settings"
        log = Path(folder) / "log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, *command, f"--port={port}"], cwd=ROOT, stdout=output, stderr=output
            )
        try:
            _wait_until_healthy(url, process, log)
            environment.fill(os.environ, is_first=False)
            import django

            django.setup()
            _seed(scale, say)
            yield url
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def _wait_until_healthy(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(1_200):
        if process.poll() is not None:
            raise SystemExit(f"the stack did not start:\n{log.read_text()[-3000:]}")
        try:
            if httpx.get(f"{url}/healthz", timeout=2).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    raise SystemExit("the stack was not ready after 120 s")


def _seed(scale: float, say: Callable[[str], None]) -> None:
    from django.core.management import call_command
    from django.utils import timezone

    from controlplane.accounts.services.users import ensure_first_admin

    ensure_first_admin(now=timezone.now())
    call_command("seed_demo", scale=scale, stdout=_Lines(say))


@dataclass
class _Lines:
    say: Callable[[str], None]

    def write(self, text: str) -> None:
        if text.strip():
            self.say(text.rstrip())

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return False


def _token() -> str:
    from django.utils import timezone

    from controlplane.accounts.models import Project, Role
    from controlplane.accounts.services.tokens import issue_token
    from controlplane.accounts.services.users import ensure_first_admin

    project = Project.objects.get(slug="default")
    admin = ensure_first_admin(now=timezone.now())
    _, secret = issue_token(
        admin, project, name="benchmark", role=Role.OPERATOR, now=timezone.now()
    )
    return secret


# 1. answers

_OF_RUN = """
SELECT t.*, k.key, a.finished_at - a.started_at AS seconds FROM runs_trajectory t
JOIN runs_task k ON k.id = t.task_id JOIN runs_attempt a ON a.trajectory_id = t.id AND a.number = t.num_attempts
WHERE t.run_id = {run} """
_COUNTED = """
SELECT t.status, t.stop_reason, t.stage_id, count(*), sum(t.output_tokens) FROM runs_trajectory t
WHERE t.run_id = {run} AND t.status = ANY('{{completed,failed,cancelled}}') GROUP BY 1, 2, 3"""
_TURNS = """
SELECT {{columns}} FROM runs_turn n JOIN runs_attempt a ON a.id = n.attempt_id
WHERE a.trajectory_id = {trajectory} ORDER BY n.index LIMIT 81"""
# By figure: a request, and the SQL that its rows need.
REQUESTS = {
    "list_ms": (
        ("runs/{run}/trajectories", _OF_RUN + "ORDER BY t.id DESC LIMIT 51"),
        (
            "runs/{run}/trajectories?status=completed&sort=-turns",
            _OF_RUN + "AND t.status = 'completed' ORDER BY t.num_turns DESC, t.id DESC LIMIT 51",
        ),
        (
            "runs/{run}/trajectories?sort=-duration",
            _OF_RUN + "ORDER BY seconds DESC NULLS LAST, t.id DESC LIMIT 51",
        ),
    ),
    "facets_ms": (
        ("runs/{run}/trajectories/facets", _COUNTED),
        ("runs/{run}/trajectories/facets?status=completed", _COUNTED),
    ),
    "inspector_ms": (
        (
            "trajectories/{trajectory}",
            "SELECT * FROM runs_attempt WHERE trajectory_id = {trajectory}",
        ),
        ("trajectories/{trajectory}/skeleton", _TURNS.replace("{{columns}}", "n.index, n.command")),
        ("trajectories/{trajectory}/turns?limit=80", _TURNS.replace("{{columns}}", "n.*")),
    ),
}
OTHERS = (
    "runs",
    "runs/{run}",
    "runs/{run}/overview",
    "runs/{run}/groups",
    "runs/{run}/evals",
    "failures?run={run}",
    "sandboxes?run={run}",
    "sandboxes/carpet?run={run}",
)


def measure_server(url: str, say: Callable[[str], None]) -> dict[str, float | None]:
    """Each figure is the slowest of its kind's requests, so that no slow one hides behind a fast one."""
    from runs.models import Run, Trajectory

    run = Run.objects.filter(is_demo=True).latest("id").pk
    longest = Trajectory.objects.filter(run=run, status="completed").latest("num_turns", "id").pk
    figures: dict[str, float | None] = {}
    with _api(url) as api, psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as bare:
        for figure, requests in REQUESTS.items():
            times = []
            for path_of, sql in requests:
                path = path_of.format(run=run, trajectory=longest)
                mine, cpu = _median_ms(partial(_get, api, path))
                peer, _ = _median_ms(partial(_rows, bare, sql.format(run=run, trajectory=longest)))
                ratio = f"bare SQL {peer:6.1f} ms  ratio {mine / peer:6.1f}"
                say(f"{mine:7.1f} ms  {cpu:6.1f} CPU-ms  {ratio}  /{path}")
                times.append(mine)
            figures[figure] = round(max(times), 1)
        for path_of in OTHERS:
            path = path_of.format(run=run)
            mine, cpu = _median_ms(partial(_get, api, path))
            say(f"{mine:7.1f} ms  {cpu:6.1f} CPU-ms  {'':32}  /{path}")
    return figures


def _rows(connection: psycopg.Connection[Any], sql: str) -> None:
    connection.execute(sql.encode()).fetchall()


def _api(url: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {_token()}"}
    return httpx.Client(base_url=f"{url}/api/v1/", headers=headers, timeout=60)


def _get(api: httpx.Client, path: str) -> None:
    api.get(path).raise_for_status()


def _median_ms(call: Callable[[], object]) -> tuple[float, float]:
    """Wall time; and CPU of web server and PostgreSQL (of the web server alone with LONGTAIL_VAR)."""
    call()
    times = []
    cpu = _server_cpu_s()
    for _ in range(NUM_ANSWERS):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    cpu = _server_cpu_s() - cpu
    return statistics.median(times) * 1_000, cpu / NUM_ANSWERS * 1_000


def _server_cpu_s() -> float:
    parts = processes.sample().cpu_s
    return parts.get("web", 0.0) + parts.get("postgres", 0.0)


# 2. open dashboards


@dataclass
class Client:
    """What one dashboard has heard."""

    sentences: dict[str, float] = field(default_factory=dict)
    """By sentence, the seconds from its commit to here."""
    steps: set[int] = field(default_factory=set)
    num_messages: int = 0
    last_at: float = 0.0
    status: str = ""
    cursors: dict[str, int] = field(default_factory=dict)
    _beacon: asyncio.Event = field(default_factory=asyncio.Event)

    async def reached(self, cursors: dict[str, int]) -> None:
        while self.cursors != cursors:
            self._beacon.clear()
            await self._beacon.wait()

    def hear(self, data: bytes | str, topic: str) -> None:
        message = orjson.loads(data)
        now = time.time()
        self.num_messages += 1
        self.last_at = now
        match message["type"]:
            case "event_added":
                sentence = message["sentence"]
                self.sentences[sentence] = now - float(sentence.rpartition(" ")[2])
            case "metrics_added":
                self.steps |= {point["step"] for point in message["points"]}
            case "run_changed":
                self.status = message["status"]
            case "beacon" if message["topic"] == topic:
                self.cursors = message["cursors"]
                self._beacon.set()


def measure_live(url: str, say: Callable[[str], None]) -> dict[str, float | None]:
    from django.utils import timezone

    from controlplane.accounts.services.users import ensure_first_admin
    from controlplane.accounts.tickets import issue_ticket
    from runs.models import Run

    admin = ensure_first_admin(now=timezone.now())
    demo = Run.objects.filter(is_demo=True).latest("id")
    found: dict[str, float | None] = {}
    for name, hz, seconds in (("steady", STEADY_HZ, STEADY_S), ("flood", None, FLOOD_S)):
        run = Run.objects.create(
            project=demo.project,
            name=f"benchmark-{name}",
            recipe=demo.recipe,
            recipe_source=demo.recipe_source,
            seed=0,
            created_at=timezone.now(),
        )
        try:
            cpu_s = _server_cpu_s()
            result = asyncio.run(
                _dashboards(url, run, lambda: issue_ticket(admin, None), hz, seconds)
            )
        finally:
            cpu_s = _server_cpu_s() - cpu_s
            run.events.all().delete()
            run.metric_points.all().delete()
            run.delete()
        each_us = cpu_s / result.num_messages * 1e6
        say(
            f"{name}: {result.num_commits} commits, {result.num_messages} messages to {NUM_CLIENTS} clients,"
            f" {result.per_s:,.0f}/s at {each_us:.0f} CPU-µs each, p50 {result.p50_ms:.0f} ms, p99"
            f" {result.p99_ms:.0f} ms, {result.num_merged} events merged into beacons, {result.num_lost} lost"
        )
        if hz is not None:
            found["delivery_p99_ms"] = round(result.p99_ms, 1)
        else:
            found["deliveries_per_s"] = round(result.per_s, 1)
        found["lost_events"] = (found.get("lost_events") or 0) + result.num_lost
    return found


@dataclass(frozen=True)
class Deliveries:
    num_commits: int
    num_messages: int
    per_s: float
    p50_ms: float
    p99_ms: float
    num_merged: int
    num_lost: int


async def _dashboards(
    url: str, run: Any, ticket: Callable[[], str], hz: float | None, seconds: float
) -> Deliveries:
    from runs.events import run_topic, runs_topic
    from runs.selectors.live import cursors

    topic = run_topic(run.project_id, run.pk)
    clients = [Client() for _ in range(NUM_CLIENTS)]
    sockets = []
    for _ in clients:
        address = f"{url.replace('http', 'ws')}/ws/live?ticket={await asyncio.to_thread(ticket)}"
        socket_ = await websockets.connect(address, max_queue=None, ping_interval=None)
        for each in (topic, runs_topic(run.project_id)):
            await socket_.send(json.dumps({"subscribe": each}))
        sockets.append(socket_)

    async def listen(client: Client, socket_: Any) -> None:
        async for data in socket_:
            client.hear(data, topic)

    tasks = [asyncio.create_task(listen(c, s)) for c, s in zip(clients, sockets, strict=True)]
    await asyncio.sleep(3)
    for client in clients:
        client.num_messages = 0
    writer = Writer(run, hz, seconds)
    began = time.time()
    await asyncio.to_thread(writer.run)
    final = await asyncio.to_thread(cursors, topic)
    with suppress(TimeoutError):
        async with asyncio.timeout(SETTLE_S):
            for client in clients:
                await client.reached(final)
    for task, socket_ in zip(tasks, sockets, strict=True):
        task.cancel()
        await socket_.close()
    delays = [delay for client in clients for delay in client.sentences.values()]
    missing = [len(writer.sentences - set(client.sentences)) for client in clients]
    lost = sum(
        num + (client.status != "cancelled")
        for num, client in zip(missing, clients, strict=True)
        if client.cursors != final
    )
    num_messages = sum(client.num_messages for client in clients)
    percentiles = statistics.quantiles(delays, n=100)
    return Deliveries(
        num_commits=len(writer.sentences),
        num_messages=num_messages,
        per_s=num_messages / (max(client.last_at for client in clients) - began),
        p50_ms=percentiles[49] * 1_000,
        p99_ms=percentiles[98] * 1_000,
        num_merged=sum(missing),
        num_lost=lost,
    )


class Writer:
    """Commits what a busy run would: points of curves, a sentence, now and then what it waits for."""

    def __init__(self, run: Any, hz: float | None, seconds: float) -> None:
        self._run, self._hz, self._seconds = run, hz, seconds
        self.sentences: set[str] = set()

    def run(self) -> None:
        from django.db import connection, transaction
        from django.utils import timezone

        from runs.services.events import say
        from runs.services.metrics import record_metrics
        from runs.services.runs import announce, set_wait_sentence

        began, step = time.monotonic(), 0
        while (passed := time.monotonic() - began) < self._seconds:
            if self._hz is not None and step > passed * self._hz:
                time.sleep(step / self._hz - passed)
            step += 1
            sentence = f"Commit {step} at {time.time():.4f}"
            with transaction.atomic():
                now = timezone.now()
                values = {"reward/mean": 0.1, "train/grad_norm": 0.07, "time/wait_s": 60.0}
                record_metrics(self._run, values, step=step, now=now)
                say(self._run, "note", sentence, now=now)
                if step % 10 == 0:
                    set_wait_sentence(self._run, f"Step {step} waits.")
            self.sentences.add(sentence)
        with transaction.atomic():
            self._run.move("cancelled", finished_at=timezone.now())
            announce(self._run)
        connection.close()


# 3. a long curve


def measure_chart(url: str, say: Callable[[str], None]) -> dict[str, float | None]:
    from django.db import connection

    from runs.models import Run

    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if chromium is None or not (ROOT / "frontend" / "dist" / "index.html").exists():
        say("no chart: it needs Chromium and the built front end (make build)")
        return {}
    demo = Run.objects.filter(is_demo=True).latest("id")
    demo.pk, demo.name, demo.idempotency_key = None, "benchmark-chart", None
    demo.save()
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO runs_metricpoint (run_id, name, resume, step, value, at)"
                " SELECT %s, 'train/loss', 0, n, sin(n / 900.0) + random() / 4, now() - n * interval '1 second'"
                " FROM generate_series(1, %s) AS n",
                [demo.pk, NUM_POINTS],
            )
        with tempfile.TemporaryDirectory() as folder:
            state = Path(folder) / "state.json"
            state.write_text(json.dumps(_browser_state()))
            answer = subprocess.run(
                [
                    *("node", "scripts/measure-chart.mjs", url, str(state)),
                    *(f"/runs/{demo.pk}/charts", chromium),
                ],
                cwd=ROOT / "frontend",
                capture_output=True,
                text=True,
                check=False,
                timeout=180,
            )
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM runs_metricpoint WHERE run_id = %s", [demo.pk])
        demo.delete()
    if answer.returncode != 0:
        say(f"no chart: {answer.stderr.strip()[-600:]}")
        return {}
    redraws = json.loads(answer.stdout)
    say(f"redraws of {NUM_POINTS:,} points: {', '.join(f'{ms:.1f}' for ms in redraws)} ms")
    return {"chart_redraw_ms": round(max(redraws), 1)}


def _browser_state() -> dict[str, Any]:
    """A storage state of Playwright's: the first admin, signed in."""
    from django.conf import settings
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.sessions.backends.db import SessionStore
    from django.utils import timezone

    from controlplane.accounts.services.users import ensure_first_admin

    admin = ensure_first_admin(now=timezone.now())
    session = SessionStore()
    session[SESSION_KEY] = str(admin.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = admin.get_session_auth_hash()
    session.save()
    cookie = {"domain": "127.0.0.1", "path": "/", "expires": -1, "httpOnly": True, "secure": False}
    names = {settings.SESSION_COOKIE_NAME: session.session_key, "csrftoken": "a" * 32}
    return {
        "cookies": [
            {**cookie, "name": name, "value": value, "sameSite": "Lax"}
            for name, value in names.items()
        ],
        "origins": [],
    }


# 4. the entry chunk


def entry_kb_gz() -> float | None:
    """All chunks that a page needs before its first render, as scripts/check-size.mjs counts them."""
    dist = ROOT / "frontend" / "dist"
    manifest = dist / ".vite" / "manifest.json"
    if not manifest.exists():
        return None
    chunks: dict[str, Any] = json.loads(manifest.read_text())
    waiting = [key for key, chunk in chunks.items() if chunk.get("isEntry")]
    seen: set[str] = set()
    while waiting:
        key = waiting.pop()
        if key not in seen:
            seen.add(key)
            waiting += chunks[key].get("imports", [])
    sizes = (len(gzip.compress((dist / chunks[key]["file"]).read_bytes(), 9)) for key in seen)
    return round(sum(sizes) / 1_024, 1)


if __name__ == "__main__":
    sys.exit(main())

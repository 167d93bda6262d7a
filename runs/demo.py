"""The demo: brings the stack up (or joins the one that runs), launches the miniature recipe, watches it.

stack up? ── no ──> child `manage.py up` ──> ready ─┐
    └─ yes ─────────────────────────────────────────┴─> tasks, model ─> launch ─> watch ─> table, JSON
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import OperationalError, connection
from django.utils import timezone

from controlplane.accounts.models import Project
from controlplane.accounts.services.login_links import create_login_link
from controlplane.accounts.services.users import DEFAULT_PROJECT, ensure_first_admin
from controlplane.blobs import BlobStore
from controlplane.errors import Conflict
from controlplane.up.lock import Running, running
from runs.models import Attempt, Event, Run, Stage, TaskSet
from runs.selectors.steps import completed_per_h
from runs.services.recipes import save_recipe
from runs.services.report import report_table, run_report
from runs.services.runs import launch_run
from runs.services.task_sets import import_task_set

STACK_TIMEOUT_S = 180
POLL_S = 1.0
STOP_GRACE_S = 40


class Demo:
    def __init__(self, *, seed: int) -> None:
        self.seed = seed
        self.var = Path(settings.VAR_DIR)
        self.assets = self.var / "miniature" / f"seed-{seed}"
        self.stack: subprocess.Popen[bytes] | None = None

    def run(self, *, stay: bool) -> int:
        """0 only if the run succeeded."""
        try:
            here = self.join_or_start()
            admin = ensure_first_admin(now=timezone.now())
            project = Project.objects.get(slug=DEFAULT_PROJECT)
            link = here.url + create_login_link(admin, now=timezone.now())
            say(f"Open {link}\n(the link signs you in once; `manage.py login_link` makes another)")
            self.generate()
            self.import_tasks(project)
            run = self.launch(admin, project)
            status = self.watch(run, here.pid)
            if stay:
                say("The dashboard stays up; Ctrl-C stops everything.")
                self.wait_for_interrupt()
            return status
        finally:
            self.stop()

    def join_or_start(self) -> Running:
        """The stack of this var/, ready. Raises Conflict when it does not come up."""
        here = running(self.var)
        if here is None:
            command = [sys.executable, "manage.py", "up"]
            self.stack = subprocess.Popen(command, cwd=settings.BASE_DIR, start_new_session=True)
        deadline = time.monotonic() + STACK_TIMEOUT_S
        while time.monotonic() < deadline:
            here = running(self.var)
            if here is not None and here.is_ready:
                return here
            if self.stack is not None and self.stack.poll() is not None:
                raise Conflict("The stack did not start; the lines above say why.")
            time.sleep(0.2)
        raise Conflict(f"The stack was not ready after {STACK_TIMEOUT_S} s; see {self.var}/logs.")

    def generate(self) -> None:
        if (self.assets / "manifest.json").exists():
            return
        say("Generating tasks, traces and a random base model ...")
        command = [sys.executable, "-m", "recipes.miniature", "--seed", str(self.seed)]
        subprocess.run(
            [*command, "--out", str(self.assets)],
            cwd=settings.BASE_DIR,
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def import_tasks(self, project: Project) -> None:
        store = BlobStore(settings.BLOB_URL)
        baselines = reference_lines(json.loads((self.assets / "baselines.json").read_text()))
        for name, split, folder, lines in (
            (f"miniature-train-seed-{self.seed}", TaskSet.Split.TRAIN, "train", {}),
            ("miniature-held-out", TaskSet.Split.HELD_OUT, "held_out", baselines),
        ):
            import_task_set(
                project,
                store,
                name=name,
                split=split,
                directory=self.assets / "tasks" / folder,
                now=timezone.now(),
                source="python -m recipes.miniature",
                baselines=lines,
            )

    def launch(self, admin: Any, project: Project) -> Run:
        """The active miniature run, or a new one."""
        active = Run.objects.filter(project=project, name="miniature", status__in=Run.ACTIVE).last()
        if active is not None:
            say(f"Joining run {active.pk}, which is {active.status}.")
            return active
        source = (Path(settings.BASE_DIR) / "recipes" / "miniature.yaml").read_text()
        source = source.replace("seed-1", f"seed-{self.seed}")
        source = source.replace("\nseed: 1\n", f"\nseed: {self.seed}\n")
        source = source.replace("path: var/", f"path: {self.var}/")
        source = source.replace("traces: var/", f"traces: {self.var}/")
        save_recipe(admin, project, name="miniature", source=source, now=timezone.now())
        return launch_run(admin, project, source, now=timezone.now())

    def watch(self, run: Run, stack_pid: int) -> int:
        """Print what happens until the run ends, then its table."""
        began, cpu_before = time.monotonic(), tree_cpu_s(stack_pid)
        last_event, line = 0, ""
        while True:
            try:
                run.refresh_from_db()
                for event in Event.objects.filter(run=run, pk__gt=last_event).order_by("pk"):
                    say(f"{event.at.astimezone():%H:%M:%S} {event.sentence}")
                    last_event = event.pk
                now_line = status_line(run)
                if now_line != line:
                    say(now_line)
                    line = now_line
                if run.is_terminal:
                    break
            except OperationalError as error:
                say(f"PostgreSQL does not answer ({error}); waiting for it.")
            finally:
                connection.close()
            if self.stack is not None and self.stack.poll() is not None:
                raise Conflict("The stack ended; see the lines above.")
            time.sleep(POLL_S)
        wall_s = time.monotonic() - began
        report = run_report(run, wall_s=wall_s, cpu_s=tree_cpu_s(stack_pid) - cpu_before)
        path = self.var / "reports" / "miniature.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(report, indent=1) + "\n")
        say("\n" + report_table(report))
        say(f"\nRun {run.pk} {run.status} in {wall_s:.0f} s; written to {path}")
        return 0 if run.status == Run.Status.SUCCEEDED else 1

    def wait_for_interrupt(self) -> None:
        try:
            while self.stack is None or self.stack.poll() is None:
                time.sleep(0.5)
        except KeyboardInterrupt:
            say("Stopping.")

    def stop(self) -> None:
        """End the stack that this process started; one that was there stays."""
        if self.stack is None or self.stack.poll() is not None:
            return
        self.stack.send_signal(signal.SIGINT)
        try:
            self.stack.wait(STOP_GRACE_S)
        except subprocess.TimeoutExpired:
            self.stack.kill()
            self.stack.wait()


def reference_lines(measured: dict[str, Any]) -> dict[str, dict[str, float]]:
    """The blind searchers at the turn cap, under names that say what they are."""
    cap = measured["max_tries"]
    names = {
        "with_repetition": f"blind, {cap} tries",
        "distinct": f"blind, {cap} distinct tries",
        "in_listed_order": f"a script: tries 1 to {cap} in order",
    }
    lines = {}
    for key, name in names.items():
        row = measured[key][-1]
        lines[name] = {"mean": row["pass_at_1"], "low": row["low"], "high": row["high"]}
    return lines


def status_line(run: Run) -> str:
    """Stage, step, solve rate, trajectories/h, in flight, failures."""
    stage = run.stages.filter(status=Stage.Status.RUNNING).first()
    parts = [f"[{stage.name if stage else run.status}]", run.wait_sentence]
    if stage is not None and stage.kind != Stage.Kind.SFT:
        rewards = list(
            stage.groups.filter(reward_mean__isnull=False)
            .order_by("-index")
            .values_list("reward_mean", flat=True)[:16]
        )
        if rewards:
            parts.append(f"solve rate {sum(r or 0.0 for r in rewards) / len(rewards):.2f}.")
        parts.append(f"{completed_per_h(run, until=timezone.now()):.0f} trajectories/h.")
    num_failed = Attempt.objects.filter(run=run, status=Attempt.Status.FAILED).count()
    return " ".join([*parts, f"{num_failed} infrastructure failures."])


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def tree_cpu_s(root: int) -> float:
    """CPU seconds of a process, its live descendants and all that they have reaped (Linux /proc)."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(entry.name)
        children.setdefault(int(fields[1]), []).append(pid)
        ticks[pid] = sum(int(value) for value in fields[11:15])
    total, waiting = 0, [root]
    while waiting:
        pid = waiting.pop()
        total += ticks.get(pid, 0)
        waiting += children.get(pid, [])
    return total / os.sysconf("SC_CLK_TCK")

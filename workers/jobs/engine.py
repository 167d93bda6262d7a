"""One Celery job per engine: it owns the engine's lease, its server process and its weights.

    claim ─> start server ─> syncing ─> [orders: renew lease, load ─> behind? pause ─ load ─ confirm ─ continue]
                                              └─ not wanted ─> stop ─> gone;   process died ─> lost

Only this job changes this engine. Invariants: a pause always ends in continue (finally, and first thing
after a claim); the version it reports is the one that /model_info confirmed.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

from celery import shared_task
from django.conf import settings
from django.db import DatabaseError, OperationalError
from django.utils import timezone

from controlplane.blobs import BlobCorrupt, BlobStore
from controlplane.errors import LeaseLost
from runs import recipe as recipes
from runs.services import engines
from sandboxes.failures import Failure, FailureClass
from workers.engines.client import EngineClient
from workers.engines.server import EngineProcess, start_reference
from workers.jobs.runtime import database, runtime
from workers.jobs.weights import weights_directory

log = logging.getLogger(__name__)

POLL_S = 0.25
LOAD_EVERY_S = 2.0
START_TIMEOUT_S = 120.0
MAX_FAILED_CHECKS = 3


@shared_task(ignore_result=True)
def run_engine(engine_id: int) -> None:
    """Claim the engine and serve until the run ends; a copy of the message does nothing."""
    process = runtime()
    plan = database(lambda: engines.claim_engine(engine_id, process.row.pk, now=timezone.now()))
    if plan is None:
        return
    job = _Engine(process.store, process.cache_dir, plan)
    status, sentence = "lost", "its job failed."
    try:
        sentence = job.run()
        status = "gone"
    except LeaseLost:
        log.warning("engine %s: the lease was lost; the server is stopped", engine_id)
        return
    except (Failure, BlobCorrupt, OSError) as error:
        sentence = str(error)
    except Exception as error:
        log.exception("engine %s failed in our own code", engine_id)
        sentence = f"{type(error).__name__}: {error}"
    finally:
        job.stop()
    try:
        database(
            lambda: engines.end_engine(
                engine_id, plan.token, status=status, now=timezone.now(), sentence=sentence
            )
        )
    except (LeaseLost, DatabaseError) as error:
        log.warning("engine %s: its end was not reported: %s", engine_id, error)


class _Engine:
    def __init__(self, store: BlobStore, cache_dir: Path, plan: engines.EnginePlan) -> None:
        self.store, self.cache_dir, self.plan = store, cache_dir, plan
        self.recipe = recipes.parse(plan.recipe)
        self.server: EngineProcess | None = None
        self.client: EngineClient | None = None
        self.version: int | None = None
        self.orders: engines.EngineOrders | None = None
        self.renewed_at = 0.0

    def run(self) -> str:
        """Serve until the run does not want it any more; returns the sentence that says so.

        Raises LeaseLost; Failure when the server dies or does not do as it is told.
        """
        orders = self.take_orders(None)
        if orders.is_wanted:
            self.start(orders)
        load, asked_at, num_failed = None, 0.0, 0
        while orders.is_wanted:
            if orders.version != self.version:
                self.update(orders)
            time.sleep(POLL_S)
            if self.server is not None and self.server.poll() is not None:
                raise ServerDied(f"the server process ended with {self.server.poll()}.")
            if time.monotonic() - asked_at > LOAD_EVERY_S:
                asked_at = time.monotonic()
                load, num_failed = self.look(num_failed)
            orders = self.take_orders(load)
        return "the run does not need it any more."

    def take_orders(self, load: dict[str, Any] | None) -> engines.EngineOrders:
        """The lease renewed. While the database is away the last orders stand, for at most a lease."""
        try:
            self.orders = database(
                lambda: engines.engine_orders(self.plan.engine_id, self.plan.token, load)
            )
            self.renewed_at = time.monotonic()
        except OperationalError:
            if self.orders is None or time.monotonic() - self.renewed_at > settings.LEASE_TTL_S:
                raise
        assert self.orders is not None
        return self.orders

    def start(self, orders: engines.EngineOrders) -> None:
        plan, wanted = self.plan, self.recipe.engines
        if plan.url:
            url, boot_id, pid = plan.url, "", None
        else:
            directory = self.weights(orders)
            logs = Path(settings.VAR_DIR) / "logs"
            logs.mkdir(exist_ok=True)
            self.server = start_reference(
                directory,
                weight_version=orders.version,
                max_running=wanted.max_running,
                max_queued=wanted.max_queued,
                context_length=self.recipe.model.context_length,
                threads=wanted.threads,
                seed=plan.seed * 1000 + plan.index,
                log_path=logs / f"engine-run{plan.run_id}-{plan.index}.log",
            )
            url, boot_id, pid = self.server.url, self.server.boot_id, self.server.pid
        self.wait_healthy()
        self.client = EngineClient(url, timeout_s=60)
        self.client.resume()
        database(
            lambda: engines.engine_started(
                plan.engine_id, plan.token, url=url, boot_id=boot_id, pid=pid, now=timezone.now()
            )
        )
        if self.server is not None:
            self.confirm(orders.version)

    def wait_healthy(self) -> None:
        """Until the server of ours generates; the lease is kept meanwhile. Raises Failure, LeaseLost."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while self.server is not None:
            try:
                self.server.wait_healthy(2.0)
            except Failure as failure:
                if failure.kind is FailureClass.BOOT_FAIL or time.monotonic() > deadline:
                    last_words = self.server.log_tail().strip().rpartition("\n")[2]
                    raise ServerDied(f"{failure.message}: {last_words}") from failure
                self.take_orders(None)
            else:
                return

    def update(self, orders: engines.EngineOrders) -> None:
        """pause (retract) -> load -> confirm -> continue: requests in flight go on with the new weights."""
        assert self.client is not None
        directory = self.weights(orders)
        self.client.pause("retract")
        try:
            self.client.update_weights_from_disk(str(directory), orders.version)
        finally:
            self.client.resume()
        self.confirm(orders.version)

    def confirm(self, version: int) -> None:
        assert self.client is not None
        said = str(self.client.model_info()["weight_version"])
        if said != str(version):
            raise ServerDied(f"it serves weight version {said} after loading {version}.")
        self.version = version
        database(
            lambda: engines.engine_synced(
                self.plan.engine_id, self.plan.token, version, now=timezone.now()
            )
        )

    def weights(self, orders: engines.EngineOrders) -> Path:
        return weights_directory(self.store, self.cache_dir, orders.weights, self.recipe.model.path)

    def look(self, num_failed: int) -> tuple[dict[str, Any] | None, int]:
        """The engine's load; a few unanswered looks in a row mean that it is gone."""
        assert self.client is not None
        try:
            return load_of(self.client.loads()), 0
        except Failure:
            if num_failed + 1 >= MAX_FAILED_CHECKS:
                raise
            return None, num_failed + 1

    def stop(self) -> None:
        if self.server is not None:
            self.server.stop()


# What is kept of /v1/loads, under our names; a server that does not say one of them leaves it out.
LOAD = {
    "num_running_reqs": "running",
    "num_waiting_reqs": "queued",
    "token_usage": "token_usage",
    "num_used_tokens": "used_tokens",
    "max_total_num_tokens": "max_tokens",
    "gen_throughput": "gen_throughput",
    "cache_hit_rate": "cache_hit_rate",
    "max_running_requests": "max_running",
    "longest_req_tokens": "longest_tokens",
}


def load_of(answer: dict[str, Any]) -> dict[str, float]:
    """The figures of an engine. Without an aggregate ranks are added up; of a share the worst rank counts."""
    ranks = [answer["aggregate"]] if "aggregate" in answer else answer.get("loads", [])
    load: dict[str, float] = {}
    for theirs, ours in LOAD.items():
        said = [float(rank[theirs]) for rank in ranks if isinstance(rank.get(theirs), int | float)]
        if said:
            is_worst = ours in ("token_usage", "cache_hit_rate", "longest_tokens")
            load[ours] = max(said) if is_worst else sum(said)
    return load


class ServerDied(OSError):
    """The server process ended, or does not serve what it was told to."""

"""The machines of a demo run: nodes, workers, engines."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from runs.demo_data.context import NODE_PREFIX, Context
from runs.demo_data.plan import ENGINES_A_NODE
from runs.demo_data.records import AttemptPlan
from runs.models import Engine, Node, Run, Worker

SLOTS_A_WORKER = 64
CAPABILITIES = {"driver": "e2b", "level": "microvm", "features": {"snapshots": True}, "missing": []}


@dataclass(frozen=True)
class Machines:
    context: Context
    rollout_workers: list[Worker]
    engines: dict[int, list[Engine]]
    """By index; one that was lost has another after it."""

    def engine_of(self, attempt: AttemptPlan) -> Engine | None:
        """The one that served its index when it started."""
        if attempt.started_at is None:
            return None
        options = self.engines[attempt.engine]
        started = self.context.when(attempt.started_at)
        return next(
            (e for e in reversed(options) if e.started_at and e.started_at <= started), options[0]
        )


def write_machines(context: Context, run: Run) -> Machines:
    """Nodes, workers and engines: all of them are gone by now."""
    ended = context.when(context.plan.finished_at + 12)
    names = [
        *(f"inference-{n + 1}" for n in range(-(-context.shape.num_engines // ENGINES_A_NODE))),
        "trainer-1",
        "agents-1",
    ]
    nodes = {}
    for name in names:
        nodes[name], _ = Node.objects.get_or_create(
            hostname=NODE_PREFIX + name,
            defaults={
                "num_cpus": 192 if "inference" in name else 128,
                "memory_bytes": 2_304 * 2**30,
                "first_seen_at": context.began,
                "last_seen_at": ended,
            },
        )
        Node.objects.filter(pk=nodes[name].pk, last_seen_at__lt=ended).update(last_seen_at=ended)
    num = -(-context.shape.max_in_flight // SLOTS_A_WORKER)
    plans = [
        ("agents-1", Worker.Kind.ROLLOUT, f"rollout{n + 1}", SLOTS_A_WORKER) for n in range(num)
    ]
    plans += [(name, Worker.Kind.ENGINE, "engine", 8) for name in names if "inference" in name]
    plans += [("trainer-1", Worker.Kind.TRAIN, "train", 1)] * (1 + context.plan.resume)
    workers = Worker.objects.bulk_create(
        Worker(
            node=nodes[node],
            name=f"{NODE_PREFIX}{name}",
            boot_id=f"{NODE_PREFIX}{run.pk}-{place}",
            kind=kind,
            status=Worker.Status.GONE,
            pid=2_000 + place,
            num_slots=slots,
            capabilities=CAPABILITIES if kind == Worker.Kind.ROLLOUT else {},
            started_at=context.when(1.0),
            last_seen_at=ended,
        )
        for place, (node, kind, name, slots) in enumerate(plans)
    )
    trainers = workers[-(1 + context.plan.resume) :]
    lost = [s.at for s in context.plan.sentences if s.kind == "trainer_lost"]
    for worker, died_at in zip(trainers, lost, strict=False):
        worker.status, worker.last_seen_at = Worker.Status.LOST, context.when(died_at)
    Worker.objects.bulk_update(trainers, ["status", "last_seen_at"])
    return Machines(context, workers[:num], _engines(context, run, workers[num:], ended))


def _engines(
    context: Context, run: Run, workers: list[Worker], ended: datetime
) -> dict[int, list[Engine]]:
    rng = np.random.default_rng([context.seed, 5])
    rows = []
    for engine in context.plan.engines:
        is_lost = engine.lost_at is not None
        end = engine.lost_at if engine.lost_at is not None else context.plan.finished_at
        used = int(rng.uniform(0.04, 0.23) * 1_500_000)
        rows.append(
            Engine(
                run=run,
                index=engine.index,
                status=Engine.Status.LOST if is_lost else Engine.Status.GONE,
                url=context.plan.url_of(engine.index),
                boot_id=f"{NODE_PREFIX}{engine.index}",
                weight_version=context.plan.version_at(end),
                worker=workers[engine.index // ENGINES_A_NODE],
                load={
                    "running": 0,
                    "queued": 0,
                    "token_usage": round(used / 1_500_000, 4),
                    "used_tokens": used,
                    "max_tokens": 1_500_000,
                    "gen_throughput": round(float(rng.uniform(900, 1_500)), 1),
                    "cache_hit_rate": round(float(rng.uniform(0.93, 0.975)), 4),
                    "max_running": 16,
                    "longest_tokens": int(rng.uniform(41_000, 64_800)),
                },
                failure_message="no heartbeat for 30 s; its node answers no ping"
                if is_lost
                else "",
                created_at=context.when(engine.started_at - 6),
                started_at=context.when(engine.started_at),
                synced_at=context.when(engine.started_at + 21),
                finished_at=context.when(end) if is_lost else ended,
            )
        )
    found: dict[int, list[Engine]] = defaultdict(list)
    for row in Engine.objects.bulk_create(rows):
        found[row.index].append(row)
    return found

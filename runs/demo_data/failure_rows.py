"""The sandboxes of a demo run, and what went wrong in and around them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import datetime

from controlplane.accounts.models import Project
from runs.demo_data.context import BATCH, NODE_PREFIX, Context
from runs.demo_data.faults import evidence_of
from runs.demo_data.plan import ENGINES_A_NODE
from runs.demo_data.records import AttemptPlan
from runs.models import Attempt
from sandboxes.failures import Failure as Raised
from sandboxes.models import Failure, FailureGroup, Sandbox

LEVELS = {"docker": "docker", "e2b": "microvm"}


def write_sandboxes(context: Context, attempts: Mapping[AttemptPlan, Attempt]) -> int:
    """One for each attempt that was claimed, and the failures; returns how many failures."""
    boxes, failed = [], []
    for attempt, row in attempts.items():
        if attempt.started_at is None or attempt.finished_at is None:
            continue
        boxes.append(_sandbox(context, attempt, row))
        if attempt.fault is not None and attempt.status in ("failed", "completed"):
            failed.append((attempt, row))
    Sandbox.objects.bulk_create(boxes, batch_size=BATCH)
    _write_failures(context, failed)
    return len(failed)


def _sandbox(context: Context, attempt: AttemptPlan, row: Attempt) -> Sandbox:
    assert attempt.started_at is not None
    assert attempt.finished_at is not None
    b, timings = attempt.behaviour, dict(attempt.timings())
    admit = timings.pop("queue", 0.0)
    is_early = attempt.fault is not None and attempt.fault.at == (0.0, 0.0)
    is_broken = is_early or (attempt.fault is not None and attempt.fault.kind in ("lost", "oom"))
    if attempt.driver == "docker":
        timings["image"] = round(0.3 * timings.get("start", 0.0), 3)
        timings["start"] = round(0.7 * timings.get("start", 0.0), 3)
    return Sandbox(
        project=context.project,
        key=f"demo-{row.pk}",
        driver=attempt.driver,
        level=LEVELS[attempt.driver],
        status=Sandbox.Status.FAILED if is_broken else Sandbox.Status.GONE,
        attempt_id=row.pk,
        run_id=row.run_id,
        worker=row.worker.name if row.worker else "",
        created_at=context.when(attempt.started_at),
        ready_at=None if is_early else context.when(attempt.started_at + b.first_turn_s()),
        finished_at=context.when(attempt.finished_at + b.teardown_s),
        timings={"admit": min(admit, 5.0), **timings},
    )


def values_of(context: Context, attempt: AttemptPlan) -> dict[str, str]:
    """What the messages and logs of its failure are filled with."""
    group = attempt.member.group
    number = group.stage.index * 10**7 + group.index * 10**3 + attempt.member.index * 10
    return {
        "id": f"i{number + attempt.number:012x}",
        "repository": context.task_of(group).repository.package,
        "engine": str(attempt.engine),
    }


def _write_failures(context: Context, found: list[tuple[AttemptPlan, Attempt]]) -> None:
    raised, rows = [], []
    for attempt, row in found:
        fault = attempt.fault
        assert fault is not None
        values = values_of(context, attempt)
        failure = Raised(
            fault.stage,
            fault.kind,
            fault.message.format(**values),
            by_policy=attempt.is_suspect,
            evidence=evidence_of(fault, values),
        )
        raised.append((failure, attempt, row))
    groups = _failure_groups(
        context.project, [(f, context.when(a.finished_at or 0)) for f, a, _ in raised]
    )
    for failure, attempt, row in raised:
        rows.append(
            Failure(
                project=context.project,
                group=groups[failure.fingerprint],
                stage=failure.stage,
                kind=failure.kind,
                message=failure.message,
                attempt_id=row.pk,
                run_id=row.run_id,
                host=f"{NODE_PREFIX}agents-1"
                if failure.stage != "infer"
                else f"{NODE_PREFIX}inference-{attempt.engine // ENGINES_A_NODE + 1}",
                engine=f"engine {attempt.engine}" if failure.stage == "infer" else "",
                driver=attempt.driver,
                evidence=failure.evidence,
                is_by_policy=failure.by_policy,
                at=context.when(attempt.finished_at or 0),
            )
        )
    rows.sort(key=lambda failure: failure.at)
    Failure.objects.bulk_create(rows, batch_size=BATCH)


def _failure_groups(
    project: Project, failures: list[tuple[Raised, datetime]]
) -> dict[str, FailureGroup]:
    """By fingerprint, the groups of these failures, counted in."""
    counts = Counter(failure.fingerprint for failure, _ in failures)
    times: dict[str, list[datetime]] = defaultdict(list)
    first: dict[str, Raised] = {}
    for failure, at in failures:
        times[failure.fingerprint].append(at)
        first.setdefault(failure.fingerprint, failure)
    known = {
        g.fingerprint: g
        for g in FailureGroup.objects.filter(project=project, fingerprint__in=list(counts))
    }
    for fingerprint, failure in first.items():
        if fingerprint not in known:
            known[fingerprint] = FailureGroup.objects.create(
                project=project,
                fingerprint=fingerprint,
                stage=failure.stage,
                kind=failure.kind,
                message=failure.message,
                first_at=min(times[fingerprint]),
                last_at=max(times[fingerprint]),
            )
        group = known[fingerprint]
        group.num_failures += counts[fingerprint]
        group.first_at = min(group.first_at, *times[fingerprint])
        group.last_at = max(group.last_at, *times[fingerprint])
    FailureGroup.objects.bulk_update(known.values(), ["num_failures", "first_at", "last_at"])
    return known

"""Attempts: claimed under a lease, reported on under the same lease, or not at all.

    scheduler ── dispatch ──> queue ──> worker ── claim ──> starting ── advance ──> running ──> grading
                                                     │                                            │
                       lease expires, worker dies ── fail(lost)        complete / fail / cancel ──┘

Invariants
- A report carries the lease token. A token that is not the attempt's present one changes nothing (LeaseLost).
- A failed attempt has no reward. A trajectory gets a new attempt while its budget lasts, else it fails.
- What the policy did to its own box, twice, is the policy's: completed, reward 0 (domain.md, "Attribution").
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count, Exists, F, Q

from controlplane.errors import LeaseLost
from controlplane.live import publish
from controlplane.queue import poke
from runs.events import TrajectoryChanged, run_topic, trajectory_topic
from runs.models import Attempt, Engine, Run, Task, Trajectory, Worker
from runs.recipe import Recipe
from runs.selectors.recipes import recipe_of
from runs.services import groups
from runs.services.events import say
from runs.services.leases import lease_end
from runs.services.task_sets import count_defect
from sandboxes.failures import POLICIES, Failure, FailureClass, FailureStage, attribute
from sandboxes.services import end_sandboxes, record_failure

CAPACITY_WAIT = timedelta(seconds=2)


@dataclass(frozen=True)
class Assignment:
    """All that a worker needs to run one attempt; no row, so nothing can be written by accident."""

    attempt_id: int
    token: uuid.UUID
    project_id: int
    run_id: int
    trajectory_id: int
    stage_index: int
    seed: int
    recipe: Recipe
    task: Task
    engine_id: int
    engine_url: str
    num_attempts_before: int


@dataclass(frozen=True)
class PastFailure:
    """A stored failure, as `attribute` reads it."""

    kind: FailureClass
    by_policy: bool


@dataclass(frozen=True)
class Result:
    """What an attempt left behind, whether it completed or failed on the way."""

    blob: str = ""
    stop_reason: str = ""
    num_turns: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    version_min: int | None = None
    version_max: int | None = None
    timings: dict[str, float] = field(default_factory=dict)
    grade: dict[str, Any] = field(default_factory=dict)
    patch: str = ""
    is_patch_cut: bool = False
    num_llm_errors: int = 0


@transaction.atomic
def claim_attempt(attempt_id: int, worker_id: int, *, now: datetime) -> Assignment | None:
    """queued -> starting for the first worker that asks and is not draining; None for everyone else."""
    attempt = (
        Attempt.objects.select_related("run", "stage", "trajectory")
        .only(
            "number", "run__project", "run__seed", "run__status", "stage__index", "trajectory__task"
        )
        .filter(
            ~Exists(Worker.objects.filter(pk=worker_id, status=Worker.Status.DRAINING)),
            pk=attempt_id,
            status=Attempt.Status.QUEUED,
            cancel_reason="",
            run__status__in=[Run.Status.RUNNING, Run.Status.PAUSED],
        )
        .first()
    )
    if attempt is None:
        return None
    engine = choose_engine(attempt.run)
    if engine is None:
        Attempt.objects.filter(pk=attempt_id, status=Attempt.Status.QUEUED).update(
            dispatched_at=None
        )
        return None
    token = uuid.uuid4()
    claimed = Attempt.objects.filter(
        pk=attempt_id, status=Attempt.Status.QUEUED, cancel_reason=""
    ).update(
        status=Attempt.Status.STARTING,
        lease_token=token,
        lease_expires_at=lease_end(),
        worker_id=worker_id,
        engine=engine,
        started_at=now,
    )
    if not claimed:
        return None
    run, stage = attempt.run, attempt.stage
    return Assignment(
        attempt_id=attempt_id,
        token=token,
        project_id=run.project_id,
        run_id=run.pk,
        trajectory_id=attempt.trajectory_id,
        stage_index=stage.index,
        seed=run.seed,
        recipe=recipe_of(run.pk),
        task=_task_of(attempt.trajectory.task_id),
        engine_id=engine.pk,
        engine_url=engine.url,
        num_attempts_before=attempt.number - 1,
    )


@lru_cache(maxsize=4096)
def _task_of(task_id: int) -> Task:
    """A task's content, which never changes; what is said about its quarantine here may be old."""
    return Task.objects.get(pk=task_id)


def choose_engine(run: Run) -> Engine | None:
    """The serving engine with the fewest attempts in flight, among those not too far behind the weights."""
    engines = list(
        Engine.objects.filter(run=run, status=Engine.Status.SERVING).only(
            "index", "url", "weight_version"
        )
    )
    newest = max((e.weight_version or 0 for e in engines), default=0)
    fresh = [e for e in engines if (e.weight_version or 0) >= newest]
    if len(fresh) < 2:
        return fresh[0] if fresh else None
    in_flight = dict(
        Attempt.objects.filter(run=run, status__in=Attempt.IN_FLIGHT)
        .values_list("engine")
        .annotate(Count("pk"))
    )
    return min(fresh, key=lambda engine: (in_flight.get(engine.pk, 0), engine.index))


def advance_attempt(attempt_id: int, token: uuid.UUID, status: str) -> None:
    """starting -> running -> grading. Raises LeaseLost."""
    before = next(
        s for s, after in Attempt.TRANSITIONS.items() if status in after and s != "queued"
    )
    moved = Attempt.objects.filter(pk=attempt_id, lease_token=token, status=before).update(
        status=status
    )
    if not moved:
        raise LeaseLost(f"Attempt {attempt_id} is no longer ours.")


@transaction.atomic
def complete_attempt(
    attempt_id: int, token: uuid.UUID, result: Result, *, reward: float, now: datetime
) -> None:
    """grading -> completed, with the reward that the verifier gave. Raises LeaseLost."""
    attempt = _owned(attempt_id, token)
    is_attributed = result.grade.get("details", {}).get("attributed") == "policy"
    _complete(attempt, result, reward=reward, now=now, is_attributed=is_attributed)


@transaction.atomic
def fail_attempt(
    attempt_id: int,
    token: uuid.UUID,
    failure: Failure,
    result: Result,
    *,
    now: datetime,
    host: str = "",
    driver: str = "",
) -> None:
    """The infrastructure failed: no reward; a new attempt within the budget. Raises LeaseLost."""
    attempt = _owned(attempt_id, token)
    _fail(attempt, failure, result, now=now, host=host, driver=driver)


@transaction.atomic
def cancel_attempt(attempt_id: int, token: uuid.UUID, result: Result, *, now: datetime) -> None:
    """The worker ended what it was asked to end. Raises LeaseLost."""
    attempt = _owned(attempt_id, token)
    reason = attempt.cancel_reason or Attempt.CancelReason.RUN_STOPPED
    attempt.move(
        Attempt.Status.CANCELLED, finished_at=now, cancel_reason=reason, **_columns(result)
    )
    _end_trajectory(attempt, Trajectory.Status.CANCELLED, now=now)


@transaction.atomic
def expire_attempts(
    attempts: Iterable[Attempt],
    *,
    now: datetime,
    sentence: str,
    kind: FailureClass = FailureClass.LOST,
) -> int:
    """The verdict on attempts whose worker is gone: tried again. Their boxes died with it.

    kind: `lost` spends a retry; `capacity` (a worker that said goodbye) does not.
    """
    expired = []
    for attempt in (
        Attempt.objects.select_for_update(skip_locked=True, of=("self",), no_key=True)
        .select_related("run", "trajectory__group", "trajectory__task", "stage", "worker__node")
        .filter(pk__in=[a.pk for a in attempts], status__in=Attempt.IN_FLIGHT)
        .order_by("pk")
    ):
        if attempt.cancel_reason:
            attempt.move(Attempt.Status.CANCELLED, finished_at=now)
            _end_trajectory(attempt, Trajectory.Status.CANCELLED, now=now)
        else:
            failure = Failure(FailureStage.EXEC, kind, sentence)
            host = attempt.worker.node.hostname if attempt.worker else ""
            _fail(attempt, failure, Result(), now=now, host=host)
        expired.append(attempt.pk)
    end_sandboxes(expired, now=now)
    return len(expired)


@transaction.atomic
def cancel_all(where: Q, reason: str, *, now: datetime) -> int:
    """End queued attempts at once and ask those in flight to end; returns how many.

    All are locked before the first group is: a worker that reports holds its attempt and waits for the group.
    """
    live = list(
        Attempt.objects.select_for_update(of=("self",), no_key=True)
        .select_related("run", "trajectory__group", "trajectory__task", "stage")
        .filter(where, status__in=[Attempt.Status.QUEUED, *Attempt.IN_FLIGHT])
        .order_by("pk")
    )
    waiting = [attempt for attempt in live if attempt.status == Attempt.Status.QUEUED]
    asked = [a.pk for a in live if a.status != Attempt.Status.QUEUED and not a.cancel_reason]
    Attempt.objects.filter(pk__in=asked).update(cancel_reason=reason)
    for attempt in waiting:
        attempt.move(Attempt.Status.CANCELLED, finished_at=now, cancel_reason=reason)
        _end_trajectory(attempt, Trajectory.Status.CANCELLED, now=now)
    return len(waiting) + len(asked)


@dataclass(frozen=True)
class LeaseState:
    """What a renewal brings back: the attempt is still ours, and whether it should end."""

    token: uuid.UUID
    cancel_reason: str


def renew_attempts(worker: Worker, held: list[int]) -> dict[int, LeaseState]:
    """Renew the worker's leases on what it still runs, in one UPDATE ... RETURNING; what is missing from the
    answer is lost. What the worker does not run any more, though no report arrived, must expire.

    Rows are locked in the recorder's order: the two never wait for each other.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE runs_attempt SET lease_expires_at = now() + make_interval(secs => %s)"
            " WHERE id IN (SELECT id FROM runs_attempt WHERE id = ANY(%s) AND worker_id = %s"
            " AND status IN ('starting', 'running', 'grading') ORDER BY id FOR NO KEY UPDATE)"
            " RETURNING id, lease_token, cancel_reason",
            [settings.LEASE_TTL_S, held, worker.pk],
        )
        return {row[0]: LeaseState(row[1], row[2]) for row in cursor.fetchall()}


def _owned(attempt_id: int, token: uuid.UUID) -> Attempt:
    """The attempt, locked, with no more columns than a completed one needs. Raises LeaseLost."""
    attempt = (
        Attempt.objects.select_for_update(of=("self",), no_key=True)
        .select_related("run", "trajectory")
        .only(
            "status",
            "cancel_reason",
            "stage",
            "run__project",
            "run__status",
            "trajectory__status",
            "trajectory__group",
            "trajectory__run",
            "trajectory__stage",
        )
        .filter(pk=attempt_id, lease_token=token, status__in=Attempt.IN_FLIGHT)
        .first()
    )
    if attempt is None:
        raise LeaseLost(f"Attempt {attempt_id} is no longer ours.")
    return attempt


def _columns(result: Result) -> dict[str, Any]:
    return {
        "blob": result.blob,
        "stop_reason": result.stop_reason,
        "num_turns": result.num_turns,
        "prompt_tokens": result.prompt_tokens,
        "output_tokens": result.output_tokens,
        "version_min": result.version_min,
        "version_max": result.version_max,
        "timings": result.timings,
        "grade": result.grade,
        "patch": result.patch,
        "is_patch_cut": result.is_patch_cut,
        "num_llm_errors": result.num_llm_errors,
    }


def _complete(
    attempt: Attempt, result: Result, *, reward: float, now: datetime, is_attributed: bool = False
) -> None:
    if attempt.status != Attempt.Status.GRADING:
        # an attributed failure may come from any state in flight
        Attempt.objects.filter(pk=attempt.pk).update(status=Attempt.Status.GRADING)
        attempt.status = Attempt.Status.GRADING
    attempt.move(
        Attempt.Status.COMPLETED,
        reward=reward,
        finished_at=now,
        is_attributed_to_policy=is_attributed,
        **_columns(result),
    )
    _end_trajectory(attempt, Trajectory.Status.COMPLETED, now=now)


def _fail(
    attempt: Attempt,
    failure: Failure,
    result: Result,
    *,
    now: datetime,
    host: str = "",
    driver: str = "",
) -> None:
    previous = [
        PastFailure(FailureClass(kind), is_suspect)
        for kind, is_suspect in Attempt.objects.filter(
            trajectory_id=attempt.trajectory_id, status=Attempt.Status.FAILED
        ).values_list("failure_class", "is_suspect")
    ]
    record_failure(
        attempt.run.project_id,
        failure,
        attempt_id=attempt.pk,
        run_id=attempt.run_id,
        host=host,
        engine=_engine_name(attempt.engine_id),
        driver=driver,
        now=now,
    )
    if attribute(failure, previous) == "policy" and result.blob:
        attributed = replace(
            result,
            stop_reason=result.stop_reason or Attempt.StopReason.BROKE_SANDBOX,
            grade={**result.grade, "attributed": "policy", "evidence": str(failure)},
        )
        _complete(attempt, attributed, reward=0.0, now=now, is_attributed=True)
        return
    attempt.move(
        Attempt.Status.FAILED,
        finished_at=now,
        failure_stage=str(failure.stage),
        failure_class=str(failure.kind),
        failure_message=failure.message[:2000],
        is_suspect=failure.by_policy,
        **_columns(result),
    )
    if failure.kind is FailureClass.TASK_DEFECT:
        task = attempt.trajectory.task
        if count_defect(task, failure.message, now=now):
            sentence = f"Task {task.key} is in quarantine: {failure.message}"
            say(attempt.run, "task_quarantined", sentence, now=now, level="warning")
    policy = POLICIES[failure.kind]
    counted = [past.kind for past in previous if not POLICIES[past.kind].waits]
    budget = recipe_of(attempt.run_id).rollout.max_infra_attempts
    is_in_budget = policy.waits or (
        counted.count(failure.kind) < policy.retries and len(counted) + 1 < budget
    )
    is_wanted = attempt.run.status in (Run.Status.RUNNING, Run.Status.PAUSED)
    if is_in_budget and is_wanted and not attempt.cancel_reason:
        wait = timedelta(seconds=failure.retry_after_s) if failure.retry_after_s else CAPACITY_WAIT
        queue_attempt(attempt.trajectory, now=now, not_before=now + wait if policy.waits else None)
    elif attempt.cancel_reason or not is_wanted:
        _end_trajectory(attempt, Trajectory.Status.CANCELLED, now=now)
    else:
        _end_trajectory(attempt, Trajectory.Status.FAILED, now=now)
    poke()


def _engine_name(engine_id: int | None) -> str:
    if engine_id is None:
        return ""
    index = Engine.objects.filter(pk=engine_id).values_list("index", flat=True).first()
    return f"engine {index}"


def queue_attempt(
    trajectory: Trajectory, *, now: datetime, not_before: datetime | None = None
) -> Attempt:
    """One more try at the trajectory."""
    Trajectory.objects.filter(pk=trajectory.pk).update(num_attempts=F("num_attempts") + 1)
    trajectory.refresh_from_db(fields=["num_attempts"])
    return Attempt.objects.create(
        trajectory=trajectory,
        run_id=trajectory.run_id,
        stage_id=trajectory.stage_id,
        number=trajectory.num_attempts,
        not_before=not_before,
        created_at=now,
    )


def _end_trajectory(attempt: Attempt, status: str, *, now: datetime) -> None:
    """Copy the deciding attempt's figures to its trajectory, then let the group look at itself."""
    trajectory = attempt.trajectory
    reward = attempt.reward if status == Trajectory.Status.COMPLETED else None
    trajectory.move(
        status,
        reward=reward,
        finished_at=now,
        stop_reason=attempt.stop_reason,
        num_turns=attempt.num_turns,
        prompt_tokens=attempt.prompt_tokens,
        output_tokens=attempt.output_tokens,
        version_min=attempt.version_min,
        version_max=attempt.version_max,
    )
    run = attempt.run
    event = TrajectoryChanged(run=run.pk, trajectory=trajectory.pk, status=status)
    publish(run_topic(run.project_id, run.pk), event)
    publish(trajectory_topic(run.project_id, trajectory.pk), event)
    groups.member_ended(trajectory.group_id, now=now)
    poke()

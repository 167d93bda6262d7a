"""The level-triggered scheduler: reads the tables, decides, enqueues. One function per decision.

           poke (anyone) ─┐                       ┌─ begin_run, finish_run
           beat (2 s) ────┴─> run_pass ─ per run ─┤  want_engines          -> engine jobs
                                                  │  advance_stage         -> train job
                                                  │  admit                 -> groups, queued attempts
                                                  │  dispatch              -> rollout jobs into free slots
                                                  └─ explain               -> the wait sentence

Consumes nothing but rows; waits for nothing. A lost, doubled or late pass is harmless.

Invariants
- Each run is decided in one transaction under pg_try_advisory_xact_lock: two passes never decide the same run.
- Nothing is counted from memory: slots, capacity and staleness come from live rows of this transaction.
- What was dispatched and not claimed within REDISPATCH_S is dispatched again; the claim is a compare-and-set.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q, Sum
from django.utils import timezone

from controlplane.queue import enqueue
from runs.models import Attempt, Engine, Group, Run, Stage, Step, Worker
from runs.recipe import EvalStage, Recipe, RlStage, parse
from runs.services import engines, evaluations, groups, runs, stages, steps

log = logging.getLogger(__name__)

_LOCK = 0x4C54  # "LT": the first half of the advisory lock; the second is the run


def run_pass() -> None:
    """Decide every active run once; one that fails is logged and does not hold up the others."""
    for run_id in list(
        Run.objects.filter(status__in=Run.ACTIVE).order_by("pk").values_list("pk", flat=True)
    ):
        try:
            with transaction.atomic():
                if _try_lock(run_id):
                    run = Run.objects.select_related("project").get(pk=run_id)
                    decide(run, now=timezone.now())
        except Exception:
            log.exception("the scheduler could not decide run %s", run_id)


def _try_lock(run_id: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s, %s)", [_LOCK, run_id])
        row = cursor.fetchone()
    return bool(row and row[0])


def decide(run: Run, *, now: datetime) -> None:
    """Everything that may be done for one run now."""
    recipe = parse(run.recipe)
    if run.status == Run.Status.QUEUED:
        runs.begin_run(run, now=now)
    if run.status == Run.Status.STOPPING:
        finish_stopping(run, now=now)
        return
    dispatch_engines(run, recipe, now=now)
    stage = current_stage(run)
    if stage is None:
        if run.status == Run.Status.RUNNING:  # a paused run ends when somebody lets it go on
            runs.finish_run(run, Run.Status.SUCCEEDED, now=now, sentence="All stages succeeded.")
        return
    if stage.status == Stage.Status.FAILED:
        sentence = f"The run failed in stage {stage.name}: {stage.failure_message}"
        runs.finish_run(run, Run.Status.FAILED, now=now, sentence=sentence)
        return
    if run.status == Run.Status.RUNNING:
        advance_stage(run, recipe, stage, now=now)
    dispatch_attempts(run, recipe, now=now)
    if run.status == Run.Status.RUNNING:
        runs.set_wait_sentence(run, explain(run, stage))


def current_stage(run: Run) -> Stage | None:
    """The first stage that has not succeeded."""
    stage = (
        run.stages.exclude(status__in=[Stage.Status.SUCCEEDED, Stage.Status.SKIPPED])
        .order_by("index")
        .first()
    )
    if stage is not None:
        stage.run = run
    return stage


def advance_stage(run: Run, recipe: Recipe, stage: Stage, *, now: datetime) -> None:
    """Begin what can begin, feed what runs, end what is over."""
    if stage.status == Stage.Status.PENDING:
        if stage.kind == Stage.Kind.EVAL and num_behind(run, recipe) > 0:
            return
        stages.begin_stage(stage, now=now)
    if stage.status != Stage.Status.RUNNING:
        return
    plan = recipe.stages[stage.index]
    if isinstance(plan, EvalStage):
        finish_evaluation(stage, plan, now=now)
    else:
        dispatch_training(stage, now=now)
    if isinstance(plan, RlStage):
        admit(stage, plan, now=now)


def num_behind(run: Run, recipe: Recipe) -> int:
    """Engines that do not serve the run's newest weights yet."""
    wanted = len(recipe.engines.urls) or recipe.engines.num_engines
    return (
        wanted
        - Engine.objects.filter(
            run=run, status=Engine.Status.SERVING, weight_version=run.weight_version
        ).count()
    )


def finish_evaluation(stage: Stage, plan: EvalStage, *, now: datetime) -> None:
    """Every task is scored: the stage has its result."""
    is_over = not stage.groups.filter(status__in=[Group.Status.OPEN, Group.Status.READY]).exists()
    if is_over and not stages.reopen_groups(stage, plan, now=now):
        evaluations.finish_evaluation(stage, now=now)


def dispatch_engines(run: Run, recipe: Recipe, *, now: datetime) -> None:
    """A job for every engine row that nobody owns."""
    patience = now - timedelta(seconds=settings.REDISPATCH_S)
    for engine in engines.want_engines(run, recipe, now=now):
        if engine.dispatched_at is None or engine.dispatched_at < patience:
            Engine.objects.filter(pk=engine.pk).update(dispatched_at=now)
            enqueue("workers.jobs.engine.run_engine", engine.pk, expires_s=settings.REDISPATCH_S)


def dispatch_training(stage: Stage, *, now: datetime) -> None:
    """A job for a training stage that nobody owns. What an owner let lapse is the reaper's to give up first:
    `dispatched_at` is NULL from then on, so that every death is said and counted once."""
    is_owned = (
        stage.lease_expires_at is not None
        and stage.dispatched_at is not None
        and stage.dispatched_at < stage.lease_expires_at
    )
    patience = now - timedelta(seconds=settings.REDISPATCH_S)
    is_sent = stage.dispatched_at is not None and stage.dispatched_at > patience
    if not is_owned and not is_sent:
        Stage.objects.filter(pk=stage.pk).update(dispatched_at=now)
        enqueue("workers.jobs.train.run_stage", stage.pk, expires_s=settings.REDISPATCH_S)


def admit(stage: Stage, plan: RlStage, *, now: datetime) -> None:
    """Bounded staleness by admission (invariant 6): drop what is too old, then open what capacity allows.

    The stage is locked first, as the trainer's services do: both drop groups, and neither waits for the other
    while it holds one.
    """
    Stage.objects.select_for_update(no_key=True).values_list("pk").get(pk=stage.pk)
    steps.drop_stale_groups(stage, plan, now=now)
    steps.warn_of_dropped_groups(stage, plan, now=now)
    num = stages.num_open(stage, plan)
    if num == 0:
        return
    tasks = groups.tasks_of_stage(stage)
    if not tasks:
        stages.fail_stage(stage, "All its tasks are in quarantine.", now=now)
        return
    seed = stage.run.seed
    first = stage.next_group_index
    chosen = [groups.task_at(tasks, seed, first + offset) for offset in range(num)]
    groups.open_groups(stage, chosen, plan.group_size, now=now)


def dispatch_attempts(run: Run, recipe: Recipe, *, now: datetime) -> None:
    """Fill free slots of live rollout workers with the oldest groups' attempts, below the run's cap."""
    if not Engine.objects.filter(run=run, status=Engine.Status.SERVING).exists():
        return
    patience = now - timedelta(seconds=settings.REDISPATCH_S)
    is_busy = Q(status__in=Attempt.IN_FLIGHT) | Q(
        status=Attempt.Status.QUEUED, dispatched_at__gt=patience
    )
    slots = (
        Worker.objects.filter(kind=Worker.Kind.ROLLOUT, status=Worker.Status.LIVE).aggregate(
            total=Sum("num_slots")
        )["total"]
        or 0
    )
    # What a draining worker still holds takes no slot of the others.
    is_draining = Q(worker__status=Worker.Status.DRAINING)
    free = slots - Attempt.objects.filter(is_busy).exclude(is_draining).count()
    cap = min(recipe.rollout.max_in_flight, recipe.sandbox.max_concurrent)
    free = min(free, cap - Attempt.objects.filter(is_busy, run=run).count())
    if free <= 0:
        return
    waiting = list(
        Attempt.objects.filter(
            Q(not_before__isnull=True) | Q(not_before__lte=now),
            Q(dispatched_at__isnull=True) | Q(dispatched_at__lte=patience),
            run=run,
            status=Attempt.Status.QUEUED,
        )
        .order_by("trajectory__group", "pk")
        .values_list("pk", flat=True)[:free]
    )
    Attempt.objects.filter(pk__in=waiting).update(dispatched_at=now)
    for attempt_id in waiting:
        enqueue("workers.jobs.rollout.run_attempt", attempt_id, expires_s=settings.REDISPATCH_S)


def finish_stopping(run: Run, *, now: datetime) -> None:
    """stopping -> cancelled once nothing of the run is in flight or owned."""
    in_flight = Attempt.objects.filter(run=run, status__in=Attempt.IN_FLIGHT).count()
    training = run.stages.filter(status=Stage.Status.RUNNING, lease_expires_at__gt=now).exists()
    if in_flight or training:
        parts = [f"{in_flight} trajectories in flight"] if in_flight else []
        parts += ["the trainer"] if training else []
        runs.set_wait_sentence(run, f"Stopping: waiting for {' and '.join(parts)} to end.")
        return
    runs.finish_run(run, Run.Status.CANCELLED, now=now, sentence=run.stop_reason)


def explain(run: Run, stage: Stage) -> str:
    """What the run waits for now, and why, in one sentence."""
    serving = Engine.objects.filter(run=run, status=Engine.Status.SERVING)
    if stage.status == Stage.Status.PENDING:
        ready = serving.filter(weight_version=run.weight_version).count()
        return (
            f"Stage {stage.name} waits for the engines to serve weight version "
            f"{run.weight_version} ({ready} do).{_last_loss(run)}"
        )
    if stage.kind == Stage.Kind.SFT:
        return f"Fine-tuning ({stage.name})."
    in_flight = Attempt.objects.filter(run=run, status__in=Attempt.IN_FLIGHT).count()
    if not serving.exists():
        return f"Stage {stage.name} waits for an engine to serve.{_last_loss(run)}"
    if stage.kind == Stage.Kind.EVAL:
        scored = stage.groups.filter(status=Group.Status.SCORED).count()
        total = stage.groups.exclude(status=Group.Status.DROPPED).count()
        return f"Evaluation {stage.name}: {scored} of {total} tasks scored, {in_flight} trajectories in flight."
    step = stage.steps.filter(resume=run.resume).order_by("-index").first()
    if step is None or stage.lease_token is None:
        return f"Stage {stage.name} waits for a train worker; {in_flight} trajectories in flight."
    if step.status == Step.Status.COLLECTING:
        ready = stage.groups.filter(status=Group.Status.READY).count()
        plan = parse(run.recipe).stages[stage.index]
        assert isinstance(plan, RlStage)
        dropped = steps.num_dropped_for(step)
        is_many = dropped > plan.max_dropped_groups_per_step
        return (
            f"Step {step.index} of {plan.num_steps} collects: {ready} of {plan.groups_per_step} groups "
            f"are ready, {in_flight} trajectories in flight"
            + (f"; {dropped} groups were dropped meanwhile." if is_many else ".")
        )
    return f"Step {step.index} is {step.status}; {in_flight} trajectories in flight."


def _last_loss(run: Run) -> str:
    """Why the newest engine is not there, if it or the one before it was lost."""
    newest = Engine.objects.filter(run=run).exclude(status=Engine.Status.STARTING).order_by("-id")
    last = newest.first()
    if last is None or last.status != Engine.Status.LOST:
        return ""
    return f" Engine {last.index} was lost: {last.failure_message}"

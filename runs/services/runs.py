"""The life of a run. Each function validates, moves, writes a sentence, publishes and pokes the scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Q

from controlplane.accounts.access import Actor, require
from controlplane.accounts.audit import record_audit
from controlplane.accounts.models import Project, Role, User
from controlplane.errors import Conflict, FieldError, Invalid, NotFound
from controlplane.live import publish
from controlplane.queue import poke
from runs import recipe as recipes
from runs.events import RunChanged, run_topic, runs_topic
from runs.models import Attempt, Checkpoint, Run, Stage, WeightVersion
from runs.selectors.checkpoints import weights_of
from runs.selectors.commands import stage_facts_of, why_no_checkpoint
from runs.services import attempts, engines, weights
from runs.services.events import say
from runs.services.preflight import preflight


def announce(run: Run) -> None:
    """Tell the list and the run's page that the run changed."""
    event = RunChanged(run=run.pk, status=run.status)
    publish(runs_topic(run.project_id), event)
    publish(run_topic(run.project_id, run.pk), event)


@transaction.atomic
def launch_run(
    actor: Actor,
    project: Project,
    source: str,
    *,
    now: datetime,
    idempotency_key: str | None = None,
    name: str | None = None,
    from_run: int | None = None,
    from_checkpoint: int | None = None,
) -> Run:
    """Queue a run of the recipe `source` (YAML). The same idempotency key gives the run that it made.

    `from_run` is the run that it was cloned from; with `from_checkpoint` it starts from those weights.
    Raises Forbidden; Invalid with every failed check named; Conflict when the key came with another recipe;
    NotFound for a run that is not of the project.
    """
    require(actor, project.pk, Role.OPERATOR)
    if idempotency_key is not None:
        known = Run.objects.filter(project=project, idempotency_key=idempotency_key).first()
        if known is not None:
            if (known.recipe_source, known.from_checkpoint_id) != (source, from_checkpoint):
                raise Conflict(
                    "This Idempotency-Key was used with another recipe; use a new key.",
                    code="idempotency_key_reused",
                )
            return known
    recipe = recipes.load(source)
    checks = preflight(project, source, from_checkpoint=from_checkpoint)
    refusals = [check for check in checks if check.level == "error"]
    if refusals:
        raise Invalid(
            "The launch was refused.",
            code="preflight_failed",
            errors=[
                FieldError(check.pointer, f"{check.sentence} {check.remedy}".strip())
                for check in refusals
            ],
        )
    start = _start_of(from_checkpoint) if from_checkpoint is not None else None
    run = Run.objects.create(
        project=project,
        cloned_from=_parent_of(project, from_run, start),
        from_checkpoint=start.checkpoint if start else None,
        name=name or recipe.name,
        status=Run.Status.QUEUED,
        recipe=recipe.model_dump(mode="json"),
        recipe_source=source,
        seed=recipe.seed,
        created_by=actor if isinstance(actor, User) else None,
        idempotency_key=idempotency_key,
        wait_sentence="Waiting for the scheduler.",
        created_at=now,
    )
    Stage.objects.bulk_create(
        Stage(
            run=run,
            index=index,
            kind=stage.kind,
            name=stage.name,
            num_steps=stage.num_steps if isinstance(stage, recipes.RlStage) else 0,
        )
        for index, stage in enumerate(recipe.stages)
    )
    if start is not None:
        weights.start_from(run, start.weights, now=now)
    record_audit(
        actor, "run.launch", run, project=project, now=now, details={"recipe": recipe.name}
    )
    say(run, "run_queued", _launch_sentence(actor, run, recipe.name), now=now)
    announce(run)
    poke()
    return run


@dataclass(frozen=True)
class _Start:
    checkpoint: Checkpoint
    weights: WeightVersion


def _start_of(checkpoint_id: int) -> _Start:
    """Locked: they cannot be pruned before the new run names them. Raises Invalid where somebody just did."""
    checkpoint = Checkpoint.objects.select_related("run").get(pk=checkpoint_id)
    found = weights_of(checkpoint).select_for_update(no_key=True).first()
    if found is None:
        sentence = f"The weights of {checkpoint} were pruned a moment ago."
        raise Invalid("The launch was refused.", errors=[FieldError("/from_checkpoint", sentence)])
    return _Start(checkpoint, found)


def _parent_of(project: Project, from_run: int | None, start: _Start | None) -> Run | None:
    if from_run is None:
        return start.checkpoint.run if start else None
    parent = Run.objects.filter(project=project, pk=from_run).first()
    if parent is None:
        raise NotFound(f"There is no run {from_run} in this project.")
    return parent


def _launch_sentence(actor: Actor, run: Run, recipe: str) -> str:
    sentence = f"{actor} launched recipe {recipe}"
    if run.cloned_from is not None:
        sentence += f", cloned from {run.cloned_from}"
    if run.from_checkpoint is not None:
        sentence += f", starting from the weights of {run.from_checkpoint}"
    return sentence + "."


@transaction.atomic
def pause_run(run: Run, *, actor: Actor, reason: str, now: datetime) -> None:
    """No admission, no new step; what is in flight finishes and engines keep serving."""
    _command(run, actor, "pause", reason, now)
    run.move(Run.Status.PAUSED, wait_sentence=f"Paused by {actor}: {reason or 'no reason given'}")
    _say_and_announce(
        run, "run_paused", f"{actor} paused the run: {reason or 'no reason given'}", now
    )


@transaction.atomic
def unpause_run(run: Run, *, actor: Actor, reason: str, now: datetime) -> None:
    """Go on from a pause."""
    _command(run, actor, "unpause", reason, now)
    run.move(Run.Status.RUNNING, wait_sentence="Going on.")
    _say_and_announce(run, "run_unpaused", f"{actor} let the run go on.", now)


@transaction.atomic
def stop_run(run: Run, *, actor: Actor, reason: str, now: datetime) -> None:
    """Cancel everything; the scheduler confirms `cancelled` once nothing of it runs (within 60 s)."""
    _command(run, actor, "stop", reason, now)
    sentence = f"{actor} stopped the run: {reason or 'no reason given'}"
    if run.status == Run.Status.QUEUED:
        run.move(Run.Status.CANCELLED, finished_at=now, stop_reason=sentence, wait_sentence="")
        run.stages.filter(status=Stage.Status.PENDING).update(
            status=Stage.Status.CANCELLED, finished_at=now
        )
    else:
        run.move(Run.Status.STOPPING, stop_reason=sentence, wait_sentence="Stopping.")
        attempts.cancel_all(Q(run=run), Attempt.CancelReason.RUN_STOPPED, now=now)
    _say_and_announce(run, "run_stopped", sentence, now)


@transaction.atomic
def resume_run(run: Run, *, actor: Actor, reason: str, now: datetime) -> None:
    """Queue a failed or cancelled run again; it goes on from the last complete checkpoint."""
    _command(run, actor, "resume", reason, now)
    run.move(
        Run.Status.QUEUED,
        finished_at=None,
        stop_reason="",
        num_auto_resumes=0,
        wait_sentence="Waiting for the scheduler.",
    )
    for stage in run.stages.filter(status__in=[Stage.Status.FAILED, Stage.Status.CANCELLED]):
        stage.move(Stage.Status.PENDING, finished_at=None, failure_message="", dispatched_at=None)
    _say_and_announce(run, "run_resumed", f"{actor} resumed the run: {reason}", now)


@transaction.atomic
def request_checkpoint(run: Run, *, actor: Actor, reason: str, now: datetime) -> None:
    """A checkpoint at the end of the step in training, or right away where none is. Raises Conflict, Forbidden."""
    _command(run, actor, "checkpoint", reason, now)
    run = Run.objects.select_for_update(no_key=True).get(pk=run.pk)
    refusal = why_no_checkpoint(run.status, run.checkpoint_asked_at, stage_facts_of(run))
    if refusal:
        raise Conflict(refusal, code="no_checkpoint_now")
    Run.objects.filter(pk=run.pk).update(checkpoint_asked_at=now)
    sentence = f"{actor} asked for a checkpoint: {reason or 'no reason given'}"
    say(run, "checkpoint_asked", sentence, now=now)
    announce(run)


def _command(run: Run, actor: Actor, action: str, reason: str, now: datetime) -> None:
    require(actor, run.project_id, Role.OPERATOR)
    record_audit(
        actor, f"run.{action}", run, project=run.project, now=now, details={"reason": reason}
    )


def _say_and_announce(run: Run, kind: str, sentence: str, now: datetime) -> None:
    say(run, kind, sentence, now=now)
    announce(run)
    poke()


@transaction.atomic
def begin_run(run: Run, *, now: datetime) -> None:
    """queued -> running, by the scheduler."""
    run.move(Run.Status.RUNNING, started_at=run.started_at or now, wait_sentence="Starting.")
    say(run, "run_started", "The run started.", now=now)
    announce(run)


@transaction.atomic
def finish_run(run: Run, status: str, *, now: datetime, sentence: str) -> None:
    """The scheduler's last word: succeeded, failed or cancelled, and why. A failure cancels what still runs."""
    run.move(
        status,
        finished_at=now,
        wait_sentence="",
        stop_reason=run.stop_reason or sentence,
        checkpoint_asked_at=None,
    )
    unfinished = run.stages.filter(status__in=[Stage.Status.PENDING, Stage.Status.RUNNING])
    unfinished.update(status=Stage.Status.CANCELLED, finished_at=now)
    attempts.cancel_all(Q(run=run), Attempt.CancelReason.RUN_STOPPED, now=now)
    engines.end_unowned_engines(run, now=now)
    level = "error" if status == Run.Status.FAILED else "info"
    say(run, f"run_{status}", sentence, now=now, level=level)
    announce(run)


def set_wait_sentence(run: Run, sentence: str) -> None:
    """What the run waits for now; written and published only when it changed, and only while the run is in
    the state that the sentence is about: a pause has its own."""
    if run.wait_sentence == sentence:
        return
    if Run.objects.filter(pk=run.pk, status=run.status).update(wait_sentence=sentence):
        run.wait_sentence = sentence
        announce(run)

"""Groups: opened by admission, settled when every member has ended, dropped with a reason.

Settling computes the group's statistics and its members' advantages once, over valid members only
(invariant 2); trainer and pages read what is stored.
"""

from __future__ import annotations

import random
from datetime import datetime

from django.db import connection, transaction
from django.db.models import Q

from controlplane.queue import poke
from runs.advantages import group_advantages, group_statistics
from runs.models import Attempt, Group, Stage, Trajectory
from runs.recipe import EvalStage, RlStage
from runs.selectors.recipes import recipe_of


def tasks_of_stage(stage: Stage) -> list[int]:
    """Ids of the stage's usable tasks in key order (an evaluation's sample is the first num_tasks)."""
    from runs.selectors.task_sets import task_set_named, usable_tasks

    recipe = recipe_of(stage.run_id)
    plan = recipe.stages[stage.index]
    assert isinstance(plan, EvalStage | RlStage)
    task_set = task_set_named(stage.run.project, recipe.task_sets[plan.task_set])
    ids = list(usable_tasks(task_set).values_list("pk", flat=True))
    return ids[: plan.num_tasks] if isinstance(plan, EvalStage) else ids


def task_at(tasks: list[int], seed: int, index: int) -> int:
    """The task of the stage's index-th group: a seeded permutation per epoch, so no task starves."""
    epoch, position = divmod(index, len(tasks))
    order = list(range(len(tasks)))
    random.Random(f"{seed}:{epoch}").shuffle(order)  # noqa: S311 - repeatable on purpose
    return tasks[order[position]]


@transaction.atomic
def open_groups(
    stage: Stage, task_ids: list[int], num_members: int, *, now: datetime
) -> list[Group]:
    """One group per task id, each with its trajectories and their first attempts, queued."""
    run = stage.run
    first = stage.next_group_index
    opened = Group.objects.bulk_create(
        Group(
            run=run,
            stage=stage,
            task_id=task_id,
            index=first + offset,
            resume=run.resume,
            opened_version=run.weight_version,
            num_members=num_members,
            opened_at=now,
        )
        for offset, task_id in enumerate(task_ids)
    )
    trajectories = Trajectory.objects.bulk_create(
        Trajectory(
            run=run,
            stage=stage,
            group=group,
            task_id=group.task_id,
            index=index,
            num_attempts=1,
            created_at=now,
        )
        for group in opened
        for index in range(num_members)
    )
    Attempt.objects.bulk_create(
        Attempt(trajectory=trajectory, run=run, stage=stage, number=1, created_at=now)
        for trajectory in trajectories
    )
    stage.next_group_index = first + len(task_ids)
    Stage.objects.filter(pk=stage.pk).update(next_group_index=stage.next_group_index)
    return opened


@transaction.atomic
def member_ended(group_id: int, *, now: datetime) -> None:
    """Settle the group if this was its last open member; siblings that end at once queue on the row."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT FROM runs_group WHERE id = %s FOR NO KEY UPDATE", [group_id])
        cursor.execute(
            "UPDATE runs_group SET num_ended ="
            " (SELECT count(*) FROM runs_trajectory WHERE group_id = %s AND status <> 'open')"
            " WHERE id = %s RETURNING status = 'open' AND num_ended = num_members",
            [group_id, group_id],
        )
        (is_over,) = cursor.fetchone()
    if is_over:
        settle(Group.objects.select_related("run", "stage").get(pk=group_id), now=now)


def settle(group: Group, *, now: datetime) -> None:
    """open -> ready | scored | dropped, by the stage's kind and the members' rewards."""
    members = list(group.trajectories.order_by("index"))
    rewards = [m.reward if m.status == Trajectory.Status.COMPLETED else None for m in members]
    is_cancelled = any(m.status == Trajectory.Status.CANCELLED for m in members)
    stats = group_statistics(rewards)
    versions = [
        m.version_min for m in members if m.reward is not None and m.version_min is not None
    ]
    figures = {
        "num_valid": stats.num_valid,
        "reward_mean": stats.mean if stats.num_valid else None,
        "reward_std": stats.std if stats.num_valid > 1 else None,
        "oldest_version": min(versions, default=None),
    }
    if group.stage.kind == Stage.Kind.EVAL:
        if is_cancelled:
            drop(group, Group.DropReason.CANCELLED, now=now, **figures)
        else:
            group.move(Group.Status.SCORED, finished_at=now, **figures)
        return
    plan = recipe_of(group.run_id).stages[group.stage.index]
    assert isinstance(plan, RlStage)
    if stats.num_valid < plan.required_valid:
        reason = Group.DropReason.CANCELLED if is_cancelled else Group.DropReason.TOO_FEW_VALID
        drop(group, reason, now=now, **figures)
    elif stats.is_zero_variance and plan.algorithm.zero_variance == "resample":
        drop(group, Group.DropReason.ZERO_VARIANCE, now=now, **figures)
    else:
        advantages = group_advantages(
            rewards, plan.algorithm.advantage, min_valid=plan.required_valid
        )
        for member, advantage in zip(members, advantages, strict=True):
            member.advantage = advantage
        Trajectory.objects.bulk_update(members, ["advantage"])
        group.move(Group.Status.READY, ready_at=now, **figures)
    poke()


def drop(group: Group, reason: str, *, now: datetime, **figures: object) -> None:
    """-> dropped; members still in flight are asked to end.

    Attempts are locked before their group, as a worker's report does: no deadlock between the two.
    """
    from runs.services.attempts import cancel_all

    live = Attempt.objects.filter(trajectory__group=group, trajectory__status="open")
    list(live.select_for_update(of=("self",), no_key=True).order_by("pk").values_list("pk"))
    locked = Group.objects.select_for_update(no_key=True).values_list("status", flat=True)
    group.status = locked.get(pk=group.pk)  # its last member may have settled it meanwhile
    if group.status in Group.terminal_statuses():
        return
    group.move(Group.Status.DROPPED, drop_reason=reason, finished_at=now, step=None, **figures)
    because = (
        Attempt.CancelReason.STALE
        if reason == Group.DropReason.STALE
        else Attempt.CancelReason.SUPERSEDED
        if reason == Group.DropReason.SUPERSEDED
        else Attempt.CancelReason.RUN_STOPPED
    )
    cancel_all(Q(trajectory__group=group), because, now=now)

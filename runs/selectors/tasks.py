"""Task sets and their tasks as the actor may see them, with what the policy made of each."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from django.db.models import (
    Case,
    CharField,
    Count,
    F,
    FloatField,
    IntegerField,
    Max,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Cast, Coalesce, NullIf
from typing_extensions import TypeAliasType, TypedDict

from controlplane.accounts.access import Actor, visible_projects
from controlplane.errors import NotFound
from controlplane.pages import Rows
from runs.models import Attempt, Task, TaskSet, Trajectory
from runs.selectors.stages import IntervalRow

TaskSetSplit = TypeAliasType("TaskSetSplit", Literal["train", "validation", "held_out"])
Bucket = TypeAliasType("Bucket", Literal["untried", "never", "sometimes", "always"])
BUCKETS: tuple[Bucket, ...] = ("untried", "never", "sometimes", "always")

NUM_BUCKETS_OF_STEPS = 12


class TaskSetRow(TypedDict):
    """A named, versioned collection of tasks."""

    id: int
    project: str
    name: str
    version: int
    split: TaskSetSplit
    digest: str
    num_tasks: int
    num_repositories: int
    num_quarantined: int
    source: str
    baselines: dict[str, IntervalRow]
    created_at: datetime


class RepositoryRow(TypedDict):
    name: str
    num_tasks: int


class TaskSetDetailRow(TaskSetRow):
    """buckets: tasks by what the policy made of them so far, over valid trajectories of all runs."""

    repositories: list[RepositoryRow]
    buckets: dict[Bucket, int]


class TaskRow(TypedDict):
    """A problem the policy is asked to solve.

    solve_rate: solved of valid trajectories, all runs, evaluations included; NULL when none is valid.
    infra_share: failed attempts of the attempts that ended. bucket: untried, never, sometimes or always solved.
    """

    id: int
    key: str
    repository: str
    difficulty: str
    verify_timeout_s: float
    quarantined_at: datetime | None
    quarantine_reason: str
    num_trajectories: int
    num_valid: int
    num_solved: int
    solve_rate: float | None
    bucket: Bucket
    num_attempts: int
    num_failed_attempts: int
    infra_share: float | None
    last_seen_at: datetime | None


class StepBucketRow(TypedDict):
    """Trajectories of the task that steps first_step..last_step of a stage trained on."""

    run: int
    stage: str
    first_step: int
    last_step: int
    num_trajectories: int
    num_solved: int


class StageOfTaskRow(TypedDict):
    """Trajectories of the task by run and stage: solved, unsolved, and the rest without a reward."""

    run: int
    run_name: str
    stage: str
    num_trajectories: int
    num_valid: int
    num_solved: int
    num_invalid: int


class FailureOfTaskRow(TypedDict):
    stage: str
    kind: str
    num_attempts: int


class TaskDetailRow(TaskRow):
    instruction: str
    setup: str
    digest: str
    task_set: int
    task_set_name: str
    split: TaskSetSplit
    steps: list[StepBucketRow]
    stages: list[StageOfTaskRow]
    failures: list[FailureOfTaskRow]


def task_sets(
    actor: Actor, *, project: str | None = None, name: str | None = None
) -> Rows[TaskSetRow]:
    """Newest first."""
    query = TaskSet.objects.filter(project__in=visible_projects(actor))
    if project:
        query = query.filter(project__slug=project)
    if name:
        query = query.filter(name=name)
    own = [n for n in TaskSetRow.__annotations__ if n != "project"]
    counted = query.annotate(
        num_quarantined=Count("tasks", filter=Q(tasks__quarantined_at__isnull=False)),
        num_repositories=Count("tasks__repository", distinct=True),
    )
    return Rows(counted.values(*own, project_slug=F("project__slug")), _task_set_rows)


def _task_set_rows(rows: list[dict[str, Any]]) -> list[TaskSetRow]:
    for row in rows:
        row["project"] = row.pop("project_slug")
    return rows  # type: ignore[return-value]


def task_set_detail(actor: Actor, task_set: int) -> TaskSetDetailRow:
    """Raises NotFound."""
    found = task_sets(actor)
    rows = found.shape(list(found.query.filter(pk=task_set)))
    if not rows:
        raise NotFound(f"There is no task set {task_set} in a project of yours.")
    tasks_of = Task.objects.filter(task_set=task_set)
    repositories = tasks_of.order_by().values("repository").annotate(num=Count("id"))
    buckets = dict(
        _with_results(tasks_of).order_by().values_list("bucket").annotate(num=Count("id"))
    )
    return TaskSetDetailRow(
        **rows[0],
        repositories=[
            RepositoryRow(name=row["repository"], num_tasks=row["num"])
            for row in repositories.order_by("-num", "repository")
        ],
        buckets={bucket: buckets.get(bucket, 0) for bucket in BUCKETS},
    )


def tasks(
    actor: Actor,
    *,
    task_set: int,
    repository: str | None = None,
    is_quarantined: bool | None = None,
    bucket: list[str] | None = None,
    sort: str | None = None,
) -> Rows[TaskRow]:
    """In the order of their ids. Raises NotFound."""
    if not TaskSet.objects.filter(pk=task_set, project__in=visible_projects(actor)).exists():
        raise NotFound(f"There is no task set {task_set} in a project of yours.")
    query = _with_results(Task.objects.filter(task_set=task_set))
    if repository:
        query = query.filter(repository=repository)
    if is_quarantined is not None:
        query = query.filter(quarantined_at__isnull=not is_quarantined)
    if bucket:
        query = query.filter(bucket__in=bucket)
    return Rows(query.values(*TaskRow.__annotations__), lambda rows: rows, key="id", sort=sort)  # type: ignore[arg-type,return-value]


def _with_results(query: QuerySet[Task]) -> QuerySet[Any]:
    trajectories = Trajectory.objects.filter(task=OuterRef("pk"))
    attempts = Attempt.objects.filter(trajectory__task=OuterRef("pk"))
    ended = Q(status__in=[Attempt.Status.COMPLETED, Attempt.Status.FAILED])
    valid, solved, ended_attempts = F("num_valid"), F("num_solved"), F("num_ended")
    return query.annotate(
        num_trajectories=_of(trajectories, Count("id")),
        num_valid=_of(trajectories, Count("reward")),
        num_solved=_of(trajectories, Count("id", filter=Q(reward__gte=1))),
        num_attempts=_of(attempts, Count("id")),
        num_ended=_of(attempts, Count("id", filter=ended)),
        num_failed_attempts=_of(attempts, Count("id", filter=Q(status="failed"))),
        last_seen_at=Subquery(_grouped(trajectories, Max("created_at"))),
    ).annotate(
        solve_rate=Cast(solved, FloatField()) / NullIf(Cast(valid, FloatField()), 0.0),
        infra_share=Cast(F("num_failed_attempts"), FloatField())
        / NullIf(Cast(ended_attempts, FloatField()), 0.0),
        bucket=Case(
            When(num_valid=0, then=Value("untried")),
            When(num_solved=0, then=Value("never")),
            When(num_solved=valid, then=Value("always")),
            default=Value("sometimes"),
            output_field=CharField(),
        ),
    )


def _grouped(rows: QuerySet[Any], figure: Any) -> QuerySet[Any, Any]:
    """The figure over all of `rows`: one row, whatever the model's own order is."""
    one = rows.order_by().annotate(one=Value(1)).values("one")
    result: QuerySet[Any, Any] = one.annotate(figure=figure).values("figure")
    return result


def _of(rows: QuerySet[Any], figure: Any) -> Coalesce:
    return Coalesce(Subquery(_grouped(rows, figure), output_field=IntegerField()), 0)


def task_detail(actor: Actor, *, task_set: int, task: int) -> TaskDetailRow:
    """Raises NotFound."""
    query = tasks(actor, task_set=task_set).query.filter(pk=task)
    fields = {"set_name": F("task_set__name"), "set_version": F("task_set__version")}
    row = query.values(
        *TaskRow.__annotations__,
        "instruction",
        "setup",
        "digest",
        "task_set_id",
        "task_set__split",
        **fields,
    ).first()
    if row is None:
        raise NotFound(f"There is no task {task} in task set {task_set}.")
    about = {
        "task_set": row.pop("task_set_id"),
        "task_set_name": f"{row.pop('set_name')}@{row.pop('set_version')}",
        "split": row.pop("task_set__split"),
    }
    lists = {"steps": _by_steps(task), "stages": _by_stage(task), "failures": _failures(task)}
    detail: Any = {**row, **about, **lists}
    return detail  # type: ignore[no-any-return]


def _by_stage(task: int) -> list[StageOfTaskRow]:
    found = (
        Trajectory.objects.filter(task=task)
        .order_by()
        .values("run_id", "run__name", "stage__name")
        .annotate(
            num_trajectories=Count("id"),
            num_valid=Count("reward"),
            num_solved=Count("id", filter=Q(reward__gte=1)),
            num_invalid=Count("id", filter=Q(status=Trajectory.Status.FAILED)),
        )
        .order_by("-run_id", "stage__index")
    )
    return [
        StageOfTaskRow(
            run=row["run_id"],
            run_name=row["run__name"],
            stage=row["stage__name"],
            num_trajectories=row["num_trajectories"],
            num_valid=row["num_valid"],
            num_solved=row["num_solved"],
            num_invalid=row["num_invalid"],
        )
        for row in found
    ]


def _by_steps(task: int) -> list[StepBucketRow]:
    """Of the newest run that trained on it: what its steps got, `NUM_BUCKETS_OF_STEPS` buckets of steps."""
    trained = Trajectory.objects.filter(task=task, group__step__isnull=False)
    newest = (
        trained.order_by("-run").values("run", "stage", "stage__name", "stage__num_steps").first()
    )
    if newest is None:
        return []
    rows = (
        trained.filter(stage=newest["stage"])
        .exclude(group__step__status="superseded")
        .order_by()
        .values_list("group__step__index")
        .annotate(num=Count("reward"), solved=Count("id", filter=Q(reward__gte=1)))
    )
    by_step = {index: (num, solved) for index, num, solved in rows}
    last = max(newest["stage__num_steps"], max(by_step, default=0) + 1)
    width = max(1, -(-last // NUM_BUCKETS_OF_STEPS))
    found = []
    for first in range(0, last, width):
        inside = [by_step[step] for step in range(first, first + width) if step in by_step]
        found.append(
            StepBucketRow(
                run=newest["run"],
                stage=newest["stage__name"],
                first_step=first,
                last_step=min(last, first + width) - 1,
                num_trajectories=sum(num for num, _ in inside),
                num_solved=sum(solved for _, solved in inside),
            )
        )
    return found


def _failures(task: int) -> list[FailureOfTaskRow]:
    found = (
        Attempt.objects.filter(trajectory__task=task, status=Attempt.Status.FAILED)
        .order_by()
        .values_list("failure_stage", "failure_class")
        .annotate(num=Count("id"))
        .order_by("-num")
    )
    return [
        FailureOfTaskRow(stage=stage, kind=kind, num_attempts=num) for stage, kind, num in found
    ]

"""The dry run of a recipe: what it means with its defaults, how much work it is, and what that took before."""

from __future__ import annotations

from typing import Any

from django.db.models import Avg, Count
from typing_extensions import TypedDict

from controlplane.accounts.models import Project
from controlplane.errors import Invalid, NotFound
from runs import recipe as recipes
from runs.models import Run, Stage, Trajectory
from runs.selectors.runs import RunRefRow
from runs.selectors.stages import StageKind
from runs.selectors.task_sets import task_set_named, usable_tasks


class StagePlanRow(TypedDict):
    """One stage to come. num_trajectories of rl are those that its steps consume; dropped groups come on top.

    seconds and output_tokens are as a finished run had them, in proportion; null where none tells.
    """

    name: str
    kind: StageKind
    num_tasks: int | None
    num_trajectories: int | None
    num_steps: int | None
    seconds: float | None
    output_tokens: float | None


class PlanRow(TypedDict):
    """What a launch would do. `like` is the finished run that the estimates are taken from."""

    recipe: recipes.Recipe
    stages: list[StagePlanRow]
    num_trajectories: int | None
    seconds: float | None
    output_tokens: float | None
    like: RunRefRow | None


class _Known(TypedDict):
    """A stage of a finished run."""

    kind: str
    name: str
    work: float
    seconds: float
    tokens: float


def plan_of(project: Project, source: str) -> PlanRow | None:
    """None where the recipe cannot be read."""
    try:
        recipe = recipes.load(source)
    except Invalid:
        return None
    like = _similar_run(project, recipe)
    known = _known_stages(like) if like else []
    stages = [_stage_plan(project, recipe, stage, known) for stage in recipe.stages]
    return PlanRow(
        recipe=recipe.model_dump(mode="json"),  # type: ignore[typeddict-item]
        stages=stages,
        num_trajectories=_sum([s["num_trajectories"] for s in stages if s["kind"] != "sft"]),
        seconds=_sum([s["seconds"] for s in stages]),
        output_tokens=_sum([s["output_tokens"] for s in stages if s["kind"] != "sft"]),
        like=RunRefRow(id=like.pk, name=like.name) if like else None,
    )


def _sum(values: list[Any]) -> Any:
    """None when one is not known: a part is not an estimate of the whole."""
    return None if None in values else sum(values)


def _similar_run(project: Project, recipe: recipes.Recipe) -> Run | None:
    """The newest succeeded run of a recipe of this name and model; demonstration data tells nothing."""
    return (
        Run.objects.filter(
            project=project,
            status=Run.Status.SUCCEEDED,
            is_demo=False,
            recipe__name=recipe.name,
            recipe__model__path=recipe.model.path,
        )
        .order_by("-id")
        .first()
    )


def _known_stages(run: Run) -> list[_Known]:
    plans = recipes.parse(run.recipe).stages
    rows = Trajectory.objects.filter(run=run).values_list("stage")
    tokens = {
        stage: (num, mean) for stage, num, mean in rows.annotate(Count("id"), Avg("output_tokens"))
    }
    found: list[_Known] = []
    for stage in run.stages.filter(status=Stage.Status.SUCCEEDED, started_at__isnull=False):
        assert stage.started_at is not None
        assert stage.finished_at is not None
        num, mean = tokens.get(stage.pk, (0, 0.0))
        plan = plans[stage.index]
        work = plan.epochs if isinstance(plan, recipes.SftStage) else num
        seconds = (stage.finished_at - stage.started_at).total_seconds()
        found.append(
            _Known(kind=stage.kind, name=stage.name, work=work, seconds=seconds, tokens=mean or 0.0)
        )
    return found


def _stage_plan(
    project: Project, recipe: recipes.Recipe, stage: recipes.AnyStage, known: list[_Known]
) -> StagePlanRow:
    num_tasks: int | None = None
    num_steps: int | None = None
    num_trajectories: int | None = None
    if isinstance(stage, recipes.SftStage):
        work: float | None = stage.epochs
    else:
        num_tasks = _num_tasks(project, recipe.task_sets[stage.task_set])
        if isinstance(stage, recipes.RlStage):
            num_steps = stage.num_steps
            num_trajectories = stage.num_steps * stage.groups_per_step * stage.group_size
        elif num_tasks is not None:
            num_tasks = min(num_tasks, stage.num_tasks or num_tasks)
            num_trajectories = num_tasks * stage.attempts
        work = num_trajectories
    before = _matching(known, stage)
    is_told = before is not None and before["work"] > 0 and work is not None
    return StagePlanRow(
        name=stage.name,
        kind=stage.kind,
        num_tasks=num_tasks,
        num_trajectories=num_trajectories,
        num_steps=num_steps,
        seconds=before["seconds"] * work / before["work"] if is_told else None,  # type: ignore[index,operator]
        output_tokens=before["tokens"] * work if is_told and num_trajectories else None,  # type: ignore[index,operator]
    )


def _num_tasks(project: Project, reference: str) -> int | None:
    try:
        return usable_tasks(task_set_named(project, reference)).count()
    except NotFound:
        return None


def _matching(known: list[_Known], stage: recipes.AnyStage) -> _Known | None:
    """The stage of this name and kind, else one of its kind."""
    alike = [each for each in known if each["kind"] == stage.kind]
    return next((each for each in alike if each["name"] == stage.name), alike[0] if alike else None)

"""Evaluations side by side: arms × tasks, with intervals, paired tests and what the invalid attempts may hide.

Arms are compared only when what they were measured with is the same; otherwise the answer says what differs.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any

from django.db.models import F
from typing_extensions import TypedDict

from controlplane.accounts.access import Actor, visible_projects
from controlplane.errors import Invalid, NotFound
from controlplane.pages import Rows
from runs.models import Stage, Trajectory
from runs.recipe import EvalStage
from runs.selectors.recipes import recipe_of
from runs.selectors.stages import IntervalRow, StageStatus
from runs.statistics import (
    Estimate,
    clustered_mean,
    paired_difference,
    pass_all_k,
    pass_at_k,
    sign_flip_p,
)

MAX_ARMS = 6

Rewards = dict[str, list[float | None]]
"""Per task key its scheduled attempts' rewards in order; None where there is none."""


class EvalArmRow(TypedDict):
    """An eval stage of a run: what can be an arm of a comparison."""

    id: int
    run: int
    run_name: str
    stage: str
    status: StageStatus
    weight_version: int | None
    pass_at_1: IntervalRow | None
    is_demo: bool


class PassAtKRow(TypedDict):
    """Mean over tasks. at_least_one: unbiased pass@k; all: pass^k. An invalid attempt counts as unsolved."""

    k: int
    at_least_one: float
    all: float


class SensitivityRow(TypedDict):
    """pass@1 with the invalid attempts as unsolved, left out, and as solved."""

    unsolved: float
    excluded: float | None
    solved: float


class ArmResultRow(TypedDict):
    """One arm. pass_at_1: mean over tasks, 95 % clustered by task, an invalid attempt as unsolved."""

    arm: EvalArmRow
    num_tasks: int
    num_attempts: int
    num_valid: int
    num_invalid: int
    pass_at_1: IntervalRow
    pass_at_k: list[PassAtKRow]
    sensitivity: SensitivityRow


class ComparedTaskRow(TypedDict):
    """attempts: per arm, in the arms' order, the reward of each attempt; NULL is invalid."""

    task_id: int
    task_set: int
    task: str
    repository: str
    attempts: list[list[float | None]]


class PairRow(TypedDict):
    """second − first over the same tasks: 95 % task-clustered bootstrap, p of a sign-flip permutation test.

    wins: tasks that second solves more often; losses: less often; ties: as often.
    """

    first: int
    second: int
    difference: IntervalRow
    p_value: float
    wins: list[str]
    losses: list[str]
    num_ties: int


class RepositoryResultRow(TypedDict):
    """pass@1 per arm over the repository's tasks, an invalid attempt as unsolved."""

    repository: str
    num_tasks: int
    pass_at_1: list[float]


class DifferenceRow(TypedDict):
    """A frozen setting that is not the same in all arms, with the value of each arm."""

    field: str
    values: list[str]


class ComparisonRow(TypedDict):
    arms: list[ArmResultRow]
    tasks: list[ComparedTaskRow]
    pairs: list[PairRow]
    repositories: list[RepositoryResultRow]


class EvalCompareRow(TypedDict):
    """comparison is NULL when `differences` says why the arms cannot be compared."""

    arms: list[EvalArmRow]
    differences: list[DifferenceRow]
    comparison: ComparisonRow | None


def eval_arms(actor: Actor, *, run: int | None = None) -> Rows[EvalArmRow]:
    """Eval stages that began, newest first."""
    query = Stage.objects.filter(
        kind=Stage.Kind.EVAL, run__project__in=visible_projects(actor)
    ).exclude(status__in=[Stage.Status.PENDING, Stage.Status.SKIPPED])
    if run is not None:
        query = query.filter(run=run)
    fields = ("id", "status", "weight_version", "result")
    rows = query.values(
        *fields,
        run_pk=F("run"),
        run_name=F("run__name"),
        stage=F("name"),
        is_demo=F("run__is_demo"),
    )
    return Rows(rows, _arm_rows)


def _arm_rows(rows: list[dict[str, Any]]) -> list[EvalArmRow]:
    for row in rows:
        row["run"] = row.pop("run_pk")
        result = row.pop("result")
        row["pass_at_1"] = (
            IntervalRow(mean=result["pass_at_1"], low=result["low"], high=result["high"])
            if result
            else None
        )
    return rows  # type: ignore[return-value]


def compare(actor: Actor, *, arms: list[str]) -> EvalCompareRow:
    """Raises NotFound; Invalid for none, too many, or what is no id."""
    ids = list(dict.fromkeys(arms))
    if not ids or len(ids) > MAX_ARMS or not all(one.isdecimal() and len(one) < 18 for one in ids):
        raise Invalid(f"Give 1 to {MAX_ARMS} ids of eval stages.", code="bad_arms")
    found = eval_arms(actor)
    by_id = {row["id"]: row for row in found.shape(list(found.query.filter(pk__in=ids)))}
    missing = [one for one in ids if int(one) not in by_id]
    if missing:
        raise NotFound(f"There is no evaluation {', '.join(missing)} in a project of yours.")
    chosen = [by_id[int(one)] for one in ids]
    attempts = _attempts([row["id"] for row in chosen])
    differences = _differences(chosen, attempts)
    is_empty = not all(attempts[row["id"]] for row in chosen)
    return EvalCompareRow(
        arms=chosen,
        differences=differences,
        comparison=None if differences or is_empty else _comparison(chosen, attempts),
    )


Found = dict[int, dict[str, dict[str, Any]]]
"""Stage -> task key -> {task_id, task_set, digest, repository, rewards}."""


def _attempts(stage_ids: list[int]) -> Found:
    rows = (
        Trajectory.objects.filter(stage__in=stage_ids)
        .exclude(group__status="dropped")
        .exclude(status=Trajectory.Status.CANCELLED)
        .order_by("stage", "task__key", "group", "index")
        .values_list(
            "stage_id",
            "task__key",
            "task_id",
            "task__task_set_id",
            "task__repository",
            "task__digest",
            "status",
            "reward",
        )
    )
    found: Found = {stage_id: {} for stage_id in stage_ids}
    for stage_id, key, task_id, task_set, repository, digest, status, reward in rows:
        known = found[stage_id].setdefault(
            key,
            {
                "task_id": task_id,
                "task_set": task_set,
                "repository": repository,
                "digest": digest,
                "rewards": [],
            },
        )
        if status != Trajectory.Status.OPEN:
            known["rewards"].append(reward)
    for stage in found.values():  # a task without an attempt that ended says nothing yet
        for key in [key for key, task in stage.items() if not task["rewards"]]:
            del stage[key]
    return found


def _differences(arms: Sequence[EvalArmRow], attempts: Found) -> list[DifferenceRow]:
    specs = [_spec(arm, attempts[arm["id"]]) for arm in arms]
    fields = dict.fromkeys(field for spec in specs for field in spec)
    found = []
    for field in fields:
        values = [spec.get(field, "absent") for spec in specs]
        if len(set(values)) > 1:
            found.append(DifferenceRow(field=field, values=values))
    return found


def _spec(arm: EvalArmRow, tasks: dict[str, dict[str, Any]]) -> dict[str, str]:
    """What an evaluation is measured with: its tasks, attempts, limits, agent and sandbox."""
    recipe = recipe_of(arm["run"])
    plan = next(s for s in recipe.stages if s.name == arm["stage"])
    assert isinstance(plan, EvalStage)
    digests = tuple(sorted((key, task["digest"]) for key, task in tasks.items()))
    spec = {
        "tasks": f"{len(digests)} tasks, digest {_digest(digests)}",
        "attempts": str(plan.attempts),
        "temperature": f"{plan.temperature:g}",
        "model.context_length": str(recipe.model.context_length),
    }
    for part in ("agent", "timeouts", "sandbox"):
        for name, value in getattr(recipe, part).model_dump(mode="json").items():
            spec[f"{part}.{name}"] = str(value)
    del spec["sandbox.max_concurrent"]  # how many at once changes no result
    return spec


def _digest(tasks: tuple[tuple[str, str], ...]) -> str:
    return hashlib.sha256(repr(tasks).encode()).hexdigest()[:12]


def _comparison(arms: Sequence[EvalArmRow], attempts: Found) -> ComparisonRow:
    rewards: list[Rewards] = [
        {key: task["rewards"] for key, task in attempts[arm["id"]].items()} for arm in arms
    ]
    first = attempts[arms[0]["id"]]
    keys = sorted(first)
    means = [[_mean(of_arm[key]) for key in keys] for of_arm in rewards]
    repositories: dict[str, list[int]] = defaultdict(list)
    for at, key in enumerate(keys):
        repositories[first[key]["repository"]].append(at)
    return ComparisonRow(
        arms=[_arm(*pair) for pair in zip(arms, rewards, strict=True)],
        tasks=[
            ComparedTaskRow(
                task_id=first[key]["task_id"],
                task_set=first[key]["task_set"],
                task=key,
                repository=first[key]["repository"],
                attempts=[of_arm[key] for of_arm in rewards],
            )
            for key in keys
        ],
        pairs=[
            _pair(arms[a]["id"], arms[b]["id"], keys, tuple(means[a]), tuple(means[b]))
            for a, b in combinations(range(len(arms)), 2)
        ],
        repositories=[
            RepositoryResultRow(
                repository=name,
                num_tasks=len(at),
                pass_at_1=[sum(of_arm[i] for i in at) / len(at) for of_arm in means],
            )
            for name, at in sorted(repositories.items())
        ],
    )


def _mean(rewards: list[float | None]) -> float:
    """Of a task's attempts, an invalid one as unsolved."""
    return sum(reward or 0.0 for reward in rewards) / len(rewards)


def _arm(arm: EvalArmRow, rewards: Rewards) -> ArmResultRow:
    every = [reward for task in rewards.values() for reward in task]
    fewest = min(len(task) for task in rewards.values())
    solved = [(len(task), sum((r or 0.0) >= 1 for r in task)) for task in rewards.values()]
    valid = [[r for r in task if r is not None] for task in rewards.values()]
    valid_means = [sum(task) / len(task) for task in valid if task]
    at_best = [sum(1.0 if r is None else r for r in task) / len(task) for task in rewards.values()]
    means = tuple(_mean(task) for task in rewards.values())
    return ArmResultRow(
        arm=arm,
        num_tasks=len(rewards),
        num_attempts=len(every),
        num_valid=sum(r is not None for r in every),
        num_invalid=sum(r is None for r in every),
        pass_at_1=_interval(means),
        pass_at_k=[
            PassAtKRow(
                k=k,
                at_least_one=_average([pass_at_k(n, c, k) for n, c in solved]),
                all=_average([pass_all_k(n, c, k) for n, c in solved]),
            )
            for k in range(1, fewest + 1)
        ],
        sensitivity=SensitivityRow(
            unsolved=_average(means),
            excluded=_average(valid_means) if valid_means else None,
            solved=_average(at_best),
        ),
    )


def _average(values: Sequence[float]) -> float:
    return sum(values) / len(values)


@lru_cache(maxsize=128)
def _interval(means: tuple[float, ...]) -> IntervalRow:
    return _row(clustered_mean(means))


def _pair(
    first: int, second: int, keys: list[str], before: tuple[float, ...], after: tuple[float, ...]
) -> PairRow:
    difference, p_value = _paired(before, after)
    both = list(zip(keys, before, after, strict=True))
    return PairRow(
        first=first,
        second=second,
        difference=difference,
        p_value=p_value,
        wins=[key for key, a, b in both if b > a],
        losses=[key for key, a, b in both if b < a],
        num_ties=sum(a == b for _, a, b in both),
    )


@lru_cache(maxsize=128)
def _paired(before: tuple[float, ...], after: tuple[float, ...]) -> tuple[IntervalRow, float]:
    """The draws cost tens of milliseconds; a page that asks again without news gets them free."""
    return _row(paired_difference(before, after)), sign_flip_p(before, after)


def _row(estimate: Estimate) -> IntervalRow:
    return IntervalRow(mean=estimate.mean, low=estimate.low, high=estimate.high)

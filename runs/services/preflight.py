"""What is checked before a launch: every check named, with its configured and its measured value."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from django.conf import settings

from controlplane.accounts.models import Project
from controlplane.errors import Invalid, NotFound
from runs import recipe as recipes
from runs.models import TaskSet, Worker
from runs.selectors.task_sets import task_set_named, usable_tasks


@dataclass(frozen=True)
class Check:
    """One finding. An `error` refuses the launch; `pointer` is the field of the recipe to change."""

    name: str
    level: Literal["ok", "warning", "error"]
    sentence: str
    configured: float | str | None = None
    measured: float | str | None = None
    pointer: str = ""


def preflight(project: Project, source: str) -> list[Check]:
    """All checks of a recipe (YAML) against this installation, in the order of a run's life."""
    try:
        recipe = recipes.load(source)
    except Invalid as error:
        found = [
            Check("recipe", "error", field.message, pointer=field.pointer) for field in error.errors
        ]
        return found or [Check("recipe", "error", error.message, pointer="/")]
    checks = [Check("recipe", "ok", f"Recipe {recipe.name} is valid.")]
    checks += _files(recipe)
    checks += _task_sets(project, recipe)
    checks += _fleet(recipe)
    checks += _balance(recipe)
    return checks


def resolve_path(path: str) -> Path:
    """Recipe paths are relative to the checkout."""
    return (settings.BASE_DIR / path).resolve()


def _files(recipe: recipes.Recipe) -> list[Check]:
    checks = []
    model = resolve_path(recipe.model.path)
    missing = [n for n in ("config.json", "tokenizer.json") if not (model / n).is_file()]
    if missing:
        sentence = f"{recipe.model.path} has no {' and no '.join(missing)}."
        checks.append(Check("model", "error", sentence, pointer="/model/path"))
    else:
        checks.append(_context(recipe, model / "config.json"))
    for index, stage in enumerate(recipe.stages):
        if isinstance(stage, recipes.SftStage) and not resolve_path(stage.traces).is_file():
            checks.append(
                Check(
                    "traces",
                    "error",
                    f"{stage.traces} does not exist.",
                    pointer=f"/stages/{index}/traces",
                )
            )
    return checks


def _context(recipe: recipes.Recipe, config: Path) -> Check:
    """The engine refuses a context that the model has no positions for."""
    wanted = recipe.model.context_length
    try:
        positions = int(json.loads(config.read_text()).get("max_position_embeddings", wanted))
    except (ValueError, TypeError) as error:
        sentence = f"{config.name} of the model cannot be read: {error}"
        return Check("model", "error", sentence, pointer="/model/path")
    if wanted > positions:
        sentence = f"The model has {positions} positions, fewer than context_length {wanted}."
        return Check("model", "error", sentence, wanted, positions, "/model/context_length")
    return Check("model", "ok", f"The model is at {recipe.model.path}.", wanted, positions)


def _task_sets(project: Project, recipe: recipes.Recipe) -> list[Check]:
    """They exist, are not empty, and no training repository is in a held-out split (invariant 7)."""
    checks = []
    found: dict[str, TaskSet] = {}
    for role, reference in recipe.task_sets.items():
        pointer = f"/task_sets/{role}"
        try:
            task_set = task_set_named(project, reference)
        except NotFound as error:
            checks.append(Check("task_set", "error", error.message, pointer=pointer))
            continue
        num_usable = usable_tasks(task_set).count()
        found[role] = task_set
        if num_usable == 0:
            sentence = f"All tasks of {task_set} are in quarantine."
            checks.append(Check("task_set", "error", sentence, measured=0, pointer=pointer))
        else:
            sentence = f"{task_set}: {num_usable} of {task_set.num_tasks} tasks are usable."
            checks.append(Check("task_set", "ok", sentence, measured=num_usable))
    return checks + _contamination(recipe, found)


def _contamination(recipe: recipes.Recipe, found: dict[str, TaskSet]) -> list[Check]:
    used_for: dict[str, set[str]] = {"rl": set(), "eval": set()}
    checks = []
    for index, stage in enumerate(recipe.stages):
        if isinstance(stage, recipes.SftStage) or stage.task_set not in found:
            continue
        used_for[stage.kind].add(stage.task_set)
        if stage.kind == "rl" and found[stage.task_set].split != TaskSet.Split.TRAIN:
            checks.append(
                Check(
                    "split",
                    "error",
                    f"{found[stage.task_set]} is {found[stage.task_set].split}: never train on it.",
                    pointer=f"/stages/{index}/task_set",
                )
            )
    train = _repositories(found, used_for["rl"])
    shared = sorted(train & _repositories(found, used_for["eval"] - used_for["rl"]))
    if shared:
        names = ", ".join(shared[:5]) + (" ..." if len(shared) > 5 else "")
        sentence = (
            f"{len(shared)} repositories are in both a training and an evaluation set ({names}): the "
            "solve rate would be contaminated. Take them out of one."
        )
        checks.append(Check("contamination", "error", sentence, 0, len(shared), "/task_sets"))
    elif train:
        checks.append(
            Check("contamination", "ok", "No training repository is in an evaluation set.", 0, 0)
        )
    return checks


def _repositories(found: dict[str, TaskSet], roles: set[str]) -> set[str]:
    """Repository identity, lower-cased, as owner/name or name."""
    names: set[str] = set()
    for role in roles:
        names |= {n.lower() for n in found[role].tasks.values_list("repository", flat=True)}
    return names


def _fleet(recipe: recipes.Recipe) -> list[Check]:
    live = Worker.objects.filter(status=Worker.Status.LIVE)
    slots = sum(live.filter(kind=Worker.Kind.ROLLOUT).values_list("num_slots", flat=True))
    wanted = recipe.rollout.max_in_flight
    checks = []
    for kind in Worker.Kind.values:
        if not live.filter(kind=kind).exists():
            sentence = f"No {kind} worker is live now; the run will wait for one."
            checks.append(Check("workers", "warning", sentence, 1, 0))
    if slots and slots < wanted:
        sentence = f"{slots} rollout slots are live; max_in_flight {wanted} cannot be reached."
        checks.append(
            Check("rollout_slots", "warning", sentence, wanted, slots, "/rollout/max_in_flight")
        )
    elif slots:
        checks.append(
            Check("rollout_slots", "ok", f"{slots} rollout slots are live.", wanted, slots)
        )
    checks += [
        Check("sandbox", "warning", f"{worker.name} takes no work: {sentence}")
        for worker in live
        for sentence in worker.capabilities.get("missing", [])
    ]
    unsafe = [w.name for w in live if w.capabilities.get("level") == "unsafe"]
    if unsafe:
        sentence = (
            f"{', '.join(unsafe)} run agents WITHOUT isolation (LONGTAIL_UNSAFE_LOCAL_SANDBOX)."
        )
        checks.append(Check("sandbox", "warning", sentence))
    return checks


def _balance(recipe: recipes.Recipe) -> list[Check]:
    """Caps that meet in series: the smallest one is the one that counts."""
    caps = {
        "rollout/max_in_flight": recipe.rollout.max_in_flight,
        "sandbox/max_concurrent": recipe.sandbox.max_concurrent,
        "engines (running + queued)": recipe.engines.num_engines
        * (recipe.engines.max_running + recipe.engines.max_queued),
    }
    name, cap = min(caps.items(), key=lambda item: item[1])
    if cap < recipe.rollout.max_in_flight:
        sentence = f"{name} allows {cap}, fewer than max_in_flight {recipe.rollout.max_in_flight}."
        return [Check("caps", "warning", sentence, recipe.rollout.max_in_flight, cap, f"/{name}")]
    return [
        Check("caps", "ok", "No cap is below max_in_flight.", recipe.rollout.max_in_flight, cap)
    ]

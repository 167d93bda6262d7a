"""What is checked before a launch: every check named, with its configured and its measured value and what to do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from django.conf import settings
from django.db.models import Sum

from controlplane.accounts.models import Project
from controlplane.blobs import BlobStore
from controlplane.errors import Invalid, NotFound
from runs import recipe as recipes
from runs.models import Checkpoint, Node, TaskSet, Worker
from runs.selectors.checkpoints import weights_of, why_no_start
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
    unit: str = ""
    remedy: str = ""


def preflight(project: Project, source: str, *, from_checkpoint: int | None = None) -> list[Check]:
    """All checks of a recipe (YAML) against this installation, in the order of a run's life."""
    try:
        recipe = recipes.load(source)
    except Invalid as error:
        remedy = "Change the field; its rule is in the sentence, its default in the form."
        found = [
            Check("recipe", "error", field.message, pointer=field.pointer, remedy=remedy)
            for field in error.errors
        ]
        return found or [
            Check("recipe", "error", error.message, pointer="/", remedy="Mend the YAML.")
        ]
    checks = [Check("recipe", "ok", f"Recipe {recipe.name} is valid.")]
    checks += _timeouts(recipe)
    checks += _files(recipe)
    if from_checkpoint is not None:
        checks.append(_checkpoint(project, recipe, from_checkpoint))
    checks += _task_sets(project, recipe)
    checks += _admission(recipe)
    checks += _fleet(recipe)
    checks += _balance(recipe)
    return checks


def resolve_path(path: str) -> Path:
    """Recipe paths are relative to the checkout."""
    return (settings.BASE_DIR / path).resolve()


def _timeouts(recipe: recipes.Recipe) -> list[Check]:
    """The schema refuses broken chains; here is how much room they leave."""
    t = recipe.timeouts
    needed = t.start_s + t.setup_s + t.agent_s + t.verify_s
    chain = " < ".join(f"{s:g}" for s in (t.llm_call_s, t.turn_s, t.agent_s, t.trajectory_s))
    return [
        Check("timeouts", "ok", f"LLM call < turn < agent < trajectory: {chain} s."),
        Check(
            "sandbox_lifetime",
            "ok",
            "A sandbox outlives start, setup, agent and verify.",
            recipe.sandbox.lifetime_s,
            needed,
            "/sandbox/lifetime_s",
            "s",
        ),
    ]


def _files(recipe: recipes.Recipe) -> list[Check]:
    checks = []
    model = resolve_path(recipe.model.path)
    missing = [n for n in ("config.json", "tokenizer.json") if not (model / n).is_file()]
    if missing:
        sentence = f"{recipe.model.path} has no {' and no '.join(missing)}."
        remedy = "Name a directory in the Hugging Face layout, relative to the checkout."
        checks.append(Check("model", "error", sentence, pointer="/model/path", remedy=remedy))
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
                    remedy="Name a JSONL file of traces, relative to the checkout, or drop the stage.",
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
        remedy = "Mend the model's directory, or name another."
        return Check("model", "error", sentence, pointer="/model/path", remedy=remedy)
    if wanted > positions:
        return Check(
            "model",
            "error",
            f"The model has {positions} positions, fewer than context_length {wanted}.",
            wanted,
            positions,
            "/model/context_length",
            "tokens",
            f"Set context_length to {positions} or less.",
        )
    sentence = f"The model is at {recipe.model.path}."
    return Check("model", "ok", sentence, wanted, positions, "/model/context_length", unit="tokens")


def _checkpoint(project: Project, recipe: recipes.Recipe, pk: int) -> Check:
    """The weights that the run would start from: kept, whole, and of the model that the recipe names."""
    pointer, remedy = "/from_checkpoint", "Choose another checkpoint of the run, or clone the run."
    checkpoint = (
        Checkpoint.objects.select_related("run").filter(pk=pk, run__project=project).first()
    )
    if checkpoint is None:
        sentence = f"There is no checkpoint {pk} in this project."
        return Check("checkpoint", "error", sentence, pointer=pointer, remedy=remedy)
    weights = weights_of(checkpoint).first()
    refusal = why_no_start(checkpoint.status, has_weights=weights is not None)
    if weights is not None and not refusal:
        store = BlobStore(settings.BLOB_URL)
        if not store.fs.exists(store.url(f"{weights.blob}/manifest.json")):
            refusal = "Its weights are not in the blob store any more."
    if refusal:
        sentence = f"No run can start from {checkpoint}. {refusal}"
        return Check("checkpoint", "error", sentence, pointer=pointer, remedy=remedy)
    theirs = checkpoint.run.recipe["model"]["path"]
    if resolve_path(theirs) != resolve_path(recipe.model.path):
        return Check(
            "checkpoint",
            "error",
            f"{checkpoint} was trained from another model: its weights do not fit this one.",
            recipe.model.path,
            theirs,
            "/model/path",
            remedy=f"Set the model's path to {theirs}, or launch without the checkpoint.",
        )
    sentence = (
        f"The run starts from {checkpoint} (weights v{checkpoint.weight_version}), with a fresh "
        "optimizer."
    )
    return Check("checkpoint", "ok", sentence)


def _task_sets(project: Project, recipe: recipes.Recipe) -> list[Check]:
    """They exist, are not empty, and no training repository is in a held-out split (invariant 7)."""
    checks = []
    found: dict[str, TaskSet] = {}
    for role, reference in recipe.task_sets.items():
        pointer = f"/task_sets/{role}"
        try:
            task_set = task_set_named(project, reference)
        except NotFound as error:
            remedy = "Import it with `manage.py import_tasks`, or name one of the task sets page."
            checks.append(Check("task_set", "error", error.message, pointer=pointer, remedy=remedy))
            continue
        num_usable = usable_tasks(task_set).count()
        found[role] = task_set
        if num_usable == 0:
            checks.append(
                Check(
                    "task_set",
                    "error",
                    f"All tasks of {task_set} are in quarantine.",
                    task_set.num_tasks,
                    0,
                    pointer,
                    "tasks",
                    "Name another task set, or mend its tasks and import it again.",
                )
            )
        else:
            sentence = f"{task_set}: {num_usable} of {task_set.num_tasks} tasks are usable."
            checks.append(
                Check("task_set", "ok", sentence, task_set.num_tasks, num_usable, pointer, "tasks")
            )
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
                    "train",
                    found[stage.task_set].split,
                    f"/stages/{index}/task_set",
                    remedy="Train on a set of the train split.",
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
        remedy = "Import one of the sets again without them."
        checks.append(
            Check(
                "contamination",
                "error",
                sentence,
                0,
                len(shared),
                "/task_sets",
                "repositories",
                remedy,
            )
        )
    elif train:
        sentence = "No training repository is in an evaluation set."
        checks.append(Check("contamination", "ok", sentence, 0, 0, unit="repositories"))
    return checks


def _repositories(found: dict[str, TaskSet], roles: set[str]) -> set[str]:
    """Repository identity, lower-cased, as owner/name or name."""
    names: set[str] = set()
    for role in roles:
        names |= {n.lower() for n in found[role].tasks.values_list("repository", flat=True)}
    return names


def _admission(recipe: recipes.Recipe) -> list[Check]:
    """The concurrency that admission can fill (invariant 6); the schema refuses one that it cannot."""
    return [
        Check(
            "admission",
            "ok",
            f"Staleness {stage.max_staleness} lets {stage.name} hold "
            f"{(stage.max_staleness + 1) * stage.groups_per_step} groups at once.",
            recipe.rollout.max_in_flight,
            (stage.max_staleness + 1) * stage.groups_per_step * stage.group_size,
            f"/stages/{index}/max_staleness",
            "trajectories",
        )
        for index, stage in enumerate(recipe.stages)
        if isinstance(stage, recipes.RlStage)
    ]


def _fleet(recipe: recipes.Recipe) -> list[Check]:
    live = Worker.objects.filter(status=Worker.Status.LIVE)
    slots = sum(live.filter(kind=Worker.Kind.ROLLOUT).values_list("num_slots", flat=True))
    wanted = recipe.rollout.max_in_flight
    pointer = "/rollout/max_in_flight"
    checks = []
    for kind in Worker.Kind.values:
        if not live.filter(kind=kind).exists():
            sentence = f"No {kind} worker is live now; the run will wait for one."
            remedy = "Start the stack (`manage.py up`), or launch and start one later."
            checks.append(
                Check("workers", "warning", sentence, 1, 0, unit="workers", remedy=remedy)
            )
    if slots and slots < wanted:
        sentence = f"{slots} rollout slots are live; max_in_flight {wanted} cannot be reached."
        remedy = f"Start more rollout workers, or set max_in_flight to {slots}."
        checks.append(
            Check("rollout_slots", "warning", sentence, wanted, slots, pointer, "slots", remedy)
        )
    elif slots:
        sentence = f"{slots} rollout slots are live."
        checks.append(Check("rollout_slots", "ok", sentence, wanted, slots, pointer, "slots"))
    checks += _memory(recipe)
    checks += [
        Check(
            "sandbox",
            "warning",
            f"{worker.name} takes no work: {sentence}",
            remedy="Mend it on that machine, or use other workers.",
        )
        for worker in live
        for sentence in worker.capabilities.get("missing", [])
    ]
    unsafe = [w.name for w in live if w.capabilities.get("level") == "unsafe"]
    if unsafe:
        sentence = (
            f"{', '.join(unsafe)} run agents WITHOUT isolation (LONGTAIL_UNSAFE_LOCAL_SANDBOX)."
        )
        checks.append(
            Check("sandbox", "warning", sentence, remedy="Install bubblewrap and unset it.")
        )
    return checks


def _memory(recipe: recipes.Recipe) -> list[Check]:
    """Caps of sandboxes are ceilings, rarely reached by all at once: a warning, never a refusal."""
    machines = Node.objects.filter(workers__kind="rollout", workers__status="live").distinct()
    total = machines.aggregate(total=Sum("memory_bytes"))["total"]
    if not total:
        return []
    num = min(recipe.rollout.max_in_flight, recipe.sandbox.max_concurrent)
    wanted, there = num * recipe.sandbox.memory_mb, total // 2**20
    if wanted <= there:
        sentence = f"{num} sandboxes at their memory cap fit the rollout machines."
        return [Check("memory", "ok", sentence, wanted, there, "/sandbox/memory_mb", "MiB")]
    sentence = f"{num} sandboxes at their memory cap need more than the rollout machines have."
    remedy = "Lower sandbox/memory_mb or max_in_flight, or add machines."
    return [
        Check("memory", "warning", sentence, wanted, there, "/sandbox/memory_mb", "MiB", remedy)
    ]


def _balance(recipe: recipes.Recipe) -> list[Check]:
    """Caps that meet in series: the smallest one is the one that counts."""
    caps = {
        "/sandbox/max_concurrent": recipe.sandbox.max_concurrent,
        "/engines/max_running": recipe.engines.num_engines
        * (recipe.engines.max_running + recipe.engines.max_queued),
    }
    pointer, cap = min(caps.items(), key=lambda item: item[1])
    wanted = recipe.rollout.max_in_flight
    if cap < wanted:
        sentence = f"{pointer[1:]} allows {cap}, fewer than max_in_flight {wanted}."
        remedy = f"Raise it, or set max_in_flight to {cap}."
        return [Check("caps", "warning", sentence, wanted, cap, pointer, "trajectories", remedy)]
    sentence = "No cap is below max_in_flight."
    return [Check("caps", "ok", sentence, wanted, cap, pointer, "trajectories")]

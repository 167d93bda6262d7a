"""One sandbox: its life as steps, what failed in it, and what that did to the training."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypeAliasType, TypedDict

from controlplane.accounts.access import Actor
from controlplane.errors import NotFound
from runs.models import Attempt, Group, Stage, Trajectory
from runs.recipe import RlStage
from runs.sandbox_life import LIFE, stage_of_failure
from runs.selectors.recipes import recipe_of
from runs.selectors.sandboxes import (
    FailureRow,
    SandboxRow,
    failures,
    sandbox_row,
    sandboxes,
)
from runs.selectors.trajectories import AttemptStatus, GroupStatus, TrajectoryStatus
from sandboxes.failures import POLICIES, FailureClass
from sandboxes.models import FailureGroup, Sandbox

NUM_ALIKE = 10

LifeState = TypeAliasType("LifeState", Literal["done", "running", "failed", "not_reached"])


class LifeStageRow(TypedDict):
    """A step in the life of a box; seconds are NULL where the driver has no such step or did not say."""

    name: str
    state: LifeState
    seconds: float | None


class FailurePolicyRow(TypedDict):
    """What the scheduler does with this class of failure."""

    retries: int
    waits: bool
    sentence: str


class BoxAttemptRow(TypedDict):
    """The attempt that the box was started for."""

    id: int
    number: int
    status: AttemptStatus
    reward: float | None
    trajectory_id: int
    stage: str
    task: str
    host: str


class LaterAttemptRow(TypedDict):
    number: int
    status: AttemptStatus
    reward: float | None


class EffectRow(TypedDict):
    """What became of the training data: invalid or not, tried again or not, and whether the group can be used."""

    is_invalid: bool
    is_attributed_to_policy: bool
    later: LaterAttemptRow | None
    trajectory_status: TrajectoryStatus
    reward: float | None
    group: int
    group_status: GroupStatus
    num_members: int
    num_ended: int
    num_valid: int
    required_valid: int | None
    is_group_usable: bool | None
    sentence: str


class SandboxDetailRow(TypedDict):
    sandbox: SandboxRow
    life: list[LifeStageRow]
    attempt: BoxAttemptRow | None
    failure: FailureRow | None
    policy: FailurePolicyRow | None
    num_alike: int
    alike: list[FailureRow]
    effect: EffectRow | None


def sandbox_detail(actor: Actor, sandbox_id: int) -> SandboxDetailRow:
    """Raises NotFound."""
    found = sandboxes(actor).query.filter(pk=sandbox_id).first()
    if found is None:
        raise NotFound(f"There is no sandbox {sandbox_id} in a project of yours.")
    attempt = _attempt_of(found["attempt_id"])
    box = sandbox_row(found, attempt.trajectory_id if attempt else None)
    failed = _failures(actor, attempt) if attempt else []
    failure = failed[0] if failed else None
    return SandboxDetailRow(
        sandbox=box,
        life=life_of(box, failure["stage"] if failure else None, attempt),
        attempt=_attempt(attempt) if attempt else None,
        failure=failure,
        policy=policy_of(failure["kind"]) if failure else None,
        num_alike=_num_alike(failure) if failure else 0,
        alike=failed[1:],
        effect=effect_of(attempt) if attempt else None,
    )


def _attempt_of(attempt_id: int | None) -> Attempt | None:
    if attempt_id is None:
        return None
    related = ("trajectory__group", "trajectory__task", "stage", "worker__node")
    return Attempt.objects.select_related(*related).filter(pk=attempt_id).first()


def _failures(actor: Actor, attempt: Attempt) -> list[FailureRow]:
    """The first failure of the attempt (what came after it followed from it), then the newest of its group."""
    found = failures(actor)
    first = list(found.query.filter(attempt_id=attempt.pk).order_by("id")[:1])
    if not first:
        return []
    alike = found.query.filter(group=first[0]["group_id"]).exclude(pk=first[0]["id"])
    return found.shape([*first, *alike.order_by("-id")[:NUM_ALIKE]])


def _num_alike(failure: FailureRow) -> int:
    """The group counts them as they come, so nobody has to."""
    total = FailureGroup.objects.values_list("num_failures", flat=True).get(pk=failure["group"])
    return max(0, total - 1)


def _attempt(attempt: Attempt) -> BoxAttemptRow:
    return BoxAttemptRow(
        id=attempt.pk,
        number=attempt.number,
        status=attempt.status,  # type: ignore[typeddict-item]
        reward=attempt.reward,
        trajectory_id=attempt.trajectory_id,
        stage=attempt.stage.name,
        task=attempt.trajectory.task.key,
        host=attempt.worker.node.hostname if attempt.worker else "",
    )


def life_of(box: SandboxRow, failed_in: str | None, attempt: Attempt | None) -> list[LifeStageRow]:
    """Each step with its seconds and state. The wait for a slot is the attempt's, so it is read from there."""
    timings = dict(box["timings"])
    if attempt is not None and attempt.started_at is not None:
        timings.setdefault("admit", (attempt.started_at - attempt.created_at).total_seconds())
    failed = stage_of_failure(failed_in) if failed_in else None
    is_over = box["status"] in (Sandbox.Status.GONE, Sandbox.Status.FAILED)
    now_in = None if is_over else _present_stage(box["status"], attempt)
    rows = []
    for name in LIFE:
        seconds = timings.get(name)
        if failed and LIFE.index(name) > LIFE.index(failed) and not seconds:
            seconds = None  # a driver may write zeros for what never began
        state: LifeState
        if name == failed:
            state = "failed"
        elif name == now_in:
            state = "running"
        elif seconds is not None:
            state = "done"
        else:
            state = "not_reached"
        rows.append(LifeStageRow(name=name, state=state, seconds=seconds))
    return rows


def _present_stage(status: str, attempt: Attempt | None) -> str:
    if status == Sandbox.Status.LEASED:
        is_grading = attempt is not None and attempt.status == Attempt.Status.GRADING
        return "verify" if is_grading else "exec"
    return {"requested": "admit", "starting": "start", "ready": "setup"}.get(status, "teardown")


def policy_of(kind: str) -> FailurePolicyRow:
    policy = POLICIES[FailureClass(kind)]
    if policy.waits:
        sentence = (
            "A refusal of capacity: the attempt waits and is dispatched again; no retry is spent."
        )
    elif policy.retries == 0:
        sentence = "Never tried again."
    else:
        times = "once" if policy.retries == 1 else f"up to {policy.retries} times"
        sentence = f"Tried again {times} in a fresh sandbox, within the trajectory's own budget."
    return FailurePolicyRow(retries=policy.retries, waits=policy.waits, sentence=sentence)


def effect_of(attempt: Attempt) -> EffectRow:
    trajectory, group = attempt.trajectory, attempt.trajectory.group
    later: Any = (
        Attempt.objects.filter(trajectory=trajectory, number__gt=attempt.number)
        .order_by("-number")
        .values("number", "status", "reward")
        .first()
    )
    num_valid = group.num_valid
    if num_valid is None:
        num_valid = group.trajectories.filter(reward__isnull=False).count()
    required = _required_valid(attempt.run_id, attempt.stage)
    is_usable = _is_usable(group, num_valid, required)
    return EffectRow(
        is_invalid=attempt.status == Attempt.Status.FAILED,
        is_attributed_to_policy=attempt.is_attributed_to_policy,
        later=later,
        trajectory_status=trajectory.status,  # type: ignore[typeddict-item]
        reward=trajectory.reward,
        group=group.pk,
        group_status=group.status,  # type: ignore[typeddict-item]
        num_members=group.num_members,
        num_ended=group.num_ended,
        num_valid=num_valid,
        required_valid=required,
        is_group_usable=is_usable,
        sentence=_sentence(attempt, trajectory, later, is_usable=is_usable),
    )


def _required_valid(run_id: int, stage: Stage) -> int | None:
    if stage.kind != Stage.Kind.RL:
        return None
    plan = recipe_of(run_id).stages[stage.index]
    return plan.required_valid if isinstance(plan, RlStage) else None


def _is_usable(group: Group, num_valid: int, required: int | None) -> bool | None:
    """None while its open members may still decide it."""
    if group.status == Group.Status.DROPPED:
        return False
    if group.status != Group.Status.OPEN or required is None:
        return True
    if num_valid >= required:
        return True
    num_open = group.num_members - group.num_ended
    return False if num_valid + num_open < required else None


def _sentence(
    attempt: Attempt,
    trajectory: Trajectory,
    later: dict[str, Any] | None,
    *,
    is_usable: bool | None,
) -> str:
    if attempt.is_attributed_to_policy:
        first = "The agent's own commands broke the box again: reward 0, counted."
    elif attempt.status != Attempt.Status.FAILED:
        return "The box did its work; the attempt ended as the policy made it end."
    elif later is None and trajectory.status == Trajectory.Status.FAILED:
        first = (
            f"Attempt {attempt.number} is invalid and was the last: the trajectory has no reward."
        )
    elif later is None:
        first = f"Attempt {attempt.number} is invalid: no reward, and it was not tried again."
    else:
        first = (
            f"Attempt {attempt.number} is invalid: no reward. Attempt {later['number']} "
            f"{_ended_how(later)}."
        )
    verdict: dict[bool | None, str] = {
        True: "The group can still be used.",
        False: "The group cannot be used.",
    }
    return f"{first} {verdict.get(is_usable, 'Whether the group can be used is still open.')}"


def _ended_how(later: dict[str, Any]) -> str:
    if later["status"] == Attempt.Status.COMPLETED:
        return f"completed with reward {later['reward']:g}"
    return {"failed": "failed too", "cancelled": "was cancelled"}.get(
        later["status"], "is in flight"
    )

"""A row of every model, valid by default; traits name the states that tests ask for.

Everything hangs on one project unless a test says otherwise: `RunFactory(project=...)`.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import factory
import yaml
from factory.django import DjangoModelFactory

from controlplane.accounts.models import (
    ApiToken,
    AuditEntry,
    LoginLink,
    Membership,
    Project,
    Role,
    User,
)
from runs import models
from runs.recipe import load
from sandboxes.models import Failure, FailureGroup, Limit, Sandbox

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)

RECIPE: dict[str, Any] = {
    "version": 1,
    "name": "tiny",
    "description": "A recipe of the tests.",
    "model": {"path": "var/tiny/model", "context_length": 448},
    "task_sets": {"train": "tiny-train", "held_out": "tiny-held-out"},
    "agent": {"format": "raw", "turn_cap": 10, "turn_token_cap": 14, "token_cap": 448},
    "timeouts": {
        "start_s": 20,
        "setup_s": 10,
        "llm_call_s": 60,
        "command_s": 5,
        "turn_s": 70,
        "agent_s": 300,
        "verify_s": 20,
        "trajectory_s": 400,
    },
    "sandbox": {"driver": "local", "memory_mb": 256, "lifetime_s": 600},
    "rollout": {"max_in_flight": 16},
    "stages": [
        {"kind": "eval", "name": "base", "task_set": "held_out", "attempts": 2},
        {
            "kind": "rl",
            "name": "rl-training",
            "task_set": "train",
            "num_steps": 2,
            "groups_per_step": 2,
            "group_size": 4,
            "max_staleness": 2,
        },
    ],
}
RECIPE_SOURCE = yaml.safe_dump(RECIPE, sort_keys=False)


class ProjectFactory(DjangoModelFactory[Project]):
    class Meta:
        model = Project
        django_get_or_create = ("slug",)

    slug = "default"
    name = factory.LazyAttribute(lambda project: project.slug.title())


class UserFactory(DjangoModelFactory[User]):
    class Meta:
        model = User
        skip_postgeneration_save = True

    username = factory.Sequence(lambda n: f"user-{n}")
    password = "!"

    class Params:
        with_password = factory.Trait(password=factory.django.Password("correct horse battery"))
        admin = factory.Trait(is_superuser=True, is_staff=True)


class MembershipFactory(DjangoModelFactory[Membership]):
    class Meta:
        model = Membership

    project = factory.SubFactory(ProjectFactory)
    user = factory.SubFactory(UserFactory)
    role = Role.VIEWER


class ApiTokenFactory(DjangoModelFactory[ApiToken]):
    """A row only; `controlplane.accounts.services.tokens.issue_token` gives the secret as well."""

    class Meta:
        model = ApiToken

    user = factory.SubFactory(UserFactory)
    project = factory.SubFactory(ProjectFactory)
    name = "laptop"
    role = Role.VIEWER
    prefix = factory.Sequence(lambda n: f"{n:08x}")
    digest = factory.Sequence(lambda n: f"{n:064x}")


class LoginLinkFactory(DjangoModelFactory[LoginLink]):
    class Meta:
        model = LoginLink

    user = factory.SubFactory(UserFactory)
    digest = factory.Sequence(lambda n: f"{n:064x}")
    expires_at = factory.LazyFunction(lambda: datetime.now(UTC) + timedelta(hours=1))


class AuditEntryFactory(DjangoModelFactory[AuditEntry]):
    class Meta:
        model = AuditEntry

    project = factory.SubFactory(ProjectFactory)
    at = NOW
    action = "run.launch"
    target = "run 1"


class RecipeFactory(DjangoModelFactory[models.Recipe]):
    class Meta:
        model = models.Recipe

    project = factory.SubFactory(ProjectFactory)
    name = factory.Sequence(lambda n: f"recipe-{n}")
    source = RECIPE_SOURCE
    updated_at = NOW


class TaskSetFactory(DjangoModelFactory[models.TaskSet]):
    class Meta:
        model = models.TaskSet

    project = factory.SubFactory(ProjectFactory)
    name = factory.Sequence(lambda n: f"task-set-{n}")
    version = 1
    split = models.TaskSet.Split.TRAIN
    digest = factory.Sequence(lambda n: f"{n:064x}")
    num_tasks = 1
    created_at = NOW


class TaskFactory(DjangoModelFactory[models.Task]):
    class Meta:
        model = models.Task

    task_set = factory.SubFactory(TaskSetFactory)
    key = factory.Sequence(lambda n: f"task-{n:04d}")
    repository = factory.Sequence(lambda n: f"repository-{n}")
    instruction = "Make the tests pass."
    archive = factory.LazyAttribute(lambda task: f"tasks/{task.key}.tar")
    digest = factory.Sequence(lambda n: f"{n:064x}")


class RunFactory(DjangoModelFactory[models.Run]):
    """Running by default; the recipe is parsed, so that its defaults are there."""

    class Meta:
        model = models.Run

    class Params:
        queued = factory.Trait(status=models.Run.Status.QUEUED, started_at=None)
        succeeded = factory.Trait(
            status=models.Run.Status.SUCCEEDED, finished_at=NOW + timedelta(hours=1)
        )
        failed = factory.Trait(
            status=models.Run.Status.FAILED, finished_at=NOW + timedelta(hours=1)
        )
        cancelled = factory.Trait(
            status=models.Run.Status.CANCELLED, finished_at=NOW + timedelta(hours=1)
        )

    project = factory.SubFactory(ProjectFactory)
    name = factory.Sequence(lambda n: f"run-{n}")
    status = models.Run.Status.RUNNING
    recipe_source = RECIPE_SOURCE
    recipe = factory.LazyAttribute(lambda run: load(run.recipe_source).model_dump(mode="json"))
    seed = 1
    created_at = NOW
    started_at = NOW


class StageFactory(DjangoModelFactory[models.Stage]):
    class Meta:
        model = models.Stage

    run = factory.SubFactory(RunFactory)
    index = factory.Sequence(lambda n: n)
    kind = models.Stage.Kind.RL
    name = factory.Sequence(lambda n: f"stage-{n}")
    status = models.Stage.Status.RUNNING
    num_steps = 2
    started_at = NOW


class StepFactory(DjangoModelFactory[models.Step]):
    class Meta:
        model = models.Step

    class Params:
        done = factory.Trait(
            status=models.Step.Status.DONE,
            finished_at=factory.LazyAttribute(lambda step: step.started_at + timedelta(minutes=1)),
        )

    stage = factory.SubFactory(StageFactory)
    run = factory.SelfAttribute("stage.run")
    index = factory.Sequence(lambda n: n)
    resume = 0
    trained_version = 0
    started_at = NOW


class ConsumptionFactory(DjangoModelFactory[models.Consumption]):
    class Meta:
        model = models.Consumption

    step = factory.SubFactory(StepFactory)
    trajectory = factory.SubFactory("tests.factories.TrajectoryFactory")


class GroupFactory(DjangoModelFactory[models.Group]):
    class Meta:
        model = models.Group

    stage = factory.SubFactory(StageFactory)
    run = factory.SelfAttribute("stage.run")
    task = factory.SubFactory(
        TaskFactory, task_set__project=factory.SelfAttribute("...run.project")
    )
    index = factory.Sequence(lambda n: n)
    resume = 0
    opened_version = 0
    num_members = 4
    opened_at = NOW


class TrajectoryFactory(DjangoModelFactory[models.Trajectory]):
    class Meta:
        model = models.Trajectory

    class Params:
        completed = factory.Trait(
            status=models.Trajectory.Status.COMPLETED,
            reward=1.0,
            stop_reason="submitted",
            num_attempts=1,
            num_turns=3,
            finished_at=NOW + timedelta(minutes=5),
        )
        failed = factory.Trait(
            status=models.Trajectory.Status.FAILED,
            num_attempts=1,
            finished_at=NOW + timedelta(minutes=5),
        )
        cancelled = factory.Trait(
            status=models.Trajectory.Status.CANCELLED, finished_at=NOW + timedelta(minutes=5)
        )

    group = factory.SubFactory(GroupFactory)
    stage = factory.SelfAttribute("group.stage")
    run = factory.SelfAttribute("group.run")
    task = factory.SelfAttribute("group.task")
    index = factory.Sequence(lambda n: n)
    created_at = NOW


class NodeFactory(DjangoModelFactory[models.Node]):
    class Meta:
        model = models.Node

    hostname = factory.Sequence(lambda n: f"node-{n}")
    first_seen_at = NOW
    last_seen_at = NOW


class WorkerFactory(DjangoModelFactory[models.Worker]):
    class Meta:
        model = models.Worker

    node = factory.SubFactory(NodeFactory)
    name = factory.Sequence(lambda n: f"rollout-{n}")
    boot_id = factory.LazyFunction(lambda: uuid.uuid4().hex)
    kind = models.Worker.Kind.ROLLOUT
    pid = 1
    num_slots = 64
    started_at = NOW
    last_seen_at = factory.LazyFunction(lambda: datetime.now(UTC))


class EngineFactory(DjangoModelFactory[models.Engine]):
    class Meta:
        model = models.Engine

    run = factory.SubFactory(RunFactory)
    index = factory.Sequence(lambda n: n)
    status = models.Engine.Status.SERVING
    url = "http://127.0.0.1:30000"
    weight_version = 0
    created_at = NOW
    started_at = NOW


class AttemptFactory(DjangoModelFactory[models.Attempt]):
    class Meta:
        model = models.Attempt

    class Params:
        leased = factory.Trait(
            lease_token=factory.LazyFunction(uuid.uuid4),
            lease_expires_at=factory.LazyFunction(lambda: datetime.now(UTC) + timedelta(minutes=5)),
            worker=factory.SubFactory(WorkerFactory),
            started_at=NOW,
        )
        starting = factory.Trait(leased=True, status=models.Attempt.Status.STARTING)
        running = factory.Trait(leased=True, status=models.Attempt.Status.RUNNING)
        grading = factory.Trait(leased=True, status=models.Attempt.Status.GRADING)
        completed = factory.Trait(
            status=models.Attempt.Status.COMPLETED,
            stop_reason=models.Attempt.StopReason.SUBMITTED,
            reward=1.0,
            started_at=NOW,
            finished_at=NOW + timedelta(minutes=5),
        )
        failed = factory.Trait(
            status=models.Attempt.Status.FAILED,
            failure_stage="exec",
            failure_class="lost",
            failure_message="the sandbox is gone",
            started_at=NOW,
            finished_at=NOW + timedelta(minutes=5),
        )
        cancelled = factory.Trait(
            status=models.Attempt.Status.CANCELLED,
            cancel_reason=models.Attempt.CancelReason.RUN_STOPPED,
            finished_at=NOW + timedelta(minutes=5),
        )

    trajectory = factory.SubFactory(TrajectoryFactory)
    run = factory.SelfAttribute("trajectory.run")
    stage = factory.SelfAttribute("trajectory.stage")
    number = factory.Sequence(lambda n: n + 1)
    created_at = NOW


class TurnFactory(DjangoModelFactory[models.Turn]):
    class Meta:
        model = models.Turn

    attempt = factory.SubFactory(AttemptFactory)
    index = factory.Sequence(lambda n: n)
    started_at = NOW
    llm_s = 1.0
    exec_s = 0.25
    action = "ls"
    command = "ls"
    observation = "README.md"
    exit_code = 0
    finish_reason = "stop"
    prompt_tokens = 20
    output_tokens = 2
    cached_tokens = 10
    version_min = 0
    version_max = 0
    is_timed_out = False
    truncated_bytes = 0


class MetricPointFactory(DjangoModelFactory[models.MetricPoint]):
    class Meta:
        model = models.MetricPoint

    run = factory.SubFactory(RunFactory)
    name = "reward/mean"
    resume = 0
    step = factory.Sequence(lambda n: n)
    value = 0.5
    at = NOW


class EventFactory(DjangoModelFactory[models.Event]):
    class Meta:
        model = models.Event

    run = factory.SubFactory(RunFactory)
    at = NOW
    kind = "run_started"
    sentence = "The run started."


class CheckpointFactory(DjangoModelFactory[models.Checkpoint]):
    class Meta:
        model = models.Checkpoint

    stage = factory.SubFactory(StageFactory)
    run = factory.SelfAttribute("stage.run")
    step = factory.Sequence(lambda n: n)
    resume = 0
    weight_version = 0
    status = models.Checkpoint.Status.COMPLETE
    blob = factory.Sequence(lambda n: f"p1/checkpoints/{n}")
    created_at = NOW


class WeightVersionFactory(DjangoModelFactory[models.WeightVersion]):
    class Meta:
        model = models.WeightVersion

    run = factory.SubFactory(RunFactory)
    version = factory.Sequence(lambda n: n)
    resume = 0
    step = 0
    blob = factory.Sequence(lambda n: f"p1/weights/{n}")
    published_at = NOW


class SandboxFactory(DjangoModelFactory[Sandbox]):
    class Meta:
        model = Sandbox

    class Params:
        gone = factory.Trait(status=Sandbox.Status.GONE, finished_at=NOW + timedelta(minutes=5))

    project = factory.SubFactory(ProjectFactory)
    key = factory.Sequence(lambda n: f"sandbox-{n}")
    driver = "local"
    status = Sandbox.Status.LEASED
    worker = "rollout-0"
    created_at = NOW
    ready_at = NOW


class FailureGroupFactory(DjangoModelFactory[FailureGroup]):
    class Meta:
        model = FailureGroup

    project = factory.SubFactory(ProjectFactory)
    fingerprint = factory.Sequence(lambda n: f"v1:exec:lost:the sandbox is gone ({n})")
    stage = "exec"
    kind = "lost"
    message = "the sandbox is gone"
    num_failures = 1
    first_at = NOW
    last_at = NOW


class FailureFactory(DjangoModelFactory[Failure]):
    class Meta:
        model = Failure

    group = factory.SubFactory(FailureGroupFactory)
    project = factory.SelfAttribute("group.project")
    stage = factory.SelfAttribute("group.stage")
    kind = factory.SelfAttribute("group.kind")
    message = factory.SelfAttribute("group.message")
    at = NOW


class LimitFactory(DjangoModelFactory[Limit]):
    class Meta:
        model = Limit

    project = factory.SubFactory(ProjectFactory)
    layer = "sandbox"
    name = factory.Sequence(lambda n: f"limit-{n}")
    configured = 64.0
    measured = 12.0

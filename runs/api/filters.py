"""The query of every list: the same words in the address of a page and in the query of the API.

`status=completed,failed` is any of them; `reward=0.5`, `reward=gte:0.5` compare; `is_valid=true` is a flag.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Q
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from runs.models import Attempt, Engine, Event, Group, Run, Trajectory, Worker
from runs.selectors import run_list
from runs.selectors.tasks import BUCKETS
from sandboxes.failure_states import STATES
from sandboxes.failures import FailureClass, FailureStage
from sandboxes.models import Sandbox

_COMPARISONS = {"eq": "exact", "gt": "gt", "gte": "gte", "lt": "lt", "lte": "lte"}


@extend_schema_field(
    {"type": "string", "description": "One word, or several with commas: any of them."}
)
class AnyOf(serializers.Field[list[str], str, str, Any]):
    """Comma-separated words of a closed set, or of any when there is none."""

    def __init__(self, words: list[str] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.words = words

    def to_internal_value(self, data: str) -> list[str]:
        wanted = [word for word in data.split(",") if word]
        if "\0" in data:
            raise serializers.ValidationError("There is no word with a null character.")
        wrong = [word for word in wanted if self.words is not None and word not in self.words]
        if wrong and self.words is not None:
            raise serializers.ValidationError(
                f"{', '.join(wrong)}: give some of {', '.join(self.words)}."
            )
        return wanted


@extend_schema_field(
    {
        "type": "string",
        "description": "A number, or gt:, gte:, lt:, lte: and a number.",
        "example": "gte:0.5",
    }
)
class Compared(serializers.Field[Q, str, str, Any]):
    """A comparison of the field's own column."""

    def to_internal_value(self, data: str) -> Q:
        word, _, number = data.rpartition(":")
        try:
            return Q(**{f"{self.field_name}__{_COMPARISONS[word or 'eq']}": float(number)})
        except (KeyError, ValueError) as error:
            raise serializers.ValidationError(
                "Give a number, or gt:, gte:, lt:, lte: and a number."
            ) from error


@extend_schema_field({"type": "string", "example": "-id"})
class Sorted(serializers.Field[str, str, str, Any]):
    """`sort=duration`, `sort=-duration`: the words of the API for columns of the query."""

    def __init__(self, columns: Mapping[str, str], **options: Any) -> None:
        words = ", ".join(columns)
        super().__init__(help_text=f"One of {words}; - is descending.", required=False, **options)
        self.columns = columns

    def to_internal_value(self, data: str) -> str:
        word = data.removeprefix("-")
        if word not in self.columns:
            raise serializers.ValidationError(
                f"{word}: give one of {', '.join(self.columns)}, with - before it for the largest first."
            )
        return data.removesuffix(word) + self.columns[word]


class ProjectQuery(serializers.Serializer[Any]):
    project = serializers.SlugField(required=False)


class RunQuery(ProjectQuery):
    status = AnyOf(Run.Status.values, required=False)
    name = serializers.CharField(required=False, help_text="A part of the name.")
    recipe = AnyOf(required=False)
    sort = Sorted(run_list.SORTABLE)


class StepQuery(serializers.Serializer[Any]):
    stage = serializers.CharField(required=False)
    resume = serializers.IntegerField(required=False, min_value=0)


class MetricQuery(serializers.Serializer[Any]):
    name = AnyOf(required=False)


class EventQuery(serializers.Serializer[Any]):
    level = AnyOf(Event.Level.values, required=False)
    kind = AnyOf(required=False)


class RunGroupQuery(serializers.Serializer[Any]):
    stage = serializers.CharField(required=False)
    status = AnyOf(Group.Status.values, required=False)
    step = serializers.IntegerField(
        required=False, help_text="The id of the step that consumed it."
    )


class GroupQuery(RunGroupQuery):
    run = serializers.IntegerField(required=False)


class RunTrajectoryQuery(serializers.Serializer[Any]):
    stage = serializers.CharField(required=False)
    group = serializers.IntegerField(required=False)
    status = AnyOf(Trajectory.Status.values, required=False)
    task = serializers.CharField(required=False, help_text="The key of the task.")
    stop_reason = AnyOf(Attempt.StopReason.values, required=False)
    is_valid = serializers.BooleanField(  # type: ignore[assignment]
        required=False,
        allow_null=True,
        default=None,
        help_text="It has a reward that may be trusted.",
    )
    reward = Compared(required=False)


class TrajectoryQuery(RunTrajectoryQuery):
    run = serializers.IntegerField(required=False)


class TurnQuery(serializers.Serializer[Any]):
    attempt = serializers.IntegerField(
        required=False, min_value=1, help_text="The number of the attempt; the newest by default."
    )
    from_index = serializers.IntegerField(required=False, min_value=0, default=0)


class RunEngineQuery(serializers.Serializer[Any]):
    status = AnyOf(Engine.Status.values, required=False)


class EngineQuery(RunEngineQuery):
    run = serializers.IntegerField(required=False)


class WorkerQuery(serializers.Serializer[Any]):
    kind = AnyOf(Worker.Kind.values, required=False)
    status = AnyOf(Worker.Status.values, required=False)


class TaskSetQuery(ProjectQuery):
    name = serializers.CharField(required=False)


class TaskQuery(serializers.Serializer[Any]):
    repository = serializers.CharField(required=False)
    is_quarantined = serializers.BooleanField(required=False, allow_null=True, default=None)
    bucket = AnyOf(list(BUCKETS), required=False)
    sort = Sorted(
        {
            "key": "key",
            "repository": "repository",
            "difficulty": "difficulty",
            "solve_rate": "solve_rate",
            "trajectories": "num_trajectories",
            "attempts": "num_attempts",
            "infra_share": "infra_share",
            "last_seen": "last_seen_at",
        }
    )


class SandboxScopeQuery(serializers.Serializer[Any]):
    run = serializers.IntegerField(required=False)


class SandboxCarpetQuery(SandboxScopeQuery):
    bins = serializers.IntegerField(required=False, default=240, min_value=1, max_value=1000)


class SandboxQuery(SandboxScopeQuery):
    status = AnyOf(Sandbox.Status.values, required=False)
    driver = serializers.CharField(required=False)
    is_orphan = serializers.BooleanField(
        required=False,
        allow_null=True,
        default=None,
        help_text="Alive, and no attempt in flight has it.",
    )
    sort = Sorted({"created": "created_at", "start": "start_s", "lived": "lived_s", "run": "run_id"})


class FailureScopeQuery(serializers.Serializer[Any]):
    run = serializers.IntegerField(required=False)


class FailureGroupQuery(FailureScopeQuery):
    stage = AnyOf([stage.value for stage in FailureStage], required=False)
    kind = AnyOf([kind.value for kind in FailureClass], required=False)
    state = AnyOf(list(STATES), required=False)
    sort = Sorted({"last": "last_at", "first": "first_at", "failures": "num_failures"})


class LimitQuery(serializers.Serializer[Any]):
    layer = serializers.CharField(required=False)


class EvalArmQuery(serializers.Serializer[Any]):
    run = serializers.IntegerField(required=False)


class EvalCompareQuery(serializers.Serializer[Any]):
    arms = AnyOf(help_text="Ids of eval stages, with commas.")


class FailureQuery(serializers.Serializer[Any]):
    run = serializers.IntegerField(required=False)

"""The query of every list: the same words in the address of a page and in the query of the API.

`status=completed,failed` is any of them; `reward=0.5`, `reward=gte:0.5` compare; `is_valid=true` is a flag.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from django.db.models import Q
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from runs.models import Attempt, Engine, Event, Group, Run, Trajectory, Worker
from runs.selectors import groups, run_list, trajectory_query
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
        "description": "A number, or gt:, gte:, lt:, lte: and a number; several with commas: all of them.",
        "example": "gte:0.5",
    }
)
class Compared(serializers.Field[Q, str, str, Any]):
    """Comparisons of a column, by default the field's own."""

    def __init__(self, column: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.column = column

    def to_internal_value(self, data: str) -> Q:
        column, found = self.column or self.field_name, Q()
        for each in data.split(","):
            word, _, number = each.rpartition(":")
            comparison, value = _COMPARISONS.get(word or "eq"), _finite(number)
            if comparison is None or value is None:
                raise serializers.ValidationError(
                    "Give a number, or gt:, gte:, lt:, lte: and a number."
                )
            found &= Q(**{f"{column}__{comparison}": value})
        return found


def _finite(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


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


class EventQuery(serializers.Serializer[Any]):
    level = AnyOf(Event.Level.values, required=False)
    kind = AnyOf(required=False)


class RunGroupQuery(serializers.Serializer[Any]):
    stage = serializers.CharField(required=False)
    status = AnyOf(Group.Status.values, required=False)
    step = serializers.IntegerField(
        required=False, help_text="The id of the step that consumed it."
    )
    task = serializers.CharField(required=False, help_text="The key of the task.")
    repository = AnyOf(required=False)
    zero_gradient = AnyOf(list(groups.ZERO_GRADIENT), required=False)
    has_invalid = serializers.BooleanField(
        required=False,
        allow_null=True,
        default=None,
        help_text="A member failed by infrastructure.",
    )
    sort = Sorted(groups.SORTABLE)


class GroupQuery(RunGroupQuery):
    run = serializers.IntegerField(required=False)


class TrajectoryFilterQuery(serializers.Serializer[Any]):
    stage = AnyOf(required=False)
    group = serializers.IntegerField(required=False)
    step = serializers.IntegerField(
        required=False, help_text="The id of the step that consumed its group."
    )
    status = AnyOf(Trajectory.Status.values, required=False)
    outcome = AnyOf(list(trajectory_query.OUTCOMES), required=False)
    task = serializers.CharField(required=False, help_text="The key of the task.")
    repository = AnyOf(required=False)
    stop_reason = AnyOf(Attempt.StopReason.values, required=False)
    driver = AnyOf(required=False)
    engine = serializers.IntegerField(required=False, help_text="The index of the engine.")
    failure = AnyOf([kind.value for kind in FailureClass], required=False)
    is_valid = serializers.BooleanField(  # type: ignore[assignment]
        required=False,
        allow_null=True,
        default=None,
        help_text="It has a reward that may be trusted.",
    )
    is_zero_gradient = serializers.BooleanField(
        required=False,
        allow_null=True,
        default=None,
        help_text="All valid members of its group have the same reward.",
    )
    reward = Compared(required=False)
    turns = Compared("num_turns", required=False)
    tokens = Compared("output_tokens", required=False)
    duration = Compared("duration_s", required=False)
    staleness = Compared(required=False)
    q = serializers.CharField(
        required=False, help_text="A part of a task, repository or failure, or an id."
    )


class RunTrajectoryQuery(TrajectoryFilterQuery):
    sort = Sorted(trajectory_query.SORTABLE)


class TrajectoryExportQuery(RunTrajectoryQuery):
    format = serializers.ChoiceField(["ndjson", "csv", "parquet"], default="ndjson")


class TrajectoryQuery(RunTrajectoryQuery):
    run = serializers.IntegerField(required=False)


class CapsQuery(serializers.Serializer[Any]):
    stage = serializers.CharField(required=False)


class TailQuery(CapsQuery):
    step = serializers.IntegerField(required=False, help_text="Its id; by default the newest.")


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
    sort = Sorted(
        {"created": "created_at", "start": "start_s", "lived": "lived_s", "run": "run_id"}
    )


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

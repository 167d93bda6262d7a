"""What may be written about runs and recipes."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers


class RecipeSourceSerializer(serializers.Serializer[Any]):
    source = serializers.CharField(  # type: ignore[assignment]
        max_length=1_000_000, trim_whitespace=False, help_text="The recipe (YAML)."
    )
    project = serializers.SlugField(
        required=False, help_text="Its slug; not needed by members of one project."
    )


class PreflightSerializer(RecipeSourceSerializer):
    from_checkpoint = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        help_text="Start from the weights of this checkpoint instead of the recipe's model.",
    )


class LaunchRunSerializer(PreflightSerializer):
    name = serializers.CharField(
        required=False, max_length=200, help_text="The recipe's own name by default."
    )
    from_run = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        help_text="The run that this one is cloned from.",
    )


class CommandSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(
        required=False,
        allow_blank=True,
        default="",
        max_length=500,
        help_text="Kept in the event feed.",
    )

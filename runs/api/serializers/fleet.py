"""What may be written about failures, workers and tasks."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers


class ReasonSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=500, help_text="Kept in the audit log.")


class IgnoreSerializer(ReasonSerializer):
    until = serializers.DateTimeField()

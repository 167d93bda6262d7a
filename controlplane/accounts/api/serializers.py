"""What may be written about oneself."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from controlplane.accounts.models import Role


class LoginSerializer(serializers.Serializer[Any]):
    username = serializers.CharField(max_length=150)
    password = serializers.CharField(max_length=1000, trim_whitespace=False)


class IssueTokenSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=100)
    role = serializers.ChoiceField(choices=Role.choices, default=Role.OPERATOR.value)
    project = serializers.SlugField(
        required=False, help_text="Its slug; not needed by members of one project."
    )
    expires_at = serializers.DateTimeField(required=False, allow_null=True, default=None)

from __future__ import annotations

from typing import Any

from rest_framework import serializers


class LimitQuery(serializers.Serializer[Any]):
    layer = serializers.CharField(required=False)

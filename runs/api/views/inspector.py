"""One attempt of a trajectory by parts: what the inspector shows, tab by tab."""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.api import filters
from controlplane.schema import PROBLEM_ANSWER, describes, lists
from runs.selectors import attempt_log, inspector, outline, tokens


class AttemptQuery(serializers.Serializer[Any]):
    attempt = serializers.IntegerField(
        required=False, min_value=1, help_text="The number of the attempt; the newest by default."
    )


class _RangeQuery(AttemptQuery):
    """`from` is no name in Python."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        start = serializers.IntegerField(
            required=False, min_value=0, max_value=2**31 - 1, source="start"
        )
        end = serializers.IntegerField(
            required=False, min_value=0, max_value=2**31 - 1, source="end"
        )
        return {**super().get_fields(), "from": start, "to": end}


class TextQuery(_RangeQuery):
    part = serializers.ChoiceField(
        choices=["action", "command", "observation", "log"], default="observation"
    )


class TokenQuery(_RangeQuery):
    pass


class LogQuery(AttemptQuery):
    limit = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=attempt_log.MAX_LINES,
        default=attempt_log.DEFAULT_LINES,
    )
    q = serializers.CharField(required=False, max_length=500, trim_whitespace=False)
    regex = serializers.BooleanField(required=False, default=False, source="is_regex")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        first = serializers.IntegerField(
            required=False, min_value=1, max_value=2**31 - 1, source="first", default=1
        )
        return {**super().get_fields(), "from": first}


class Skeleton(APIView):
    @describes(outline.SkeletonRow, query=AttemptQuery)
    def get(self, request: Request, trajectory: int) -> Response:
        """The outline of an attempt: every turn without its texts."""
        given = filters(request, AttemptQuery)
        return Response(outline.skeleton(request.user, trajectory, **given))


class TurnText(APIView):
    @describes(inspector.TextRow, query=TextQuery)
    def get(self, request: Request, trajectory: int, turn: int) -> Response:
        """A range of characters of one body of a turn."""
        given = filters(request, TextQuery)
        return Response(inspector.turn_text(request.user, trajectory, turn, **given))


class PatchView(APIView):
    @describes(inspector.PatchRow, query=AttemptQuery)
    def get(self, request: Request, trajectory: int) -> Response:
        """What the agent changed, as it was graded."""
        given = filters(request, AttemptQuery)
        return Response(inspector.patch(request.user, trajectory, **given))


class TestsView(APIView):
    @describes(inspector.TestsRow, query=AttemptQuery)
    def get(self, request: Request, trajectory: int) -> Response:
        """What the verifier said."""
        given = filters(request, AttemptQuery)
        return Response(inspector.verdict(request.user, trajectory, **given))


class Tokens(APIView):
    @describes(tokens.TokensRow, query=TokenQuery)
    def get(self, request: Request, trajectory: int) -> Response:
        """A range of its tokens with their log-probs."""
        given = filters(request, TokenQuery)
        return Response(tokens.tokens(request.user, trajectory, **given))


class Log(APIView):
    @describes(attempt_log.LogRow, query=LogQuery)
    def get(self, request: Request, trajectory: int) -> Response:
        """Numbered lines of commands, outputs and verifier; with q those that match."""
        given = filters(request, LogQuery)
        return Response(attempt_log.attempt_log(request.user, trajectory, **given))


class Atif(APIView):
    @extend_schema(
        parameters=[AttemptQuery],
        responses={200: OpenApiTypes.OBJECT, **PROBLEM_ANSWER},
    )
    def get(self, request: Request, trajectory: int) -> Response:
        """The whole attempt as an ATIF document, to download."""
        given = filters(request, AttemptQuery)
        answer = Response(tokens.atif(request.user, trajectory, **given))
        answer["Content-Disposition"] = f'attachment; filename="trajectory-{trajectory}.atif.json"'
        return answer


class Siblings(APIView):
    @describes(inspector.SiblingsRow)
    def get(self, request: Request, trajectory: int) -> Response:
        """The members of its group on one axis."""
        filters(request)
        return Response(inspector.siblings(request.user, trajectory))


class TrajectorySandboxes(APIView):
    @lists(inspector.BoxRow)
    def get(self, request: Request, trajectory: int) -> Response:
        """The sandboxes of its attempts, newest first."""
        filters(request)
        rows = inspector.boxes(request.user, trajectory)
        return Response({"results": rows, "next": None, "previous": None})

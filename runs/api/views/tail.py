"""The long tail of a run."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.api import filters
from controlplane.schema import describes
from runs.api.filters import CapsQuery, TailQuery
from runs.selectors import tail


class RunTail(APIView):
    @describes(tail.TailRow, query=TailQuery)
    def get(self, request: Request, run: int) -> Response:
        """The groups of a step (by default the newest) with the time of each member, turn by turn."""
        return Response(tail.tail(request.user, **filters(request, TailQuery, run=run)))


class RunCaps(APIView):
    @describes(tail.CapsRow, query=CapsQuery)
    def get(self, request: Request, run: int) -> Response:
        """Turns, tokens, seconds and outcome of every trajectory of a stage: what a cap would have cut."""
        return Response(tail.caps(request.user, **filters(request, CapsQuery, run=run)))

"""The first screen of a run, one of its steps, and what kinds of events it wrote."""

from __future__ import annotations

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from typing_extensions import TypedDict

from controlplane.api import filters
from controlplane.schema import describes
from runs.selectors import batches, history, overview


class EventKindsRow(TypedDict):
    kinds: list[history.EventKindRow]


class RunOverview(APIView):
    @describes(overview.OverviewRow)
    def get(self, request: Request, run: int) -> Response:
        """What a run waits for and why, what it holds, and what became of its work."""
        given = filters(request, run=run)
        return Response(overview.overview(request.user, now=timezone.now(), **given))


class StepDetail(APIView):
    @describes(batches.StepDetailRow)
    def get(self, request: Request, run: int, step: int) -> Response:
        """A step with all its metrics, its groups and their members."""
        given = filters(request, run=run, step=step)
        return Response(batches.step_detail(request.user, **given))


class EventKindList(APIView):
    @describes(EventKindsRow)
    def get(self, request: Request, run: int) -> Response:
        """The kinds of lines in the event feed, with their numbers."""
        return Response({"kinds": history.event_kinds(request.user, **filters(request, run=run))})

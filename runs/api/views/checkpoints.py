"""Checkpoints of a run and the lives of its trainer."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from typing_extensions import TypedDict

from controlplane.api import filters, page
from controlplane.schema import describes, lists
from runs.selectors import checkpoints


class ResumesRow(TypedDict):
    resumes: list[checkpoints.TrainerLifeRow]


class CheckpointList(APIView):
    @lists(checkpoints.CheckpointRow)
    def get(self, request: Request, run: int) -> Response:
        """Trainer states, newest first."""
        return page(request, checkpoints.checkpoints(request.user, **filters(request, run=run)))


class ResumeList(APIView):
    @describes(ResumesRow)
    def get(self, request: Request, run: int) -> Response:
        """The lives of the trainer after the first, newest first: why, how long it was away, what was undone."""
        return Response({"resumes": checkpoints.resumes(request.user, **filters(request, run=run))})

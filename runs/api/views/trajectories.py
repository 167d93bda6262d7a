"""Groups, trajectories and turns: of a run, or of all runs that the actor may see."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.api import filters, page
from controlplane.schema import describes, lists
from runs.api.filters import (
    GroupQuery,
    RunGroupQuery,
    RunTrajectoryQuery,
    TrajectoryQuery,
    TurnQuery,
)
from runs.selectors import groups, trajectories


class GroupList(APIView):
    @lists(groups.GroupRow, query=GroupQuery)
    def get(self, request: Request) -> Response:
        """Groups, newest first."""
        return page(request, groups.groups(request.user, **filters(request, GroupQuery)))


class RunGroupList(APIView):
    @lists(groups.GroupRow, query=RunGroupQuery)
    def get(self, request: Request, run: int) -> Response:
        """Groups of a run, newest first."""
        given = filters(request, RunGroupQuery, run=run)
        return page(request, groups.groups(request.user, **given))


class GroupDetail(APIView):
    @describes(groups.GroupDetailRow)
    def get(self, request: Request, group_id: int) -> Response:
        """A group with its members side by side: what each ran, left and was graded."""
        filters(request)
        return Response(groups.group_detail(request.user, group_id))


class TrajectoryList(APIView):
    @lists(trajectories.TrajectoryRow, query=TrajectoryQuery)
    def get(self, request: Request) -> Response:
        """Trajectories, newest first."""
        given = filters(request, TrajectoryQuery)
        return page(request, trajectories.trajectories(request.user, **given))


class RunTrajectoryList(APIView):
    @lists(trajectories.TrajectoryRow, query=RunTrajectoryQuery)
    def get(self, request: Request, run: int) -> Response:
        """Trajectories of a run, newest first."""
        given = filters(request, RunTrajectoryQuery, run=run)
        return page(request, trajectories.trajectories(request.user, **given))


class TrajectoryDetail(APIView):
    @describes(trajectories.TrajectoryDetailRow)
    def get(self, request: Request, trajectory: int) -> Response:
        """A trajectory with its task and every attempt; its turns are fetched by range."""
        filters(request)
        return Response(trajectories.trajectory_detail(request.user, trajectory))


class TurnList(APIView):
    @lists(trajectories.TurnRow, query=TurnQuery)
    def get(self, request: Request, trajectory: int) -> Response:
        """Turns of an attempt, in order."""
        given: dict[str, Any] = filters(request, TurnQuery)
        return page(request, trajectories.turns(request.user, trajectory, **given))

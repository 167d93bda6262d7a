"""What runs underneath: engines, workers, nodes, sandboxes, failures, task sets."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.api import filters, page
from controlplane.schema import describes, lists
from runs.api.filters import (
    EngineQuery,
    FailureGroupQuery,
    FailureQuery,
    RunEngineQuery,
    SandboxQuery,
    TaskQuery,
    TaskSetQuery,
    WorkerQuery,
)
from runs.selectors import fleet, sandboxes, tasks
from sandboxes import selectors as boxes


class EngineList(APIView):
    @lists(fleet.EngineRow, query=EngineQuery)
    def get(self, request: Request) -> Response:
        """Inference servers, newest first."""
        return page(request, fleet.engines(request.user, **filters(request, EngineQuery)))


class RunEngineList(APIView):
    @lists(fleet.EngineRow, query=RunEngineQuery)
    def get(self, request: Request, run: int) -> Response:
        """Inference servers of a run, newest first."""
        return page(
            request, fleet.engines(request.user, **filters(request, RunEngineQuery, run=run))
        )


class WorkerList(APIView):
    @lists(fleet.WorkerRow, query=WorkerQuery)
    def get(self, request: Request) -> Response:
        """Worker processes, newest first."""
        return page(request, fleet.workers(request.user, **filters(request, WorkerQuery)))


class NodeList(APIView):
    @lists(fleet.NodeRow)
    def get(self, request: Request) -> Response:
        """Machines, newest first."""
        return page(request, fleet.nodes(request.user, **filters(request)))


class SandboxList(APIView):
    @lists(sandboxes.SandboxRow, query=SandboxQuery)
    def get(self, request: Request) -> Response:
        """Sandboxes, newest first."""
        return page(request, sandboxes.sandboxes(request.user, **filters(request, SandboxQuery)))


class FailureGroupList(APIView):
    @lists(boxes.FailureGroupRow, query=FailureGroupQuery)
    def get(self, request: Request) -> Response:
        """Failures by fingerprint, the newest fingerprint first."""
        return page(
            request, boxes.failure_groups(request.user, **filters(request, FailureGroupQuery))
        )


class FailureGroupDetail(APIView):
    @describes(boxes.FailureGroupRow)
    def get(self, request: Request, group: int) -> Response:
        """One fingerprint."""
        filters(request)
        return Response(boxes.failure_group(request.user, group))


class FailureMemberList(APIView):
    @lists(sandboxes.FailureRow, query=FailureQuery)
    def get(self, request: Request, group: int) -> Response:
        """The failures of one fingerprint, newest first."""
        boxes.failure_group(request.user, group)
        given = filters(request, FailureQuery, group=group)
        return page(request, sandboxes.failures(request.user, **given))


class TaskSetList(APIView):
    @lists(tasks.TaskSetRow, query=TaskSetQuery)
    def get(self, request: Request) -> Response:
        """Task sets, newest first."""
        return page(request, tasks.task_sets(request.user, **filters(request, TaskSetQuery)))


class TaskList(APIView):
    @lists(tasks.TaskRow, query=TaskQuery)
    def get(self, request: Request, task_set: int) -> Response:
        """Tasks of a set."""
        return page(
            request, tasks.tasks(request.user, **filters(request, TaskQuery, task_set=task_set))
        )

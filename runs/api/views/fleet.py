"""What runs underneath: engines, workers, nodes, limits, sandboxes, failures, task sets; evaluations compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.api import body, filters, page
from controlplane.schema import describes, lists
from runs.api.filters import (
    EngineQuery,
    EvalArmQuery,
    EvalCompareQuery,
    FailureGroupQuery,
    FailureQuery,
    FailureScopeQuery,
    LimitQuery,
    RunEngineQuery,
    SandboxCarpetQuery,
    SandboxQuery,
    SandboxScopeQuery,
    TaskQuery,
    TaskSetQuery,
    WorkerQuery,
)
from runs.api.serializers.fleet import IgnoreSerializer, ReasonSerializer
from runs.selectors import eval_compare, failures, fleet, limits, sandbox_detail, sandboxes, tasks
from runs.services.failures import ignore_group
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


class QueueList(APIView):
    @describes(fleet.QueuesRow)
    def get(self, request: Request) -> Response:
        """What waits, by what it waits for."""
        filters(request)
        return Response(fleet.queues(request.user))


class WorkerCommand(APIView):
    """drain, undrain: `service` is set by the URL."""

    service: Callable[..., None] | None = None

    @describes(fleet.WorkerRow, request=ReasonSerializer)
    def post(self, request: Request, worker: int) -> Response:
        """Command a worker; 409 when its status does not allow it."""
        given = body(request, ReasonSerializer)
        assert self.service is not None
        self.service(worker, actor=request.user, reason=given["reason"], now=timezone.now())
        found = fleet.workers(request.user)
        return Response(found.shape(list(found.query.filter(pk=worker)))[0])


class LimitList(APIView):
    @lists(limits.LimitRow, query=LimitQuery)
    def get(self, request: Request) -> Response:
        """Caps of every layer, configured and measured, with who waits for them."""
        return page(request, limits.limits(request.user, **filters(request, LimitQuery)))


class SandboxList(APIView):
    @lists(sandboxes.SandboxRow, query=SandboxQuery)
    def get(self, request: Request) -> Response:
        """Sandboxes, newest first."""
        return page(request, sandboxes.sandboxes(request.user, **filters(request, SandboxQuery)))


class SandboxFleet(APIView):
    @describes(sandboxes.SandboxFleetRow, query=SandboxScopeQuery)
    def get(self, request: Request) -> Response:
        """Sandboxes by state against their limit, and how long a start takes by driver."""
        given = filters(request, SandboxScopeQuery)
        return Response(sandboxes.sandbox_fleet(request.user, **given))


class SandboxCarpet(APIView):
    @describes(sandboxes.SandboxCarpetRow, query=SandboxCarpetQuery)
    def get(self, request: Request) -> Response:
        """Slots over time by stage, a byte a cell."""
        given = filters(request, SandboxCarpetQuery)
        return Response(sandboxes.sandbox_carpet(request.user, now=timezone.now(), **given))


class SandboxDetail(APIView):
    @describes(sandbox_detail.SandboxDetailRow)
    def get(self, request: Request, sandbox: int) -> Response:
        """A sandbox: its life, what failed in it, and what that did to the training."""
        filters(request)
        return Response(sandbox_detail.sandbox_detail(request.user, sandbox))


class FailureGroupList(APIView):
    @lists(failures.FailureGroupRow, query=FailureGroupQuery)
    def get(self, request: Request) -> Response:
        """Failures by fingerprint, the newest fingerprint first."""
        given = filters(request, FailureGroupQuery)
        return page(request, failures.failure_groups(request.user, now=timezone.now(), **given))


class FailureGroupDetail(APIView):
    @describes(failures.FailureGroupDetailRow, query=FailureScopeQuery)
    def get(self, request: Request, group: int) -> Response:
        """One fingerprint: what it did, how it is spread, why it is one group."""
        given = filters(request, FailureScopeQuery)
        now = timezone.now()
        return Response(failures.failure_group(request.user, group, now=now, **given))


def _say_of_group(
    request: Request, group: int, service: Callable[..., None], **given: Any
) -> Response:
    now = timezone.now()
    failures.failure_group(request.user, group, now=now)
    service(group, actor=request.user, now=now, **given)
    return Response(failures.failure_group(request.user, group, now=now))


class FailureGroupCommand(APIView):
    """resolve, reopen: `service` is set by the URL."""

    service: Callable[..., None] | None = None

    @describes(failures.FailureGroupDetailRow, request=ReasonSerializer)
    def post(self, request: Request, group: int) -> Response:
        """Say what a failure group is, with a reason."""
        assert self.service is not None
        return _say_of_group(request, group, self.service, **body(request, ReasonSerializer))


class FailureGroupIgnore(APIView):
    @describes(failures.FailureGroupDetailRow, request=IgnoreSerializer)
    def post(self, request: Request, group: int) -> Response:
        """Known, and not worth a look before `until`."""
        return _say_of_group(request, group, ignore_group, **body(request, IgnoreSerializer))


class FailureMemberList(APIView):
    @lists(sandboxes.FailureRow, query=FailureQuery)
    def get(self, request: Request, group: int) -> Response:
        """The failures of one fingerprint, newest first."""
        boxes.failure_group(request.user, group, now=timezone.now())
        given = filters(request, FailureQuery, group=group)
        return page(request, sandboxes.failures(request.user, **given))


class TaskSetList(APIView):
    @lists(tasks.TaskSetRow, query=TaskSetQuery)
    def get(self, request: Request) -> Response:
        """Task sets, newest first."""
        return page(request, tasks.task_sets(request.user, **filters(request, TaskSetQuery)))


class TaskSetDetail(APIView):
    @describes(tasks.TaskSetDetailRow)
    def get(self, request: Request, task_set: int) -> Response:
        """A task set: its repositories, and what the policy made of its tasks."""
        filters(request)
        return Response(tasks.task_set_detail(request.user, task_set))


class TaskList(APIView):
    @lists(tasks.TaskRow, query=TaskQuery)
    def get(self, request: Request, task_set: int) -> Response:
        """Tasks of a set."""
        return page(
            request, tasks.tasks(request.user, **filters(request, TaskQuery, task_set=task_set))
        )


class TaskDetail(APIView):
    @describes(tasks.TaskDetailRow)
    def get(self, request: Request, task_set: int, task: int) -> Response:
        """A task: what it asks, how often it is solved, what failed on it."""
        filters(request)
        return Response(tasks.task_detail(request.user, task_set=task_set, task=task))


class TaskCommand(APIView):
    """quarantine, release: `service` is set by the URL."""

    service: Callable[..., None] | None = None

    @describes(tasks.TaskDetailRow, request=ReasonSerializer)
    def post(self, request: Request, task_set: int, task: int) -> Response:
        """Take a task out of training, or let it back in; 409 when it is so already."""
        given = body(request, ReasonSerializer)
        assert self.service is not None
        tasks.task_detail(request.user, task_set=task_set, task=task)
        self.service(task, actor=request.user, reason=given["reason"], now=timezone.now())
        return Response(tasks.task_detail(request.user, task_set=task_set, task=task))


class EvalArmList(APIView):
    @lists(eval_compare.EvalArmRow, query=EvalArmQuery)
    def get(self, request: Request) -> Response:
        """Evaluations that can be compared, newest first."""
        return page(request, eval_compare.eval_arms(request.user, **filters(request, EvalArmQuery)))


class EvalCompare(APIView):
    @describes(eval_compare.EvalCompareRow, query=EvalCompareQuery)
    def get(self, request: Request) -> Response:
        """Evaluations side by side over the same tasks; arms measured differently are refused with what differs."""
        return Response(eval_compare.compare(request.user, **filters(request, EvalCompareQuery)))

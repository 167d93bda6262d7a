"""Runs, recipes and what happens in a run: every write is one call of one service."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Literal, cast

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from typing_extensions import TypedDict

from controlplane.accounts.access import require
from controlplane.accounts.models import Role
from controlplane.accounts.selectors import project_named
from controlplane.api import body, filters, page
from controlplane.errors import Invalid
from controlplane.schema import describes, lists
from runs.api.filters import (
    EventQuery,
    ProjectQuery,
    RunQuery,
    StepQuery,
)
from runs.api.serializers.runs import (
    CommandSerializer,
    LaunchRunSerializer,
    PreflightSerializer,
    RecipeSourceSerializer,
)
from runs.recipe import Recipe
from runs.selectors import evaluations, history, plans, recipes, run_list, runs, stages
from runs.services import runs as services
from runs.services.preflight import preflight
from runs.services.recipes import save_recipe

MAX_KEY = 200
MAX_RECIPE_NAME = 100


class CheckRow(TypedDict):
    """One finding of the preflight; an error refuses the launch. `remedy` says what to do about it."""

    name: str
    level: Literal["ok", "warning", "error"]
    sentence: str
    remedy: str
    configured: float | str | None
    measured: float | str | None
    unit: str
    pointer: str


class PreflightRow(TypedDict):
    """Every check, and what the recipe would do; there is no plan where the recipe cannot be read."""

    is_launchable: bool
    checks: list[CheckRow]
    plan: plans.PlanRow | None


class RunRecipeRow(TypedDict):
    """What was launched: the text, and what it means with every default."""

    source: str
    recipe: Recipe


class StagesRow(TypedDict):
    stages: list[stages.StageRow]


class RunList(APIView):
    @lists(run_list.RunRow, query=RunQuery)
    def get(self, request: Request) -> Response:
        """Runs, newest first."""
        given = filters(request, RunQuery)
        return page(request, run_list.runs(request.user, now=timezone.now(), **given))

    @extend_schema(
        parameters=[
            OpenApiParameter(
                "Idempotency-Key",
                str,
                OpenApiParameter.HEADER,
                description="The same key gives the run that it made: a resent request launches nothing.",
            )
        ]
    )
    @describes(runs.RunDetailRow, request=LaunchRunSerializer, status=201)
    def post(self, request: Request) -> Response:
        """Launch a run of a recipe; a failed preflight is 422 with a pointer per field."""
        given = body(request, LaunchRunSerializer)
        now = timezone.now()
        run = services.launch_run(
            request.user,
            project_named(request.user, given.get("project")),
            given["source"],
            now=now,
            idempotency_key=_idempotency_key(request),
            name=given.get("name"),
            from_run=given.get("from_run"),
            from_checkpoint=given.get("from_checkpoint"),
        )
        return Response(runs.run_detail(request.user, run.pk, now=now), status=201)


def _idempotency_key(request: Request) -> str | None:
    key = request.headers.get("Idempotency-Key")
    if key is not None and not (0 < len(key) <= MAX_KEY and key.isprintable()):
        raise Invalid(
            f"An Idempotency-Key has 1 to {MAX_KEY} printable characters.", code="bad_key"
        )
    return key


class RunDetail(APIView):
    @describes(runs.RunDetailRow)
    def get(self, request: Request, run: int) -> Response:
        """A run with its stages, counts and rates."""
        filters(request)
        return Response(runs.run_detail(request.user, run, now=timezone.now()))


class RunCommand(APIView):
    """pause, unpause, stop, resume, checkpoint: `service` is set by the URL."""

    service: Callable[..., None] | None = None

    @describes(runs.RunDetailRow, request=CommandSerializer)
    def post(self, request: Request, run: int) -> Response:
        """Command a run; 409 when its status does not allow it."""
        given = body(request, CommandSerializer)
        assert self.service is not None
        now = timezone.now()
        found = runs.visible_run(request.user, run)
        self.service(found, actor=request.user, reason=given["reason"], now=now)
        return Response(runs.run_detail(request.user, run, now=now))


class RunRecipe(APIView):
    @describes(RunRecipeRow)
    def get(self, request: Request, run: int) -> Response:
        """The recipe of a run, as text and as it was understood."""
        filters(request)
        source, recipe = runs.recipe_of(request.user, run)
        return Response({"source": source, "recipe": recipe})


class StageList(APIView):
    @describes(StagesRow)
    def get(self, request: Request, run: int) -> Response:
        """All stages of a run, in order."""
        filters(request)
        return Response({"stages": runs.stages(request.user, run)})


class StepList(APIView):
    @lists(history.StepRow, query=StepQuery)
    def get(self, request: Request, run: int) -> Response:
        """Optimizer steps, newest first."""
        return page(request, history.steps(request.user, **filters(request, StepQuery, run=run)))


class EventList(APIView):
    @lists(history.EventRow, query=EventQuery)
    def get(self, request: Request, run: int) -> Response:
        """What happened, newest first."""
        return page(request, history.events(request.user, **filters(request, EventQuery, run=run)))


class EvaluationList(APIView):
    @describes(evaluations.EvaluationsRow)
    def get(self, request: Request, run: int) -> Response:
        """pass@1 of every eval stage with its interval, and per task."""
        return Response(evaluations.evaluations(request.user, **filters(request, run=run)))


class RecipeList(APIView):
    @lists(recipes.StoredRecipeRow, query=ProjectQuery)
    def get(self, request: Request) -> Response:
        """Stored recipes, newest first."""
        return page(request, recipes.recipes(request.user, **filters(request, ProjectQuery)))


class RecipeDetail(APIView):
    @describes(recipes.StoredRecipeRow, query=ProjectQuery)
    def get(self, request: Request, name: str) -> Response:
        """A stored recipe."""
        given = filters(request, ProjectQuery)
        return Response(recipes.recipe_named(request.user, name, **given))

    @describes(recipes.StoredRecipeRow, request=RecipeSourceSerializer)
    def put(self, request: Request, name: str) -> Response:
        """Create or replace a stored recipe; a recipe with errors is 422 with a pointer per field."""
        given = body(request, RecipeSourceSerializer)
        if len(name) > MAX_RECIPE_NAME:
            raise Invalid(f"A recipe's name has at most {MAX_RECIPE_NAME} characters.")
        project = project_named(request.user, given.get("project"))
        save_recipe(request.user, project, name=name, source=given["source"], now=timezone.now())
        return Response(recipes.recipe_named(request.user, name, project=project.slug))


class RecipeSchema(APIView):
    @describes(dict[str, Any])
    def get(self, request: Request) -> Response:
        """The JSON schema of a recipe."""
        filters(request)
        return Response(Recipe.model_json_schema())


class PreflightView(APIView):
    @describes(PreflightRow, request=PreflightSerializer)
    def post(self, request: Request) -> Response:
        """Everything that a launch would check, and what it would do; changes nothing."""
        given = body(request, PreflightSerializer)
        project = project_named(request.user, given.get("project"))
        require(request.user, project.pk, Role.OPERATOR)
        source = given["source"]
        checks = preflight(project, source, from_checkpoint=given.get("from_checkpoint"))
        return Response(
            PreflightRow(
                is_launchable=all(check.level != "error" for check in checks),
                checks=[cast("CheckRow", asdict(check)) for check in checks],
                plan=plans.plan_of(project, source),
            )
        )

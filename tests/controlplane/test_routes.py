"""Every route of the URL conf with every person: a route that is not in the table below fails."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from django.core.management import call_command
from django.urls import URLPattern, URLResolver
from django.utils import timezone
from drf_spectacular.generators import SchemaGenerator

from controlplane import urls
from controlplane.accounts.models import Role
from controlplane.accounts.services.tokens import issue_token
from runs.models import Run, Task, Worker
from tests import factories, scenario
from tests.factories import NOW
from tests.scenario import Scenario

pytestmark = pytest.mark.django_db

Arrange = Callable[[Scenario], None]


@dataclass(frozen=True)
class Route:
    """Who may use it (the lowest role), what is sent, what an outsider gets.

    outsider: 404 for what has an owner; 200 where they may ask but get no row of ours; None where all are equal.
    """

    least: str = "viewer"
    outsider: int | None = 404
    ok: int = 200
    body: dict[str, Any] = field(default_factory=dict)
    arrange: Arrange | None = None
    query: str = ""


REASON = {"reason": "because"}


def _run_is(status: str) -> Arrange:
    def arrange(scene: Scenario) -> None:
        finished = {"finished_at": NOW} if status in ("failed", "cancelled") else {}
        Run.objects.filter(pk=scene.rows["run"]).update(status=status, **finished)

    return arrange


def _an_rl_stage_runs(scene: Scenario) -> None:
    factories.StageFactory(run=Run.objects.get(pk=scene.rows["run"]))


def _worker_is(status: str) -> Arrange:
    def arrange(scene: Scenario) -> None:
        Worker.objects.filter(pk=scene.rows["worker"]).update(status=status)

    return arrange


def _task_is_quarantined(scene: Scenario) -> None:
    Task.objects.filter(pk=scene.rows["task"]).update(quarantined_at=NOW)


LIST = Route(outsider=200)
OPEN = Route(outsider=None)
ROUTES: dict[tuple[str, str], Route] = {
    ("GET", "me"): OPEN,
    ("POST", "logout"): Route(outsider=None, ok=204),
    ("POST", "ws-ticket"): Route(outsider=None, ok=201),
    ("GET", "projects"): LIST,
    ("GET", "tokens"): LIST,
    ("POST", "tokens"): Route(ok=201, body={"name": "t", "role": "viewer", "project": "ours"}),
    ("GET", "limits"): LIST,
    ("GET", "recipes"): LIST,
    ("GET", "recipes/{name}"): Route(),
    ("PUT", "recipes/{name}"): Route(
        least="operator", body={"source": factories.RECIPE_SOURCE, "project": "ours"}
    ),
    ("GET", "recipe-schema"): OPEN,
    ("POST", "preflight"): Route(
        least="operator", body={"source": factories.RECIPE_SOURCE, "project": "ours"}
    ),
    ("GET", "metric-catalogue"): OPEN,
    ("GET", "runs"): LIST,
    ("POST", "runs"): Route(least="operator", ok=201, body={"source": "RECIPE", "project": "ours"}),
    ("GET", "runs/{run}"): Route(),
    ("POST", "runs/{run}/pause"): Route(least="operator"),
    ("POST", "runs/{run}/unpause"): Route(least="operator", arrange=_run_is("paused")),
    ("POST", "runs/{run}/stop"): Route(least="operator"),
    ("POST", "runs/{run}/resume"): Route(least="operator", arrange=_run_is("failed")),
    ("POST", "runs/{run}/checkpoint"): Route(least="operator", arrange=_an_rl_stage_runs),
    ("GET", "runs/{run}/recipe"): Route(),
    ("GET", "runs/{run}/stages"): Route(),
    ("GET", "runs/{run}/overview"): Route(),
    ("GET", "runs/{run}/steps"): Route(),
    ("GET", "runs/{run}/steps/{step}"): Route(),
    ("GET", "runs/{run}/metrics"): Route(),
    ("GET", "runs/{run}/metric-names"): Route(),
    ("GET", "runs/{run}/series"): Route(),
    ("GET", "runs/{run}/series/export"): Route(),
    ("GET", "runs/{run}/groups"): Route(),
    ("GET", "runs/{run}/trajectories"): Route(),
    ("GET", "runs/{run}/trajectories/facets"): Route(),
    ("GET", "runs/{run}/trajectories/export"): Route(),
    ("GET", "runs/{run}/checkpoints"): Route(),
    ("GET", "runs/{run}/resumes"): Route(),
    ("GET", "runs/{run}/engines"): Route(),
    ("GET", "runs/{run}/events"): Route(),
    ("GET", "runs/{run}/event-kinds"): Route(),
    ("GET", "runs/{run}/evals"): Route(),
    ("GET", "runs/{run}/tail"): Route(),
    ("GET", "runs/{run}/tail/caps"): Route(),
    ("GET", "groups"): LIST,
    ("GET", "groups/{group_id}"): Route(),
    ("GET", "trajectories"): LIST,
    ("GET", "trajectories/{trajectory}"): Route(),
    ("GET", "trajectories/{trajectory}/turns"): Route(),
    ("GET", "trajectories/{trajectory}/turns/{turn}/text"): Route(),
    ("GET", "trajectories/{trajectory}/skeleton"): Route(),
    ("GET", "trajectories/{trajectory}/patch"): Route(),
    ("GET", "trajectories/{trajectory}/tests"): Route(),
    ("GET", "trajectories/{trajectory}/tokens"): Route(),
    ("GET", "trajectories/{trajectory}/log"): Route(),
    ("GET", "trajectories/{trajectory}/atif"): Route(),
    ("GET", "trajectories/{trajectory}/siblings"): Route(),
    ("GET", "trajectories/{trajectory}/sandboxes"): Route(),
    ("GET", "engines"): LIST,
    ("GET", "workers"): OPEN,  # machines belong to no project
    ("POST", "workers/{worker}/drain"): Route(least="operator", outsider=None, body=REASON),
    ("POST", "workers/{worker}/undrain"): Route(
        least="operator", outsider=None, body=REASON, arrange=_worker_is("draining")
    ),
    ("GET", "nodes"): OPEN,
    ("GET", "queues"): OPEN,
    ("GET", "sandboxes"): LIST,
    ("GET", "sandboxes/fleet"): OPEN,
    ("GET", "sandboxes/carpet"): OPEN,
    ("GET", "sandboxes/{sandbox}"): Route(),
    ("GET", "failures"): LIST,
    ("GET", "failures/{group}"): Route(),
    ("GET", "failures/{group}/members"): Route(),
    ("POST", "failures/{group}/resolve"): Route(least="operator", body=REASON),
    ("POST", "failures/{group}/reopen"): Route(least="operator", body=REASON),
    ("POST", "failures/{group}/ignore"): Route(
        least="operator", body={**REASON, "until": (timezone.now() + timedelta(days=1)).isoformat()}
    ),
    ("GET", "task-sets"): LIST,
    ("GET", "task-sets/{task_set}"): Route(),
    ("GET", "task-sets/{task_set}/tasks"): Route(),
    ("GET", "task-sets/{task_set}/tasks/{task}"): Route(),
    ("POST", "task-sets/{task_set}/tasks/{task}/quarantine"): Route(least="operator", body=REASON),
    ("POST", "task-sets/{task_set}/tasks/{task}/release"): Route(
        least="operator", body=REASON, arrange=_task_is_quarantined
    ),
    ("GET", "evals"): LIST,
    ("GET", "evals/compare"): Route(query="arms={stage}"),
    ("GET", "openapi.json"): OPEN,
}
# What has a test of its own: login is for anonymous people, a token is its owner's alone.
ELSEWHERE = {("POST", "login"), ("DELETE", "tokens/{token}")}
RANK = {"anonymous": 0, "outsider": 0, "viewer": 1, "operator": 2, "admin": 3}


def _routes(patterns: list[Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for each in patterns:
        path = prefix + re.sub(r"<\w+:(\w+)>", r"{\1}", str(each.pattern))
        if isinstance(each, URLResolver):
            yield from _routes(each.url_patterns, path)
        elif isinstance(each, URLPattern):
            view: Any = each.callback.view_class  # type: ignore[attr-defined]
            for method in ("get", "post", "put", "patch", "delete"):
                if hasattr(view, method):
                    yield method.upper(), path


@pytest.fixture(scope="module")
def scene(
    django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scenario]:
    """Built once; what a test changes is rolled back."""
    with django_db_blocker.unblock():
        built = scenario.build(tmp_path_factory.mktemp("recipe"))
    yield built
    with django_db_blocker.unblock():
        call_command("flush", interactive=False, verbosity=0)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    schema = SchemaGenerator().get_schema(public=True)  # type: ignore[no-untyped-call]
    result: dict[str, Any] = json.loads(json.dumps(schema))
    return result


def _call(scene: Scenario, who: str, key: tuple[str, str]) -> Any:
    method, pattern = key
    route = ROUTES[key]
    if route.arrange is not None:
        route.arrange(scene)
    sent = {
        name: scene.recipe_source if value == "RECIPE" else value
        for name, value in route.body.items()
    }
    url = f"/api/v1/{pattern.format(**scene.rows)}?{route.query.format(**scene.rows)}"
    client = scene.client(who)
    return getattr(client, method.lower())(url, sent if method != "GET" else None, format="json")


def _ids(answer: Any) -> set[int]:
    return {row["id"] for row in answer.json()["results"]}


every_route = pytest.mark.parametrize(
    "key", [pytest.param(key, id=f"{key[0]} {key[1]}") for key in ROUTES]
)


def test_every_route_of_the_url_conf_is_in_the_table() -> None:
    assert set(_routes(urls.api)) == set(ROUTES) | ELSEWHERE


def test_what_is_not_the_api_is_little_and_has_tests_of_its_own() -> None:
    paths = [str(each.pattern) for each in urls.urlpatterns]

    assert paths == ["api/v1/", "healthz", "metrics", "enter/<str:secret>", ""]


@every_route
def test_who_is_not_signed_in_gets_nothing(scene: Scenario, key: tuple[str, str]) -> None:
    answer = _call(scene, "anonymous", key)

    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == "Bearer"
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["code"] == "not_authenticated"


@every_route
def test_an_admin_of_another_project_gets_no_row_of_ours(
    scene: Scenario, key: tuple[str, str]
) -> None:
    answer = _call(scene, "outsider", key)

    expected = ROUTES[key].outsider
    assert answer.status_code == (ROUTES[key].ok if expected is None else expected)
    if expected == 404:
        assert answer.json()["code"] == "not_found"
    if key[1] == "projects":
        assert [row["slug"] for row in answer.json()["results"]] == ["theirs"]
    elif expected == 200:
        assert _ids(answer) == set()


@every_route
@pytest.mark.parametrize("who", ["viewer", "operator", "admin"])
def test_a_member_may_do_what_their_role_allows_and_no_more(
    scene: Scenario, key: tuple[str, str], who: str
) -> None:
    answer = _call(scene, who, key)

    if RANK[who] >= RANK[ROUTES[key].least]:
        assert answer.status_code == ROUTES[key].ok, answer.content
    else:
        assert answer.status_code == 403
        assert answer.json()["code"] == "forbidden"


@every_route
def test_every_answer_is_as_the_openapi_document_says(
    scene: Scenario, key: tuple[str, str], document: dict[str, Any]
) -> None:
    method, pattern = key
    answer = _call(scene, "admin", key)

    if pattern == "openapi.json" or answer.status_code == 204 or answer.streaming:
        return
    operation = document["paths"][f"/api/v1/{pattern}"][method.lower()]
    content = operation["responses"][str(answer.status_code)]["content"]
    schema = {
        **content["application/json"]["schema"],
        "components": _strict(document["components"]),
    }
    jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker()).validate(
        answer.json()
    )


def _strict(components: dict[str, Any]) -> dict[str, Any]:
    """A field that the document does not know is an error too."""
    return {
        "schemas": {
            name: {"additionalProperties": False, **schema} if "properties" in schema else schema
            for name, schema in components["schemas"].items()
        }
    }


@every_route
def test_a_problem_is_as_the_openapi_document_says(
    scene: Scenario, key: tuple[str, str], document: dict[str, Any]
) -> None:
    method, pattern = key
    if pattern == "openapi.json":
        return
    responses = document["paths"][f"/api/v1/{pattern}"][method.lower()]["responses"]
    schema = responses["default"]["content"]["application/problem+json"]["schema"]
    answer = _call(scene, "anonymous", key)

    jsonschema.validate(answer.json(), {**schema, "components": _strict(document["components"])})


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(key, id=key[1])
        for key in ROUTES
        if key[0] == "GET" and key[1] != "openapi.json"
    ],
)
def test_a_filter_that_does_not_exist_is_refused(scene: Scenario, key: tuple[str, str]) -> None:
    url = f"/api/v1/{key[1].format(**scene.rows)}"

    answer = scene.client("admin").get(f"{url}?colour=red")

    assert answer.status_code == 422 or key[1] == "me"
    if answer.status_code == 422:
        assert answer.json()["errors"][0]["pointer"] == "/colour"


def test_a_token_gives_no_more_than_its_project_and_role(scene: Scenario) -> None:
    operator = scene.people["operator"]
    assert operator is not None
    other = factories.ProjectFactory(slug="third")
    factories.MembershipFactory(user=operator, project=other, role="admin")
    run_elsewhere = factories.RunFactory(project=other)
    _, text = issue_token(operator, scene.project, name="t", role=Role.VIEWER, now=NOW)
    client = scene.client("anonymous")
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")

    assert client.get(f"/api/v1/runs/{scene.rows['run']}").status_code == 200
    assert client.get(f"/api/v1/runs/{run_elsewhere.pk}").status_code == 404
    assert client.post(f"/api/v1/runs/{scene.rows['run']}/pause").status_code == 403
    assert [p["slug"] for p in client.get("/api/v1/projects").json()["results"]] == ["ours"]
    assert client.post("/api/v1/tokens", {"name": "t2"}, format="json").status_code == 403


def test_the_committed_document_is_the_one_that_is_served(document: dict[str, Any]) -> None:
    committed = json.loads(Path("docs/openapi.json").read_text())

    assert committed == document, "run `make schema`"

"""The OpenAPI document: typed dicts (what selectors return) and pydantic models become its components.

A view answers rows as they are, without a serializer in between: a typed dict costs nothing at run
time, mypy checks who builds it, and a test validates every route's answer against its schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from drf_spectacular.extensions import OpenApiAuthenticationExtension, OpenApiSerializerExtension
from drf_spectacular.openapi import AutoSchema as SpectacularSchema
from drf_spectacular.plumbing import ResolvedComponent
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from pydantic import ConfigDict, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from rest_framework.serializers import Serializer
from typing_extensions import TypedDict, is_typeddict

from controlplane.pages import MAX_LIMIT

View = TypeVar("View", bound=Callable[..., Any])
Query = type[Serializer[Any]]
STRICT = ConfigDict(extra="forbid")


class FieldProblem(TypedDict):
    """One wrong field: a JSON pointer into the body (or the recipe) and what to do."""

    pointer: str
    message: str


class Problem(TypedDict):
    """RFC 9457. Programs branch on `code`; `title` is a sentence for people."""

    type: str
    status: int
    code: str
    title: str
    errors: list[FieldProblem]


PROBLEM_ANSWER: dict[Any, Any] = {
    ("default", "application/problem+json"): OpenApiResponse(Problem, "A problem.")
}


class _Untitled(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False

    def field_is_required(self, field: Any, total: bool) -> bool:  # noqa: FBT001
        """An answer has every field of a model, also those with defaults."""
        if self.mode == "serialization" and field["type"] == "model-field":
            return True
        return super().field_is_required(field, total)


def component_name(shape: type) -> str:
    """RunRow is called Run in the document."""
    return shape.__name__.removesuffix("Row")


def json_schema(shape: Any, mode: str = "serialization") -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema of a typed dict or pydantic model, and those of the shapes that it names."""
    schema = TypeAdapter(shape).json_schema(
        mode=mode,  # type: ignore[arg-type]
        ref_template="#/components/schemas/{model}",
        schema_generator=_Untitled,
    )
    text = re.sub(r'(#/components/schemas/\w+?)Row"', r'\1"', json.dumps(schema))
    schema = json.loads(text)
    definitions = {
        name.removesuffix("Row"): _tidy(sub) for name, sub in schema.pop("$defs", {}).items()
    }
    return _tidy(schema), definitions


def _tidy(schema: dict[str, Any]) -> dict[str, Any]:
    schema.pop("title", None)
    if "description" in schema:
        schema["description"] = " ".join(schema["description"].split())
    return schema


class TypedDictExtension(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """Typed dicts as bodies in @extend_schema."""

    priority = 1

    @classmethod
    def _matches(cls, target: Any) -> bool:
        return is_typeddict(target)

    def get_name(self, auto_schema: Any, direction: Any) -> str:  # noqa: ARG002
        return component_name(self.target)

    def get_identity(self, auto_schema: Any, direction: Any) -> str:  # noqa: ARG002
        return component_name(self.target)

    def map_serializer(self, auto_schema: Any, direction: Any) -> dict[str, Any]:  # noqa: ARG002
        schema, definitions = json_schema(self.target)
        for name, sub in definitions.items():
            component = ResolvedComponent(  # type: ignore[no-untyped-call]
                name=name, type=ResolvedComponent.SCHEMA, object=name, schema=sub
            )
            auto_schema.registry.register_on_missing(component)
        return schema


class BearerExtension(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "controlplane.accounts.tokens.TokenAuthentication"
    name = "bearer"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:  # noqa: ARG002
        return {"type": "http", "scheme": "bearer", "bearerFormat": "lt_<prefix>_<secret>"}


class AutoSchema(SpectacularSchema):
    """Operation ids from method and path, so that one view may serve two; problems on every operation."""

    def get_operation_id(self) -> str:
        path = re.sub(r"\{(\w+)\}", r"by_\1", self.path.removeprefix("/api/v1/"))
        return "_".join([self.method.lower(), *re.split(r"\W+", path)])

    def get_tags(self) -> list[str]:
        return [self.path.removeprefix("/api/v1/").split("/")[0]]


def describes(
    answer: Any, *, query: Query | None = None, request: Any = None, status: int = 200
) -> Callable[[View], View]:
    """Declare an operation: the shape of its answer, its query, its body."""
    return extend_schema(
        request=request,
        parameters=[query] if query else [],
        responses={
            status: answer,
            **PROBLEM_ANSWER,
        },
    )


def lists(row: Any, *, query: Query | None = None) -> Callable[[View], View]:
    """Declare an operation that answers keyset pages of `row`."""
    name = component_name(row)
    fields = {"results": list[row], "next": str | None, "previous": None}
    page = TypedDict(f"{name}Page", fields)  # type: ignore[misc]
    page.__doc__ = "A keyset page; pass `next` as ?cursor= for the one after it."
    parameters: list[Any] = [
        OpenApiParameter("cursor", str, description="`next` of the page before."),
        OpenApiParameter(
            "limit",
            {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": 50},
        ),
    ]
    return extend_schema(
        parameters=[query, *parameters] if query else parameters,
        responses={200: page, **PROBLEM_ANSWER},
    )

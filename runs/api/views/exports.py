"""What a filter of trajectories holds: facets with counts, totals, and all its rows as a file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any

from asgiref.sync import sync_to_async
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer
from rest_framework.views import APIView

from controlplane.api import filters
from controlplane.schema import PROBLEM_ANSWER, View, describes
from runs.api.filters import TrajectoryExportQuery, TrajectoryFilterQuery
from runs.exports import CONTENT_TYPES, Chunk, Column, ExportFormat, encoded, plain
from runs.selectors.facets import TrajectoryFacetsRow, trajectory_facets
from runs.selectors.trajectories import trajectories

CHUNK = 1_000
COLUMNS: list[Column] = [
    plain("id", "integer"),
    plain("run", "integer"),
    plain("stage", "text"),
    plain("group", "integer"),
    plain("index", "integer"),
    plain("task", "text", "task", "key"),
    plain("repository", "text", "task", "repository"),
    plain("status", "text"),
    plain("outcome", "text"),
    plain("stop_reason", "text"),
    plain("reward", "number"),
    plain("advantage", "number"),
    plain("attempts", "integer", "num_attempts"),
    plain("turns", "integer", "num_turns"),
    plain("prompt_tokens", "integer"),
    plain("output_tokens", "integer"),
    plain("version_min", "integer"),
    plain("version_max", "integer"),
    plain("step", "integer"),
    plain("step_index", "integer"),
    plain("staleness", "integer"),
    plain("driver", "text"),
    plain("engine", "integer"),
    plain("failure_stage", "text", "failure", "stage"),
    plain("failure", "text", "failure", "kind"),
    plain("failure_message", "text", "failure", "message"),
    plain("fingerprint", "text"),
    plain("duration_s", "number"),
    plain("queue_s", "number"),
    *(
        plain(f"{name}_s", "number", "timings", name)
        for name in ("start", "setup", "llm", "exec", "verify", "teardown")
    ),
    plain("created_at", "time"),
    plain("started_at", "time"),
    plain("finished_at", "time"),
]


class TrajectoryFacets(APIView):
    @describes(TrajectoryFacetsRow, query=TrajectoryFilterQuery)
    def get(self, request: Request, run: int) -> Response:
        """Totals of a filter over its whole list, and how many rows each value of a facet would leave."""
        given = filters(request, TrajectoryFilterQuery, run=run)
        return Response(trajectory_facets(request.user, **given))


def exports(query: type[Serializer[Any]]) -> Callable[[View], View]:
    """Declare an operation that answers a file of each format."""
    return extend_schema(
        parameters=[query],
        responses={
            (200, content_type.partition(";")[0]): OpenApiTypes.BINARY
            for content_type in CONTENT_TYPES.values()
        }
        | PROBLEM_ANSWER,
    )


def file_answer(
    stem: str,
    format: ExportFormat,  # noqa: A002 - the word of the API
    columns: Sequence[Column],
    chunks: Iterable[Chunk],
) -> StreamingHttpResponse:
    """A file to keep, sent while it is made."""
    answer = StreamingHttpResponse(
        _streamed(encoded(format, columns, chunks)), content_type=CONTENT_TYPES[format]
    )
    answer["Content-Disposition"] = f'attachment; filename="{stem}.{format}"'
    answer["X-Content-Type-Options"] = "nosniff"
    return answer


class TrajectoryExport(APIView):
    @exports(TrajectoryExportQuery)
    def get(self, request: Request, run: int) -> StreamingHttpResponse:
        """Every trajectory of a filter, streamed: NDJSON (rows of the list), CSV or Parquet (flat). Never cut."""
        given: dict[str, Any] = filters(request, TrajectoryExportQuery, run=run)
        format = given.pop("format")  # noqa: A001 - the word of the API
        rows = trajectories(request.user, **given)
        return file_answer(f"trajectories-{run}", format, COLUMNS, rows.chunks(CHUNK))


async def _streamed(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Each piece is made in a thread once the one before it is sent; a synchronous one would be read whole first."""

    def following() -> bytes | None:
        return next(pieces, None)

    while (piece := await sync_to_async(following)()) is not None:
        yield piece

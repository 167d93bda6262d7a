"""Curves of a run over REST."""

from __future__ import annotations

import math
import re
from typing import Any, get_args

from django.http import StreamingHttpResponse
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from typing_extensions import TypedDict

from controlplane.api import filters
from controlplane.schema import describes
from runs import metrics_catalogue
from runs.api.filters import AnyOf
from runs.api.views.exports import exports, file_answer
from runs.exports import CONTENT_TYPES, Column, plain
from runs.selectors import metrics, series
from runs.series import Smoothing

MAX_BUCKETS = 2_000
MAX_WINDOW = 100
DEFAULT_SMOOTHING = Smoothing("mean", 10)
COLUMNS: list[Column] = [
    plain("name", "text"),
    plain("resume", "integer"),
    plain("step", "integer"),
    plain("at", "time"),
    plain("x", "number"),
    Column("value", "number", lambda row: float(row["value"])),
    Column("is_superseded", "integer", lambda row: int(row["is_superseded"])),
]


class MetricCatalogueRow(TypedDict):
    metrics: list[metrics_catalogue.MetricDefinition]


@extend_schema_field(
    {
        "type": "string",
        "description": "mean:10 (trailing, 1 to 100 points), median:10, ema:0.9 (0 to 0.99, debiased), or none.",
        "default": "mean:10",
    }
)
class SmoothingField(serializers.Field[Smoothing, str, str, Any]):
    def to_internal_value(self, data: str) -> Smoothing:
        if data == "none":
            return Smoothing("none")
        if match := re.fullmatch(r"(mean|median):(\d{1,3})", data):
            width = int(match[2])
            if 1 <= width <= MAX_WINDOW:
                return Smoothing("mean" if match[1] == "mean" else "median", width)
        elif (match := re.fullmatch(r"ema:(0(?:\.\d{1,4})?)", data)) and float(match[1]) <= 0.99:
            return Smoothing("ema", float(match[1]))
        raise serializers.ValidationError(
            "Give mean:1 to mean:100, median:1 to median:100, ema:0 to ema:0.99, or none."
        )


class PlaceField(serializers.FloatField):
    def to_internal_value(self, data: Any) -> float:
        value = super().to_internal_value(data)
        if not math.isfinite(value):
            raise serializers.ValidationError("Give a finite number.")
        return value


class MetricQuery(serializers.Serializer[Any]):
    name = AnyOf(required=False)


class SpanQuery(MetricQuery):
    x = serializers.ChoiceField(
        choices=get_args(series.XAxis.__value__),
        default="step",
        help_text="The axis: seconds since 1970 for wall, seconds since the start for elapsed.",
    )
    to = PlaceField(required=False, help_text="The highest place on the axis that is wanted.")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """`from` is a word of Python: a field of that name cannot be declared above."""
        lowest = PlaceField(required=False, help_text="The lowest place on the axis.")
        return super().get_fields() | {"from": lowest}


class SeriesQuery(SpanQuery):
    buckets = serializers.IntegerField(
        default=400,
        min_value=1,
        max_value=MAX_BUCKETS,
        help_text="A curve of no more points comes as it is.",
    )
    smooth = SmoothingField(required=False)


class SeriesExportQuery(SpanQuery):
    format = serializers.ChoiceField(choices=list(CONTENT_TYPES), default="csv")


class MetricList(APIView):
    @describes(metrics.MetricsRow, query=MetricQuery)
    def get(self, request: Request, run: int) -> Response:
        """Stored points by name (`?name=a,b`), or all of them."""
        return Response(metrics.metrics(request.user, **filters(request, MetricQuery, run=run)))


class MetricNames(APIView):
    @describes(metrics.MetricNamesRow)
    def get(self, request: Request, run: int) -> Response:
        """Every curve of the run: what it means, how many points it has, its last value."""
        return Response(metrics.metric_names(request.user, **filters(request, run=run)))


class SeriesSet(APIView):
    @describes(series.SeriesSetRow, query=SeriesQuery)
    def get(self, request: Request, run: int) -> Response:
        """Curves as a chart draws them: what counts, on an axis, smoothed, in buckets that keep every spike."""
        given = _span(filters(request, SeriesQuery, run=run))
        smoothing = given.pop("smooth", DEFAULT_SMOOTHING)
        return Response(series.series(request.user, **given, smoothing=smoothing))


class SeriesExport(APIView):
    @exports(SeriesExportQuery)
    def get(self, request: Request, run: int) -> StreamingHttpResponse:
        """Every point that the curves of a range are drawn from, superseded ones too: CSV, NDJSON or Parquet."""
        given = _span(filters(request, SeriesExportQuery, run=run))
        format = given.pop("format")  # noqa: A001 - the word of the API
        points = series.series_points(request.user, **given)
        return file_answer(f"series-{run}", format, COLUMNS, points)


def _span(given: dict[str, Any]) -> dict[str, Any]:
    """`from` and `to` of the query are low and high of the selector."""
    names = {"from": "low", "to": "high"}
    return {names.get(key, key): value for key, value in given.items()}


class MetricCatalogue(APIView):
    @describes(MetricCatalogueRow)
    def get(self, request: Request) -> Response:
        """Every curve that there may be: its label, unit, definition and population."""
        filters(request)
        return Response({"metrics": metrics_catalogue.CATALOGUE})

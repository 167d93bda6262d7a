"""/metrics: gauges of the whole installation, read from PostgreSQL at every scrape."""

from __future__ import annotations

from collections.abc import Iterator

from django.http import HttpRequest, HttpResponse, HttpResponseForbidden
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder

from controlplane.telemetry import may_scrape
from runs.selectors import installation


class _Collector:
    """One family per table of counts; labels are small closed sets, never ids."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name, help_text, labels, counts in installation.gauges():
            family = GaugeMetricFamily(f"longtail_{name}", help_text, labels=labels)
            for values, count in counts.items():
                family.add_metric(values, count)
            yield family


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    if not may_scrape(request):
        return HttpResponseForbidden("Scrape from this machine, or with LONGTAIL_METRICS_TOKEN.\n")
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector())
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return HttpResponse(encode(registry), content_type=content_type)

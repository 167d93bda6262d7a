"""Every path: the API, probes, the login link; all the rest is the dashboard."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path, re_path
from drf_spectacular.views import SpectacularJSONAPIView
from rest_framework.permissions import IsAuthenticated

from controlplane import frontend
from controlplane.accounts.views import enter
from controlplane.telemetry import healthz
from runs.api.prometheus import metrics

handler404 = "controlplane.frontend.not_found"
handler500 = "controlplane.api.server_error"

api: list[URLPattern | URLResolver] = [
    path("", include("controlplane.accounts.api.urls")),
    path("", include("runs.api.urls")),
    path("openapi.json", SpectacularJSONAPIView.as_view(permission_classes=[IsAuthenticated])),
]
urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/", include(api)),
    path("healthz", healthz),
    path("metrics", metrics),
    path("enter/<str:secret>", enter),
    re_path(r"", frontend.index),
]

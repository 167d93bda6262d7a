"""Limits. (Sandboxes and failures are served with their trajectories by runs/api.)"""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.api import filters, page
from controlplane.schema import lists
from sandboxes import selectors
from sandboxes.api.filters import LimitQuery


class LimitList(APIView):
    @lists(selectors.LimitRow, query=LimitQuery)
    def get(self, request: Request) -> Response:
        """Caps of every layer, configured and measured."""
        return page(request, selectors.limits(request.user, **filters(request, LimitQuery)))

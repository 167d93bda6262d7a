"""The page behind a one-time login link.

A GET shows a button and changes nothing, so that what prefetches links cannot spend one; the POST spends it.
"""

from __future__ import annotations

from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.http import require_http_methods

from controlplane.accounts.services.login_links import use_login_link
from controlplane.errors import DomainError
from controlplane.frontend import secure


@require_http_methods(["GET", "HEAD", "POST"])
@csrf_protect
def enter(request: HttpRequest, secret: str) -> HttpResponse:
    if request.method != "POST":
        return secure(request, "enter.html", {})
    try:
        user = use_login_link(secret, now=timezone.now())
    except DomainError as error:
        return secure(request, "enter.html", {"problem": error.message}, status=410)
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    return HttpResponseRedirect("/runs")

"""Pages for browsers: index.html of the built dashboard, with a nonce and a strict Content-Security-Policy.

The dashboard's styles come from script (Mantine), so index.html is a view and not a file: every answer
carries a fresh nonce in the policy, in its tags and in <meta name="csp-nonce">. Vite's manifest names the
hashed entry files, which whitenoise serves for ever.
"""

from __future__ import annotations

import json
import secrets
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseNotFound
from django.shortcuts import render
from django.templatetags.static import static
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe
from whitenoise.middleware import WhiteNoiseMiddleware

from controlplane.api import PROBLEM, problem_body

ENTRY = "index.html"


@lru_cache(maxsize=4)
def _entry(manifest: Path, changed_at_ns: int) -> dict[str, Any]:
    """The files that index.html needs at once; read again when the front end was built again."""
    del changed_at_ns
    chunks = json.loads(manifest.read_bytes())
    entry = chunks[ENTRY]
    imports = [chunks[name]["file"] for name in entry.get("imports", [])]
    return {"script": entry["file"], "styles": entry.get("css", []), "preloads": imports}


def _static(name: str) -> str:
    return static(f"app/{name}")


class StaticFiles(WhiteNoiseMiddleware):  # type: ignore[misc]
    """WhiteNoise for an asynchronous server: these files are small, so each is one answer, not a stream."""

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponse:
        found = static_file.get_response(request.method, request.META)
        content = b""
        if found.file is not None:
            with found.file:
                content = found.file.read()
        response = HttpResponse(content, status=int(found.status))
        del response["Content-Type"]
        for name, value in found.headers:
            response[name] = value
        return response


@require_safe
@ensure_csrf_cookie
def index(request: HttpRequest) -> HttpResponse:
    """Every page of the dashboard is this one; the router in the browser reads the path."""
    if request.path.startswith(("/api/", "/ws/", settings.STATIC_URL)):
        return not_found(request)
    manifest = settings.FRONTEND_DIST / ".vite" / "manifest.json"
    try:
        files = _entry(manifest, manifest.stat().st_mtime_ns)
    except (OSError, ValueError, KeyError):
        return secure(request, "not_built.html", {}, status=503)
    context = {
        "script": _static(files["script"]),
        "styles": [_static(name) for name in files["styles"]],
        "preloads": [_static(name) for name in files["preloads"]],
    }
    return secure(request, "index.html", context)


def secure(
    request: HttpRequest, template: str, context: dict[str, Any], status: int = 200
) -> HttpResponse:
    """A page that runs nothing but what carries this answer's nonce."""
    nonce = secrets.token_urlsafe(16)
    response = render(request, template, {**context, "nonce": nonce}, status=status)
    response["Content-Security-Policy"] = "; ".join(
        (
            "default-src 'self'",
            f"script-src 'self' 'nonce-{nonce}'",
            f"style-src 'self' 'nonce-{nonce}'",
            "img-src 'self' data:",
            "connect-src 'self'",
            "object-src 'none'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        )
    )
    response["Cache-Control"] = "no-store"
    return response


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Django's handler404, and paths below /api/ that nobody serves: the one error shape."""
    del request, exception
    body = json.dumps(problem_body("not_found", "There is no such thing.", 404))
    return HttpResponseNotFound(body, content_type=PROBLEM)

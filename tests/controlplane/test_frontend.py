"""What a browser gets that asks for a page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

pytestmark = pytest.mark.django_db


@pytest.fixture
def dist(tmp_path: Path, settings: Settings) -> Path:
    """A front end as Vite builds it."""
    (tmp_path / ".vite").mkdir()
    manifest = {
        "index.html": {
            "file": "assets/index-AbCd1234.js",
            "css": ["assets/index-AbCd1234.css"],
            "imports": ["_vendor-XyZw9876.js"],
            "isEntry": True,
        },
        "_vendor-XyZw9876.js": {"file": "assets/vendor-XyZw9876.js"},
    }
    (tmp_path / ".vite" / "manifest.json").write_text(json.dumps(manifest))
    settings.FRONTEND_DIST = tmp_path
    return tmp_path


@pytest.mark.usefixtures("dist")
@pytest.mark.parametrize(
    "path", ["/", "/runs", "/runs/7/charts?x=step", "/login", "/trajectories/1"]
)
def test_every_page_is_the_dashboard(path: str) -> None:
    answer = Client().get(path)

    assert answer.status_code == 200
    html = answer.content.decode()
    assert '<script type="module" src="/static/app/assets/index-AbCd1234.js"' in html
    assert 'href="/static/app/assets/index-AbCd1234.css"' in html
    assert 'href="/static/app/assets/vendor-XyZw9876.js"' in html
    assert "csrftoken" in answer.cookies


@pytest.mark.usefixtures("dist")
def test_a_page_runs_only_what_carries_the_nonce_of_this_answer() -> None:
    nonces = set()
    for _ in range(2):
        answer = Client().get("/runs")
        policy = answer["Content-Security-Policy"]
        found = re.search(r"script-src 'self' 'nonce-([\w-]{16,})'", policy)
        assert found is not None
        nonce = found.group(1)
        nonces.add(nonce)
        html = answer.content.decode()
        assert "unsafe" not in policy
        assert f'<meta name="csp-nonce" content="{nonce}">' in html
        assert re.findall(r"<(?:script|link|style)\b(?![^>]*nonce=)", html) == []
    assert len(nonces) == 2


def test_a_missing_front_end_says_how_to_build_it(tmp_path: Path, settings: Settings) -> None:
    settings.FRONTEND_DIST = tmp_path / "none"

    answer = Client().get("/runs")

    assert answer.status_code == 503
    assert "make setup" in answer.content.decode()


@pytest.mark.usefixtures("dist")
def test_a_new_build_is_served_without_a_restart(dist: Path) -> None:
    Client().get("/runs")
    manifest = dist / ".vite" / "manifest.json"
    manifest.write_text(manifest.read_text().replace("AbCd1234", "Zz00Yy11"))

    assert "index-Zz00Yy11.js" in Client().get("/runs").content.decode()


@pytest.mark.usefixtures("dist")
@pytest.mark.parametrize("path", ["/api/v1/nothing", "/api/", "/static/app/gone-00000000.js"])
def test_what_is_no_page_is_not_the_dashboard(path: str) -> None:
    answer = Client().get(path)

    assert answer.status_code == 404
    assert answer.json()["code"] == "not_found"


def test_pages_are_only_read() -> None:
    assert Client().post("/runs").status_code == 405

"""What a browser gets that asks for a page."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from django.contrib.staticfiles.finders import get_finder
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
        assert re.findall(r"<(?:script|link(?! rel=.icon.)|style)\b(?![^>]*nonce=)", html) == []
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


SCRIPT = b"console.log('hello');" * 100


@pytest.fixture
def static_client(dist: Path, settings: Settings) -> Client:
    (dist / "assets").mkdir()
    (dist / "assets" / "index-AbCd1234.js").write_bytes(SCRIPT)
    (dist / "assets" / "index-AbCd1234.js.gz").write_bytes(gzip.compress(SCRIPT))
    (dist / "logo.svg").write_text("<svg/>")
    settings.STATICFILES_DIRS = [("app", dist)]
    get_finder.cache_clear()  # type: ignore[attr-defined]
    return Client()


def test_hashed_files_are_kept_for_ever_and_others_are_not(static_client: Client) -> None:
    hashed = static_client.get("/static/app/assets/index-AbCd1234.js")
    plain = static_client.get("/static/app/logo.svg")

    assert hashed.content == SCRIPT
    assert hashed["Content-Type"].startswith("text/javascript")
    assert "immutable" in hashed["Cache-Control"]
    assert "immutable" not in plain["Cache-Control"]
    assert "Access-Control-Allow-Origin" not in hashed


def test_a_compressed_copy_and_a_known_one_are_not_sent_in_full(static_client: Client) -> None:
    path = "/static/app/assets/index-AbCd1234.js"

    packed = static_client.get(path, headers={"Accept-Encoding": "gzip"})
    again = static_client.get(path, headers={"If-None-Match": packed["ETag"]})
    part = static_client.get(path, headers={"Range": "bytes=0-6"})

    assert packed["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.content) == SCRIPT
    assert (again.status_code, again.content) == (304, b"")
    assert (part.status_code, part.content) == (206, b"console")


def test_pages_are_only_read() -> None:
    assert Client().post("/runs").status_code == 405

from __future__ import annotations

import pytest
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families
from pytest_django.fixtures import Settings

from controlplane import live
from tests import factories

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("services")]


def test_health_names_its_parts() -> None:
    answer = Client().get("/healthz")

    assert answer.status_code == 200
    assert answer.json() == {"status": "ok", "postgresql": "ok", "valkey": "ok"}


def test_without_valkey_the_product_is_healthy_and_says_what_is_missing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_connection", None)
    settings.REDIS_URL = "redis://127.0.0.1:1/0"

    answer = Client().get("/healthz")

    assert answer.status_code == 200
    assert answer.json() == {"status": "ok", "postgresql": "ok", "valkey": "down"}


def scraped(client: Client, **headers: str) -> dict[tuple[str, str], float]:
    answer = client.get("/metrics", headers=headers)
    assert answer.status_code == 200
    return {
        (sample.name, "/".join(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(answer.content.decode())
        for sample in family.samples
    }


def test_metrics_count_runs_attempts_and_workers() -> None:
    factories.AttemptFactory(running=True)
    factories.RunFactory(succeeded=True)
    factories.WorkerFactory(status="lost")
    factories.FailureGroupFactory(num_failures=3)
    factories.FailureGroupFactory(num_failures=4)

    found = scraped(Client())

    assert found["longtail_runs", "running"] == 1
    assert found["longtail_runs", "succeeded"] == 1
    assert found["longtail_runs", "failed"] == 0
    assert found["longtail_attempts", "running"] == 1
    assert found["longtail_workers", "rollout"] == 1
    assert found["longtail_failures", "lost/exec"] == 7


def test_metrics_are_for_this_machine_or_the_holder_of_the_token(
    settings: Settings,
) -> None:
    far = Client(REMOTE_ADDR="203.0.113.7")
    assert far.get("/metrics").status_code == 403
    assert far.get("/metrics", headers={"Authorization": "Bearer "}).status_code == 403
    settings.METRICS_TOKEN = "s3cret"

    assert far.get("/metrics", headers={"Authorization": "Bearer guess"}).status_code == 403
    assert scraped(far, Authorization="Bearer s3cret")


def test_what_a_proxy_on_this_machine_passes_on_is_not_this_machine() -> None:
    answer = Client().get("/metrics", headers={"X-Forwarded-For": "203.0.113.7"})

    assert answer.status_code == 403

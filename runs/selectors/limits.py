"""Limits with who waits for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.db.models import Count

from controlplane.accounts.access import Actor, visible_projects
from controlplane.pages import Rows
from runs.models import Attempt, Engine
from sandboxes import selectors


class LimitRow(selectors.LimitRow):
    """A cap of some layer with its configured and its measured value.

    num_waiting: what waits behind this layer now; NULL where nobody knows.
    """

    num_waiting: int | None
    waiting: str


def limits(actor: Actor, *, layer: str | None = None) -> Rows[LimitRow]:
    found = selectors.limits(actor, layer=layer)

    def shape(rows: list[dict[str, Any]]) -> list[LimitRow]:
        waits = _waiting(actor)
        shaped = []
        for row in found.shape(rows):
            what, by_scope = waits.get(row["layer"], ("", None))
            num = None if by_scope is None else by_scope.get(row["scope"], 0)
            shaped.append(LimitRow(**row, num_waiting=num, waiting=what))
        return shaped

    return replace(found, shape=shape)  # type: ignore[arg-type,return-value]


def _waiting(actor: Actor) -> dict[str, tuple[str, dict[str, int]]]:
    """By layer: what waits, and how many by scope ("run 7"; "" is all of them)."""
    projects = visible_projects(actor)
    queued = Attempt.objects.filter(run__project__in=projects, status=Attempt.Status.QUEUED)
    attempts = _scoped(queued.order_by().values_list("run").annotate(Count("id")))
    loads = Engine.objects.filter(run__project__in=projects, status__in=Engine.LIVE)
    requests: dict[int, int] = {}
    for run, load in loads.values_list("run", "load"):
        requests[run] = requests.get(run, 0) + int(load.get("queued", 0))
    return {
        "workers": ("attempts queued", attempts),
        "rollout": ("attempts queued", attempts),
        "sandbox": ("attempts queued", attempts),
        "engine": ("requests queued", _scoped(requests.items())),
    }


def _scoped(by_run: Any) -> dict[str, int]:
    found = {f"run {run}": num for run, num in by_run}
    return {**found, "": sum(found.values())}

"""Sandboxes and failures with the trajectory that each belongs to (the sandboxes app knows attempts by number)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from controlplane.accounts.access import Actor
from controlplane.pages import Rows
from runs.models import Attempt
from sandboxes import selectors


class SandboxRow(selectors.SandboxRow):
    """One box of a provider. timings: seconds by admit, image, start, setup, exec, verify, teardown."""

    trajectory_id: int | None


class FailureRow(selectors.FailureRow):
    """One thing that the infrastructure did, and the trajectory it happened to."""

    trajectory_id: int | None


def sandboxes(actor: Actor, **filters: Any) -> Rows[SandboxRow]:
    return _with_trajectories(selectors.sandboxes(actor, **filters))


def failures(actor: Actor, **filters: Any) -> Rows[FailureRow]:
    return _with_trajectories(selectors.failures(actor, **filters))


def _with_trajectories(found: Rows[Any]) -> Rows[Any]:
    def shape(rows: list[dict[str, Any]]) -> list[Any]:
        ids = [row["attempt_id"] for row in rows if row["attempt_id"] is not None]
        trajectory_of = dict(Attempt.objects.filter(pk__in=ids).values_list("id", "trajectory_id"))
        return [
            {**row, "trajectory_id": trajectory_of.get(row["attempt_id"])}
            for row in found.shape(rows)
        ]

    return replace(found, shape=shape)

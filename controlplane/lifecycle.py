"""A status is a table of legal moves and one function that moves it."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models

from controlplane.errors import InvalidTransition


class LifecycleModel(models.Model):
    """A row with a `status` that changes only by `move()`, along `TRANSITIONS`."""

    TRANSITIONS: ClassVar[dict[str, frozenset[str]]] = {}
    status: Any

    class Meta:
        abstract = True

    @classmethod
    def terminal_statuses(cls) -> frozenset[str]:
        return frozenset(status for status, targets in cls.TRANSITIONS.items() if not targets)

    @property
    def is_terminal(self) -> bool:
        return not self.TRANSITIONS[self.status]

    def move(self, status: str, **changes: object) -> None:
        """Compare-and-set from the status that this object was read with; also sets `changes`.

        Raises InvalidTransition when the move is illegal or another writer was first; the object
        is left as it was.
        """
        if status not in self.TRANSITIONS[self.status]:
            raise InvalidTransition(f"{self} is {self.status} and cannot become {status}.")
        rows: models.QuerySet[Any] = type(self)._base_manager.filter(pk=self.pk)
        moved = rows.filter(status=self.status).update(**{"status": status, **changes})
        if not moved:
            raise InvalidTransition(f"{self} is no longer {self.status}: somebody moved it first.")
        self.status = status
        for name, value in changes.items():
            setattr(self, name, value)

"""Keyset pages: a selector gives Rows, a view asks for a page of them. No HTTP here, and never a count.

The key is unique, indexed and an integer, so a page costs the same wherever it lies and no row is
shown twice or skipped while others are added.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db.models import QuerySet

from controlplane.errors import Invalid

Row = TypeVar("Row")
DEFAULT_LIMIT = 50
MAX_LIMIT = 500


@dataclass(frozen=True)
class Rows(Generic[Row]):
    """What a selector found, not yet read: a query of `.values()` and what makes API rows of a page of it.

    `shape` gets the whole page, so that it can fetch what belongs to it with one query more.
    `key` is the field that pages go by, with "-" when the newest come first.
    """

    query: QuerySet[Any, dict[str, Any]]
    shape: Callable[[list[dict[str, Any]]], list[Row]]
    key: str = "-id"

    def page(self, limit: int, cursor: str | None) -> tuple[list[Row], str | None]:
        """Up to `limit` rows after `cursor`, and the cursor of the next page. Raises Invalid."""
        name, is_descending = self.key.lstrip("-"), self.key.startswith("-")
        query = self.query.order_by(self.key)
        if cursor:
            comparison = "lt" if is_descending else "gt"
            query = query.filter(**{f"{name}__{comparison}": _decode(cursor)})
        rows = list(query[: limit + 1])
        following = _encode(rows[limit - 1][name]) if len(rows) > limit else None
        return self.shape(rows[:limit]), following

    def all(self) -> list[Row]:
        """Every row; only for lists that are short by nature."""
        return self.shape(list(self.query.order_by(self.key)))


def _encode(key: int) -> str:
    return base64.urlsafe_b64encode(str(key).encode()).decode().rstrip("=")


def _decode(cursor: str) -> int:
    try:
        key = int(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error) as error:
        raise Invalid("This is not a cursor of ours.", code="bad_cursor") from error
    if abs(key) >= 2**63:
        raise Invalid("This is not a cursor of ours.", code="bad_cursor")
    return key

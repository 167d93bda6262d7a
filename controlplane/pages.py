"""Keyset pages: a selector gives Rows, a view asks for a page of them. No HTTP here, and never a count.

A page goes on after the last row of the one before it, so no row is shown twice or skipped while
others are added. By the key alone (unique, indexed) it costs the same wherever it lies; by another
column the key breaks ties, and rows without a value come last, whichever way the list runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Generic, TypeVar

from django.core.signing import BadSignature, Signer
from django.db.models import F, OrderBy, Q, QuerySet

from controlplane.errors import Invalid

Row = TypeVar("Row")
DEFAULT_LIMIT = 50
MAX_LIMIT = 500


@dataclass(frozen=True)
class Rows(Generic[Row]):
    """What a selector found, not yet read: a query of `.values()` and what makes API rows of a page of it.

    `shape` gets the whole page, so that it can fetch what belongs to it with one query more.
    `key` is the unique field that pages go by, `sort` any other column of the query: "-" is descending.
    """

    query: QuerySet[Any, dict[str, Any]]
    shape: Callable[[list[dict[str, Any]]], list[Row]]
    key: str = "-id"
    sort: str | None = None

    def page(self, limit: int, cursor: str | None) -> tuple[list[Row], str | None]:
        """Up to `limit` rows after `cursor`, and the cursor of the next page. Raises Invalid."""
        query = self._ordered()
        if cursor:
            query = query.filter(self._after(*self._decode(cursor)))
        rows = list(query[: limit + 1])
        following = self._encode(rows[limit - 1]) if len(rows) > limit else None
        return self.shape(rows[:limit]), following

    def all(self) -> list[Row]:
        """Every row; only for lists that are short by nature."""
        return self.shape(list(self._ordered()))

    def chunks(self, size: int) -> Iterator[list[Row]]:
        """Every row in chunks, however many there are: for exports, in constant memory."""
        cursor: str | None = None
        while True:
            rows, cursor = self.page(size, cursor)
            yield rows
            if cursor is None:
                return

    def _ordered(self) -> QuerySet[Any, dict[str, Any]]:
        if self.sort is None:
            return self.query.order_by(self.key)
        name = self.sort.removeprefix("-")
        order = OrderBy(F(name), descending=self.sort.startswith("-"), nulls_last=True)
        return self.query.order_by(order, self.key)

    def _after(self, value: Any, key: Any) -> Q:
        follows = _beyond(self.key, key)
        if self.sort is None:
            return follows
        name = self.sort.removeprefix("-")
        has_none = Q(**{f"{name}__isnull": True})
        if value is None:
            return has_none & follows
        return _beyond(self.sort, value) | Q(**{name: value}) & follows | has_none

    def _encode(self, row: dict[str, Any]) -> str:
        value = row[self.sort.removeprefix("-")] if self.sort else None
        return _SIGNER.sign_object([self.sort, _plain(value), row[self.key.removeprefix("-")]])

    def _decode(self, cursor: str) -> tuple[Any, Any]:
        try:
            sort, value, key = _SIGNER.unsign_object(cursor)
        except BadSignature as error:
            raise Invalid("This is not a cursor of ours.", code="bad_cursor") from error
        if sort != self.sort:
            raise Invalid("This cursor is of a list in another order.", code="bad_cursor")
        return value, key


_SIGNER = Signer(salt="cursor")


def _beyond(order: str, value: Any) -> Q:
    comparison = "lt" if order.startswith("-") else "gt"
    return Q(**{f"{order.removeprefix('-')}__{comparison}": value})


def _plain(value: Any) -> Any:
    """As JSON has it, without losing a digit."""
    if isinstance(value, datetime):
        return value.isoformat()
    return float(value) if isinstance(value, Decimal) else value

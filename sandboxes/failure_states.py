"""What a failure group is now: new, ongoing, regressed, resolved or ignored. Pure; the thresholds are here.

`state_of` says it of one row and `in_state` finds the rows that it would say it of; a test compares the two.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal, get_args

from django.db.models import F, Q

State = Literal["new", "ongoing", "regressed", "resolved", "ignored"]
STATES: tuple[State, ...] = get_args(State)

NEW_FOR = timedelta(hours=24)
"""A fingerprint is new for this long after its first failure."""


def state_of(
    *,
    first_at: datetime,
    last_at: datetime,
    resolved_at: datetime | None,
    regressed_at: datetime | None,
    ignored_until: datetime | None,
    now: datetime,
) -> State:
    """Ignored wins while it lasts; then what came back after it was resolved; then age."""
    if ignored_until is not None and ignored_until > now:
        return "ignored"
    if resolved_at is not None:
        is_back = regressed_at is not None or last_at > resolved_at
        return "regressed" if is_back else "resolved"
    return "new" if now - first_at < NEW_FOR else "ongoing"


def in_state(state: State, now: datetime) -> Q:
    """The rows of which `state_of` says `state` at `now`."""
    ignored = Q(ignored_until__isnull=False, ignored_until__gt=now)
    resolved = Q(resolved_at__isnull=False)
    is_back = Q(regressed_at__isnull=False) | Q(last_at__gt=F("resolved_at"))
    is_new = Q(first_at__gt=now - NEW_FOR)
    return {
        "ignored": ignored,
        "regressed": ~ignored & resolved & is_back,
        "resolved": ~ignored & resolved & ~is_back,
        "new": ~ignored & ~resolved & is_new,
        "ongoing": ~ignored & ~resolved & ~is_new,
    }[state]

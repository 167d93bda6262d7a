"""What a service may refuse, and why: a code that programs branch on, a sentence that people read. No HTTP here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FieldError:
    """One wrong field: a JSON pointer (or a recipe path) and what to do."""

    pointer: str
    message: str


class DomainError(Exception):
    """A refusal. `code` is stable; `message` says what is wrong and what to do."""

    code = "error"

    def __init__(
        self, message: str, *, code: str | None = None, errors: list[FieldError] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.code
        self.errors = errors or []


class Invalid(DomainError):
    """The input cannot be accepted as it is."""

    code = "invalid"


class NotFound(DomainError):
    """There is no such thing, or the actor may not know of it."""

    code = "not_found"


class Forbidden(DomainError):
    """The actor may see it but not do this."""

    code = "forbidden"


class Conflict(DomainError):
    """It was possible a moment ago, or will be later, but not in the present state."""

    code = "conflict"


class InvalidTransition(Conflict):
    """A status moved under the caller's hands, or the move is not in TRANSITIONS."""

    code = "invalid_transition"


class LeaseLost(Conflict):
    """The reporter no longer owns what it reports on: nothing was changed."""

    code = "lease_lost"

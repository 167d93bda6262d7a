"""What stops `up`: a sentence that says what is wrong and what to do."""

from __future__ import annotations


class CannotStart(Exception):
    """Something on this machine has to change before the stack can start; the message says what."""

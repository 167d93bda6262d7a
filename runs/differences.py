"""What differs between two recipes, field by field. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def flatten(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves by path: `stages/1/num_steps`; an empty list or mapping is a leaf."""
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from flatten(each, f"{path}/{key}" if path else str(key))
    elif isinstance(value, list) and value:
        for index, each in enumerate(value):
            yield from flatten(each, f"{path}/{index}" if path else str(index))
    else:
        yield path, value


def differences(before: Any, after: Any) -> list[tuple[str, Any, Any]]:
    """(path, before, after) of every leaf that differs, in the order of `after`; None where it is absent."""
    old, new = dict(flatten(before)), dict(flatten(after))
    paths = [*new, *(path for path in old if path not in new)]
    return [
        (path, old.get(path), new.get(path)) for path in paths if old.get(path) != new.get(path)
    ]

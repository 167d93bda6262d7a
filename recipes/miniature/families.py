"""Families: the modules that repositories are forked from, one text file each, a folder per split.

A file holds the module's source, a line `# tests`, and one call expression per line. Expected
values are computed from the source.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SPLITS = ("train", "validation", "held_out")
_ROOT = Path(__file__).parent / "families"


@dataclass(frozen=True)
class Family:
    name: str
    split: str
    source: str
    calls: tuple[str, ...]


@cache
def load_families(split: str) -> tuple[Family, ...]:
    """All families of a split, by name."""
    return tuple(_read(path, split) for path in sorted((_ROOT / split).glob("*.txt")))


def _read(path: Path, split: str) -> Family:
    source, _, calls = path.read_text().partition("\n# tests\n")
    return Family(path.stem, split, source, tuple(line for line in calls.splitlines() if line))


def function_shapes(source: str) -> set[str]:
    """Each function of a module as text without its names: equal shapes are equal functions."""
    return {_shape(node) for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}


def _shape(function: ast.FunctionDef) -> str:
    numbers: dict[str, str] = {}

    def anonymous(name: str) -> str:
        return numbers.setdefault(name, f"n{len(numbers)}")

    tree = ast.parse(ast.unparse(function))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.name = anonymous(node.name)
        elif isinstance(node, ast.arg):
            node.arg = anonymous(node.arg)
        elif isinstance(node, ast.Name):
            node.id = anonymous(node.id)
    return ast.dump(tree)


def shared_functions(split: str, other: str) -> set[str]:
    """Functions that two splits have in common (none, or the splits are contaminated)."""
    one, two = (
        {shape for family in load_families(name) for shape in function_shapes(family.source)}
        for name in (split, other)
    )
    return one & two

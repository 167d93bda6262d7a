"""One-token edits of a function: the bugs to inject and the candidates that may repair them."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from itertools import pairwise

ALTERNATIVES: dict[str, tuple[str, ...]] = {
    "<": ("<=", ">"),
    "<=": ("<", ">="),
    ">": (">=", "<"),
    ">=": (">", "<="),
    "==": ("!=",),
    "!=": ("==",),
    "+": ("-", "*"),
    "-": ("+",),
    "*": ("+", "//"),
    "//": ("*", "%"),
    "%": ("//",),
    "and": ("or",),
    "or": ("and",),
    "True": ("False",),
    "False": ("True",),
    "min": ("max",),
    "max": ("min",),
    "0": ("1",),
    "1": ("0", "2"),
    "2": ("1", "3"),
    "3": ("2",),
}
"""What a token may become. Symmetric, so every bug has its repair among the candidates."""


@dataclass(frozen=True, order=True)
class Edit:
    """Replace `old` at a place of a module by `new`. Lines count from 1, columns from 0."""

    line: int
    column: int
    old: str
    new: str

    def apply(self, source: str) -> str:
        lines = source.split("\n")
        text = lines[self.line - 1]
        lines[self.line - 1] = text[: self.column] + self.new + text[self.column + len(self.old) :]
        return "\n".join(lines)

    @property
    def inverse(self) -> Edit:
        return Edit(self.line, self.column, self.new, self.old)


def find_function(source: str, name: str) -> ast.FunctionDef:
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    raise KeyError(name)


def list_edits(source: str, function: str) -> list[Edit]:  # noqa: C901  one case per node type
    """All one-token edits in the body of a function, in source order."""
    lines = source.split("\n")
    edits: set[Edit] = set()

    def add(line: int, column: int, old: str) -> None:
        edits.update(Edit(line, column, old, new) for new in ALTERNATIVES.get(old, ()))

    def add_operator_between(left: ast.expr, right: ast.expr) -> None:
        if left.end_lineno != right.lineno or left.end_col_offset is None:
            return
        between = lines[right.lineno - 1][left.end_col_offset : right.col_offset]
        if found := re.fullmatch(r"\)* *([^\s()]+) *\(*", between):
            add(right.lineno, left.end_col_offset + found.start(1), found[1])

    for statement in find_function(source, function).body:
        for node in ast.walk(statement):
            match node:
                case ast.Compare(left=left, comparators=rights):
                    for a, b in pairwise([left, *rights]):
                        add_operator_between(a, b)
                case ast.BinOp(left=left, right=right):
                    add_operator_between(left, right)
                case ast.BoolOp(values=values):
                    for a, b in pairwise(values):
                        add_operator_between(a, b)
                case ast.Constant(value=int()) | ast.Name():
                    add(
                        node.lineno,
                        node.col_offset,
                        lines[node.lineno - 1][node.col_offset : node.end_col_offset],
                    )
                case _:
                    pass
    return sorted(edits, key=lambda e: (e.line, e.column, ALTERNATIVES[e.old].index(e.new)))

"""Repositories: forks of a family with other names and order of functions, and hidden tests."""

from __future__ import annotations

import ast
import random
import re
from dataclasses import dataclass
from functools import cache

from recipes.miniature.execution import evaluate
from recipes.miniature.families import SPLITS, Family, load_families

_NUM_VARIANTS = 3
_MAX_VALUE_CHARS = 200


@dataclass(frozen=True)
class Repository:
    """A pristine module and its tests; the expected values are texts, one a call."""

    name: str
    family: str
    split: str
    source: str
    calls: tuple[str, ...]
    expected: tuple[str, ...]
    hidden_calls: tuple[str, ...]
    hidden_expected: tuple[str, ...]


def fork(family: Family, name: str, seed: str) -> Repository:
    """A repository of the family: identifiers from one common word list, functions shuffled."""
    rng = random.Random(seed)  # noqa: S311
    functions, identifiers = _names(family.source)
    while True:
        words = dict(zip(sorted(identifiers), rng.sample(_words(), len(identifiers)), strict=True))
        blocks = family.source.rstrip("\n").split("\n\n")
        rng.shuffle(blocks)
        source = _rename("\n\n".join(blocks) + "\n", words)
        calls = [_rename(call, {f: words[f] for f in functions}) for call in family.calls]
        expected = evaluate(source, calls)
        # a new name may hide a builtin that the module uses: draw again
        if expected == evaluate(family.source, family.calls):
            break
    hidden, hidden_expected = _hidden_tests(source, calls, rng)
    return Repository(
        name,
        family.name,
        family.split,
        source,
        tuple(calls),
        tuple(expected or ()),
        hidden,
        hidden_expected,
    )


def _hidden_tests(
    source: str, calls: list[str], rng: random.Random
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Visible calls with other arguments, where the pristine module returns a short value."""
    tests: dict[str, str] = {}
    for call in calls:
        for _ in range(_NUM_VARIANTS):
            variant = _vary(call, rng)
            if variant in calls or variant in tests:
                continue
            values = evaluate(
                source, [f"[{variant}]"]
            )  # a list: an exception's name is not a value
            if values and values[0].startswith("[") and len(values[0]) < _MAX_VALUE_CHARS:
                tests[variant] = values[0][1:-1]
    return tuple(tests), tuple(tests.values())


def _vary(call: str, rng: random.Random) -> str:
    tree = ast.parse(call, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) is int and rng.random() < 0.5:
            node.value = max(0, node.value + rng.choice((-2, -1, 1, 2, 3)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and rng.random() < 0.3:
            node.value = rng.choice((node.value[1:], node.value[::-1], node.value + node.value[:1]))
        elif isinstance(node, ast.List) and len(node.elts) > 1 and rng.random() < 0.3:
            node.elts = node.elts[:-1]
    return ast.unparse(tree)


def _names(source: str) -> tuple[set[str], set[str]]:
    """(functions, all identifiers that the module itself gives)."""
    tree = ast.parse(source)
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    identifiers = set(functions)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            identifiers.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            identifiers.add(node.id)
    return functions, identifiers - {"_"}


@cache
def _words() -> list[str]:
    """Short names that occur in any family: a name tells nothing about the split."""
    found: set[str] = set()
    for split in SPLITS:
        for family in load_families(split):
            found |= _names(family.source)[1]
    return sorted(word for word in found if re.fullmatch("[a-z]{2,7}", word))


def _rename(text: str, words: dict[str, str]) -> str:
    # never inside a string that is one word: 'draw' stays 'draw'
    return re.sub(r"\b[A-Za-z_]\w*\b(?![:']?')", lambda found: words.get(found[0], found[0]), text)

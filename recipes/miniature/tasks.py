"""Tasks: a repository with one injected bug, the candidate edits, and what each of them would do.

The candidates are the one-token edits of the function that the first failing visible test calls,
most suspicious line first (Ochiai: Abreu et al. 2007, "On the accuracy of spectrum-based fault
localization"). The order uses the visible tests and the buggy module only: an agent could compute
it, too.
"""

from __future__ import annotations

import ast
import math
import random
from dataclasses import dataclass
from functools import cached_property

from recipes.miniature.edits import Edit, find_function, list_edits
from recipes.miniature.execution import evaluate, executed_lines
from recipes.miniature.families import load_families
from recipes.miniature.repositories import Repository, fork

MIN_CANDIDATES, MAX_CANDIDATES = 8, 24


@dataclass(frozen=True)
class Task:
    """`fix` is the index of the repairing edit in `candidates`; the agent sees it nowhere."""

    repository: Repository
    source: str
    function: str
    candidates: tuple[Edit, ...]
    fix: int
    result: str
    """What the visible tests print on the buggy module, as `FAILED 3/15`."""
    key: str = ""

    @property
    def listing(self) -> str:
        """The numbered candidates, ` 3: L1 < -> <=`: lines relative to `def`, so that forks look
        alike. The blank before the number makes it the token that stands in `try 3`, too.
        """
        top = find_function(self.source, self.function).lineno
        return "\n".join(
            f" {k}: L{e.line - top} {e.old} -> {e.new}" for k, e in enumerate(self.candidates, 1)
        )

    @property
    def instruction(self) -> str:
        return (
            f"sh test.sh: {self.result} in {self.function}. One edit repairs it."
            f" try K, then submit.\n{self.listing}"
        )

    @cached_property
    def _outcomes(self) -> dict[int, tuple[str, float]]:
        return {}

    def outcome(self, candidate: int) -> tuple[str, float]:
        """(what `try` reports, the grade of what it leaves) for a candidate, counted from 0."""
        if candidate not in self._outcomes:
            source = self.candidates[candidate].apply(self.source)
            result = visible_result(source, self.repository)
            self._outcomes[candidate] = (
                result,
                float(result == "OK" and passes_hidden(source, self.repository)),
            )
        return self._outcomes[candidate]


def visible_result(source: str, repository: Repository) -> str:
    values = evaluate(source, repository.calls)
    if values is None:
        return "timeout"
    num_failed = sum(got != want for got, want in zip(values, repository.expected, strict=True))
    return f"FAILED {num_failed}/{len(values)}" if num_failed else "OK"


def passes_hidden(source: str, repository: Repository) -> bool:
    return evaluate(source, repository.hidden_calls) == list(repository.hidden_expected)


def inject_bugs(repository: Repository, rng: random.Random, limit: int) -> list[Task]:
    """Up to `limit` bugs that some, not all, visible tests and some hidden test find.

    The first failing visible test calls the function with the bug.
    """
    functions = [
        node.name for node in ast.parse(repository.source).body if isinstance(node, ast.FunctionDef)
    ]
    bugs = [(name, edit) for name in functions for edit in list_edits(repository.source, name)]
    rng.shuffle(bugs)
    tasks: list[Task] = []
    for function, bug in bugs:
        if len(tasks) == limit:
            break
        source = bug.apply(repository.source)
        candidates = list_edits(source, function)
        if not MIN_CANDIDATES <= len(candidates) <= MAX_CANDIDATES:
            continue
        values = evaluate(source, repository.calls)
        if values is None:
            continue
        failing = [got != want for got, want in zip(values, repository.expected, strict=True)]
        num_failed = sum(failing)
        if not 0 < num_failed < len(failing) or passes_hidden(source, repository):
            continue
        if repository.calls[failing.index(True)].split("(")[0] != function:
            continue
        candidates = _most_suspicious_first(candidates, source, repository.calls, failing)
        tasks.append(
            Task(
                repository=repository,
                source=source,
                function=function,
                candidates=tuple(candidates),
                fix=candidates.index(bug.inverse),
                result=f"FAILED {num_failed}/{len(failing)}",
            )
        )
    return tasks


def _most_suspicious_first(
    candidates: list[Edit], source: str, calls: tuple[str, ...], failing: list[bool]
) -> list[Edit]:
    """Sorts by the Ochiai score of the line; equal lines keep source order."""
    spectra = executed_lines(source, calls)

    def score(line: int) -> float:
        hits = [fails for fails, lines in zip(failing, spectra, strict=True) if line in lines]
        return sum(hits) / math.sqrt(sum(failing) * len(hits)) if hits else 0.0

    scores = {line: score(line) for line in {edit.line for edit in candidates}}
    return sorted(candidates, key=lambda edit: -scores[edit.line])


def draw_tasks(split: str, seed: str, *, num_forks: int, per_repository: int) -> list[Task]:
    """Tasks of `num_forks` repositories of every family, shuffled; key: family, fork, bug."""
    rng = random.Random(f"{seed}/{split}")  # noqa: S311
    tasks = []
    for family in load_families(split):
        for number in range(num_forks):
            name = f"{family.name}-{number:02}"
            repository = fork(family, name, f"{seed}/{split}/{name}")
            for bug, task in enumerate(inject_bugs(repository, rng, per_repository)):
                tasks.append(Task(**{**task.__dict__, "key": f"{name}-{bug:02}"}))
    rng.shuffle(tasks)
    return tasks

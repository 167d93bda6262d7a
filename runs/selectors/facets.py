"""How many trajectories each value of a filter would leave, and what the whole filter holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Unpack, cast

from django.db.models import Count, Q, Sum
from django.db.models.functions import Coalesce
from typing_extensions import TypedDict

from controlplane.accounts.access import Actor
from runs.models import Trajectory
from runs.selectors.trajectories import of_run
from runs.selectors.trajectory_query import FACETS, TrajectoryFilters, annotated, narrowed

_SUMMED = {
    "count": Count("pk"),
    "valid": Count("reward"),
    "solved": Count("pk", filter=Q(outcome="solved")),
    "reward_sum": Coalesce(Sum("reward"), 0.0),
    "turns": Sum("num_turns"),
    "read_tokens": Sum("prompt_tokens"),
    "written_tokens": Sum("output_tokens"),
    "seconds": Coalesce(Sum("duration_s"), 0.0),
}


class TrajectoryFacetRow(TypedDict):
    """A value and the trajectories that have it under all other filters."""

    value: str
    count: int


class TrajectoryFacetsByWordRow(TypedDict):
    """By the word of the filter, the most frequent value first."""

    outcome: list[TrajectoryFacetRow]
    stop_reason: list[TrajectoryFacetRow]
    stage: list[TrajectoryFacetRow]
    repository: list[TrajectoryFacetRow]
    driver: list[TrajectoryFacetRow]
    failure: list[TrajectoryFacetRow]


class TrajectoryTotalsRow(TypedDict):
    """Over every trajectory of the filter; reward_mean over the valid ones, hours of newest attempts that ended."""

    count: int
    valid: int
    solved: int
    reward_mean: float | None
    turns: int
    prompt_tokens: int
    output_tokens: int
    hours: float


class TrajectoryFacetsRow(TypedDict):
    """What a filter of trajectories holds, and what each value of its facets would."""

    totals: TrajectoryTotalsRow
    facets: TrajectoryFacetsByWordRow


def trajectory_facets(
    actor: Actor, run: int, **given: Unpack[TrajectoryFilters]
) -> TrajectoryFacetsRow:
    """One query: rows are grouped by all facets at once, of which there are few. Raises NotFound."""
    others = {name: value for name, value in given.items() if name not in FACETS}
    query = narrowed(annotated(of_run(Trajectory.objects.all(), actor, run)), others)
    combinations = query.order_by().values(*FACETS.values()).annotate(**_SUMMED)
    words: Mapping[str, Any] = given
    chosen = {name: set(words[name]) for name in FACETS if words.get(name) is not None}
    return facets_of(list(combinations), chosen)


def facets_of(
    combinations: Sequence[Mapping[str, Any]], chosen: Mapping[str, Collection[str]]
) -> TrajectoryFacetsRow:
    """Counts of each facet under the choices of the others, and totals under all choices."""
    counts: dict[str, dict[str, int]] = {name: defaultdict(int) for name in FACETS}
    totals: dict[str, float] = defaultdict(float)
    for row in combinations:
        refusing = [name for name, words in chosen.items() if row[FACETS[name]] not in words]
        for name, column in FACETS.items():
            if row[column] and all(other == name for other in refusing):
                counts[name][row[column]] += row["count"]
        if not refusing:
            for key in _SUMMED:
                totals[key] += row[key]
    return TrajectoryFacetsRow(
        totals=TrajectoryTotalsRow(
            count=int(totals["count"]),
            valid=int(totals["valid"]),
            solved=int(totals["solved"]),
            reward_mean=totals["reward_sum"] / totals["valid"] if totals["valid"] else None,
            turns=int(totals["turns"]),
            prompt_tokens=int(totals["read_tokens"]),
            output_tokens=int(totals["written_tokens"]),
            hours=totals["seconds"] / 3600,
        ),
        facets=_by_word(counts),
    )


def _by_word(counts: Mapping[str, Mapping[str, int]]) -> TrajectoryFacetsByWordRow:
    by_word: dict[str, list[TrajectoryFacetRow]] = {
        name: [
            TrajectoryFacetRow(value=value, count=count)
            for value, count in sorted(found.items(), key=lambda item: (-item[1], item[0]))
        ]
        for name, found in counts.items()
    }
    return cast("TrajectoryFacetsByWordRow", by_word)

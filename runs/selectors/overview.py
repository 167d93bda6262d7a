"""A run at a glance: is it alive, what does it wait for, what became of its work.

Six queries whatever the size of the run. Every figure says its population in the row that holds it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

import orjson
from django.db import connection
from typing_extensions import TypeAliasType, TypedDict

from controlplane.accounts.access import Actor
from controlplane.sharing import Shared
from runs.bottleneck import StepTimes, bottleneck
from runs.differences import differences
from runs.models import Group, Run, Stage, Step
from runs.selectors import boxes as sandboxes
from runs.selectors import work
from runs.selectors.history import StepStatus
from runs.selectors.runs import RATE_WINDOW, visible_run, visible_runs

Bound = TypeAliasType("Bound", Literal["rollout", "trainer", "balanced", "none"])
EnginePhase = Literal["starting", "syncing", "serving", "paused", "draining", "gone", "lost"]


class VerdictRow(TypedDict):
    """Which side the other one waits for, over the last num_steps finished steps; wait_share is of their sum."""

    bound: Bound
    wait_share: float | None
    num_steps: int
    sentence: str


class BalanceRow(TypedDict):
    """RL trajectories per hour, completed against trained, over window_s seconds (all of a stage that has ended)."""

    produced_per_h: float | None
    consumed_per_h: float | None
    window_s: float


class BufferRow(TypedDict):
    """Groups that are ready and wait for a step. Ages are of the group that has waited longest."""

    num_ready: int
    num_open: int
    capacity: int | None
    oldest_s: float | None
    oldest_lag: int | None


class NamedCountRow(TypedDict):
    name: str
    num: int


class EngineTotalsRow(TypedDict):
    """Engines that are not gone. kv_max is the fullest KV cache, lag the versions that the furthest is behind."""

    num: int
    num_serving: int
    num_lost: int
    running: int
    queued: int
    kv_max: float | None
    gen_tokens_per_s: float
    lag: int


class TrainerNowRow(TypedDict):
    """The newest step, and what it is at."""

    phase: StepStatus | None
    step: int | None
    since: datetime | None
    weight_version: int


class TopologyRow(TypedDict):
    """What is where now: the state of the run's end for one that has ended."""

    queued: int
    in_flight: int
    max_in_flight: int
    sandboxes: list[NamedCountRow]
    engines: EngineTotalsRow
    dropped: list[NamedCountRow]
    trainer: TrainerNowRow


class CostRow(TypedDict):
    """What the run used so far. trained: RL trajectories in steps that count; points of pass@1 from the first to
    the last evaluation. busy: hours in which an engine had at least one attempt."""

    cpu_s: float
    sandbox_h: float
    engine_h: float
    engine_busy_h: float
    trained: int
    points: float | None


class LifeRow(TypedDict):
    """One life of the run's trainer, with the sentence that its start wrote."""

    resume: int
    first_step: int
    last_step: int
    num_done: int
    num_superseded: int
    num_failed: int
    started_at: datetime
    ended_at: datetime | None
    sentence: str


class RecipeChangeRow(TypedDict):
    """A field of the recipe that differs from the run it was cloned from."""

    path: str
    before: Any
    after: Any


class OriginRow(TypedDict):
    """The run that this one was cloned from, and what was changed."""

    id: int
    name: str
    changes: list[RecipeChangeRow]


class OverviewRow(TypedDict):
    """Everything that the first screen of a run needs, except curves."""

    at: datetime
    verdict: VerdictRow
    balance: BalanceRow
    buffer: BufferRow
    topology: TopologyRow
    loop: work.LoopRow
    time: list[work.TimeSplitRow]
    funnel: list[sandboxes.FunnelRow]
    drivers: list[sandboxes.DriverUseRow]
    calls: work.CallsRow
    fates: list[work.FateTotalRow]
    selection: list[work.SelectionRow]
    cost: CostRow
    lives: list[LifeRow]
    origin: OriginRow | None


class _Now(NamedTuple):
    stages: list[dict[str, Any]]
    groups: list[dict[str, Any]]
    in_flight: work.InFlight
    queued: int
    num_turns: int
    engines: list[dict[str, Any]]
    lives: list[dict[str, Any]]


_NOW = """
SELECT
  (SELECT coalesce(jsonb_agg(row ORDER BY row.index), '[]') FROM (
    SELECT id, index, kind, name, status, result->>'pass_at_1' AS pass_at_1,
      date_part('epoch', started_at) AS began, date_part('epoch', finished_at) AS ended
    FROM runs_stage WHERE run_id = %(run)s) AS row)::text,
  (SELECT coalesce(jsonb_agg(row), '[]') FROM (
    SELECT stage_id, status, drop_reason, count(*) AS num, min(oldest_version) AS oldest_version,
      date_part('epoch', min(ready_at)) AS ready_since
    FROM runs_group WHERE run_id = %(run)s GROUP BY stage_id, status, drop_reason) AS row)::text,
  (SELECT row_to_json(row) FROM (
    SELECT count(*) AS num, coalesce(sum(date_part('epoch', %(now)s - attempt.started_at)), 0) AS age_s,
      coalesce(sum(date_part('epoch', attempt.started_at - attempt.created_at)), 0) AS queue_s,
      coalesce(sum(turns.num), 0)::int AS num_turns,
      coalesce(sum(turns.llm_s), 0) AS llm_s, coalesce(sum(turns.exec_s), 0) AS exec_s
    FROM runs_attempt AS attempt LEFT JOIN LATERAL (
      SELECT count(*) AS num, sum(llm_s) AS llm_s, sum(exec_s) AS exec_s
      FROM runs_turn WHERE attempt_id = attempt.id) AS turns ON true
    WHERE attempt.run_id = %(run)s AND attempt.status IN ('starting', 'running', 'grading')) AS row)::text,
  (SELECT count(*) FROM runs_attempt WHERE run_id = %(run)s AND status = 'queued'),
  (SELECT coalesce(jsonb_agg(row), '[]') FROM (
    SELECT engine.status, engine.weight_version, engine.load,
      greatest(0, date_part('epoch', coalesce(engine.finished_at, %(now)s) - engine.started_at)) AS up_s,
      coalesce(busy.seconds, 0)::float8 AS busy_s
    FROM runs_engine AS engine LEFT JOIN LATERAL (
      SELECT sum(date_part('epoch', upper(span) - lower(span))) AS seconds FROM (
        SELECT unnest(range_agg(tstzrange(started_at, coalesce(finished_at, %(now)s)))) AS span
        FROM runs_attempt WHERE engine_id = engine.id AND started_at < coalesce(finished_at, %(now)s)
      ) AS spans) AS busy ON true
    WHERE engine.run_id = %(run)s) AS row)::text,
  (SELECT coalesce(jsonb_agg(row ORDER BY row.at), '[]') FROM (
    SELECT date_part('epoch', at) AS at, sentence FROM runs_event
    WHERE run_id = %(run)s AND kind IN ('rolled_back', 'trainer_resumed')) AS row)::text
"""


_answers = Shared[OverviewRow]()


def overview(actor: Actor, *, run: int, now: datetime) -> OverviewRow:
    """Raises NotFound."""
    found = visible_run(actor, run)
    answer = _answers.ask(found.pk, lambda: _overview(found, now))
    return OverviewRow(**{**answer, "origin": _origin(actor, found)})


def _overview(found: Run, now: datetime) -> OverviewRow:
    """The same for all who may see the run; without its origin, which not all of them may."""
    end = found.finished_at or now
    facts = _now(found.pk, end)
    steps = list(Step.objects.filter(run=found).order_by("id"))
    stage = _rl_stage(facts.stages)
    since, until = _window(stage, end)
    cells = work.work(found.pk, since=since)
    those = sandboxes.boxes(found.pk, now=end)
    buffer = _buffer(found, stage, facts.groups, end)
    done = [step for step in steps if step.status == Step.Status.DONE]
    return OverviewRow(
        at=now,
        verdict=_verdict(done, buffer),
        balance=_balance(cells, done, since, until),
        buffer=buffer,
        topology=_topology(found, facts, steps, those),
        loop=work.loop(cells),
        time=work.time_splits(cells, facts.in_flight),
        funnel=sandboxes.funnel(those, sandboxes.failed(found.pk)),
        drivers=sandboxes.drivers(those),
        calls=work.calls(cells, facts.num_turns),
        fates=work.fates(cells),
        selection=work.selection(cells),
        cost=_cost(found, facts, cells, those),
        lives=_lives(steps, facts.lives),
        origin=None,
    )


def _now(run_id: int, now: datetime) -> _Now:
    with connection.cursor() as cursor:
        cursor.execute(_NOW, {"run": run_id, "now": now})
        row = cursor.fetchone()
    assert row is not None
    stages, groups, live, queued, engines, lives = row
    live = orjson.loads(live)
    num_turns = live.pop("num_turns")
    return _Now(
        stages=orjson.loads(stages),
        groups=orjson.loads(groups),
        in_flight=work.InFlight(**live),
        queued=queued,
        num_turns=num_turns,
        engines=orjson.loads(engines),
        lives=orjson.loads(lives),
    )


def _rl_stage(stages: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """The RL stage that runs, or the last one that has begun."""
    begun = [stage for stage in stages if stage["kind"] == "rl" and stage["began"] is not None]
    running = [stage for stage in begun if stage["status"] == Stage.Status.RUNNING]
    chosen = running or begun
    return chosen[-1] if chosen else None


def _window(stage: dict[str, Any] | None, end: datetime) -> tuple[datetime, datetime]:
    """Ten minutes of a stage that runs; all of one that has ended."""
    if stage is None:
        return end, end
    began = datetime.fromtimestamp(stage["began"], end.tzinfo)
    if stage["ended"] is not None:
        return began, datetime.fromtimestamp(stage["ended"], end.tzinfo)
    return max(began, end - RATE_WINDOW), end


def _verdict(done: list[Step], buffer: BufferRow) -> VerdictRow:
    times = [StepTimes(step.wait_s, step.logprob_s, step.update_s) for step in done]
    found = bottleneck(times, num_ready=buffer["num_ready"])
    return VerdictRow(
        bound=found.bound,
        wait_share=found.wait_share,
        num_steps=found.num_steps,
        sentence=found.sentence,
    )


def _balance(
    cells: list[work.Cell], done: list[Step], since: datetime, until: datetime
) -> BalanceRow:
    hours = (until - since) / timedelta(hours=1)
    produced = sum(cell.recent for cell in cells if cell.kind == "rl")
    consumed = sum(
        step.num_trajectories for step in done if step.finished_at and step.finished_at >= since
    )
    return BalanceRow(
        produced_per_h=produced / hours if hours > 0 else None,
        consumed_per_h=consumed / hours if hours > 0 else None,
        window_s=hours * 3600,
    )


def _buffer(
    run: Run, stage: dict[str, Any] | None, groups: list[dict[str, Any]], end: datetime
) -> BufferRow:
    rows = [row for row in groups if stage is not None and row["stage_id"] == stage["id"]]
    ready = [row for row in rows if row["status"] == Group.Status.READY]
    since = min((row["ready_since"] for row in ready if row["ready_since"]), default=None)
    oldest = min(
        (r["oldest_version"] for r in ready if r["oldest_version"] is not None), default=None
    )
    plan = run.recipe["stages"][stage["index"]] if stage is not None else None
    return BufferRow(
        num_ready=sum(row["num"] for row in ready),
        num_open=sum(row["num"] for row in rows if row["status"] == Group.Status.OPEN),
        capacity=(plan["max_staleness"] + 1) * plan["groups_per_step"] if plan else None,
        oldest_s=None if since is None else max(0.0, end.timestamp() - since),
        oldest_lag=None if oldest is None else run.weight_version - oldest,
    )


def _topology(
    run: Run, facts: _Now, steps: list[Step], those: list[sandboxes.Boxes]
) -> TopologyRow:
    dropped: dict[str, int] = {}
    for row in facts.groups:
        if row["status"] == Group.Status.DROPPED:
            dropped[row["drop_reason"]] = dropped.get(row["drop_reason"], 0) + row["num"]
    newest = steps[-1] if steps else None
    return TopologyRow(
        queued=facts.queued,
        in_flight=facts.in_flight.num,
        max_in_flight=run.recipe.get("rollout", {}).get("max_in_flight", 0),
        sandboxes=_counts(sandboxes.by_status(those)),
        engines=_engine_totals(run, facts.engines),
        dropped=_counts(dropped),
        trainer=TrainerNowRow(
            phase=newest.status if newest else None,  # type: ignore[typeddict-item]
            step=newest.index if newest else None,
            since=(newest.finished_at or newest.started_at) if newest else None,
            weight_version=run.weight_version,
        ),
    )


def _counts(found: dict[str, int]) -> list[NamedCountRow]:
    return [NamedCountRow(name=name, num=num) for name, num in sorted(found.items())]


def _engine_totals(run: Run, engines: list[dict[str, Any]]) -> EngineTotalsRow:
    live = [engine for engine in engines if engine["status"] not in ("gone", "lost")]
    loads = [engine["load"] for engine in live]
    used = [load["token_usage"] for load in loads if "token_usage" in load]
    versions = [e["weight_version"] for e in live if e["weight_version"] is not None]
    return EngineTotalsRow(
        num=len(live),
        num_serving=sum(1 for engine in live if engine["status"] == "serving"),
        num_lost=sum(1 for engine in engines if engine["status"] == "lost"),
        running=sum(int(load.get("running", 0)) for load in loads),
        queued=sum(int(load.get("queued", 0)) for load in loads),
        kv_max=max(used, default=None),
        gen_tokens_per_s=sum(float(load.get("gen_throughput", 0)) for load in loads),
        lag=max((run.weight_version - version for version in versions), default=0),
    )


def _cost(run: Run, facts: _Now, cells: list[work.Cell], those: list[sandboxes.Boxes]) -> CostRow:
    solved = [float(s["pass_at_1"]) for s in facts.stages if s["pass_at_1"] is not None]
    return CostRow(
        cpu_s=run.cpu_s,
        sandbox_h=sandboxes.sandbox_hours(those),
        engine_h=sum(engine["up_s"] or 0.0 for engine in facts.engines) / 3600,
        engine_busy_h=sum(engine["busy_s"] for engine in facts.engines) / 3600,
        trained=sum(
            cell.newest for cell in cells if cell.kind == "rl" and cell.fate in work.CONSUMED
        ),
        points=100 * (solved[-1] - solved[0]) if len(solved) > 1 else None,
    )


def _lives(steps: list[Step], sentences: list[dict[str, Any]]) -> list[LifeRow]:
    by_resume: dict[int, list[Step]] = {}
    for step in steps:
        by_resume.setdefault(step.resume, []).append(step)
    return [_life(resume, those, sentences) for resume, those in sorted(by_resume.items())]


def _life(resume: int, steps: list[Step], sentences: list[dict[str, Any]]) -> LifeRow:
    began = min(step.started_at for step in steps)
    before = [each["sentence"] for each in sentences if each["at"] <= began.timestamp()]
    statuses = [step.status for step in steps]
    return LifeRow(
        resume=resume,
        first_step=min(step.index for step in steps),
        last_step=max(step.index for step in steps),
        num_done=statuses.count(Step.Status.DONE),
        num_superseded=statuses.count(Step.Status.SUPERSEDED),
        num_failed=statuses.count(Step.Status.FAILED),
        started_at=began,
        ended_at=max((s.finished_at for s in steps if s.finished_at), default=None),
        sentence=before[-1] if resume and before else "",
    )


def _origin(actor: Actor, run: Run) -> OriginRow | None:
    """What was changed against the run it was cloned from, where the actor may see that one."""
    if run.cloned_from_id is None:
        return None
    parent = visible_runs(actor).filter(pk=run.cloned_from_id).first()
    if parent is None:
        return None
    changes = [
        RecipeChangeRow(path=path, before=before, after=after)
        for path, before, after in differences(parent.recipe, run.recipe)
    ]
    return OriginRow(id=parent.pk, name=parent.name, changes=changes)

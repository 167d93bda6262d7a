"""A run on a clock of its own: a seeded, pure discrete-event simulation of evaluation, SFT and asynchronous RL.

    admission ─> waiting ─> in flight ─> ended ─> group ready ─> step: wait ─ log-prob ─ update ─ publish
        ▲            (at most max_in_flight)          │ dropped: stale, superseded, too few valid  │
        └───────────── capacity, by live groups ──────┴──────────────── version + 1 ───────────────┘

It follows the rules of the services that it stands for (admission: stages.num_open; groups.settle;
steps.roll_back and drop_stale_groups; attempts' retries), so that their checks hold over its rows.
Times are seconds since the run began.
"""

from __future__ import annotations

import heapq
import itertools
import math
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from runs.advantages import group_advantages, group_statistics
from runs.demo_data import step_metrics
from runs.demo_data.behaviour import draw_behaviour
from runs.demo_data.curves import sft_learning_rate, sft_loss
from runs.demo_data.faults import BROKEN_TASK, ENGINE_LOST, Fault, draw_fault
from runs.demo_data.records import (
    AttemptPlan,
    CheckpointPlan,
    EnginePlan,
    GroupPlan,
    MemberPlan,
    Point,
    Sentence,
    StagePlan,
    StepPlan,
    VersionPlan,
)
from runs.demo_data.shape import NUM_TRAIN_TASKS, Shape
from sandboxes.failures import ATTRIBUTABLE, POLICIES

SFT_S = 2_900.0
CANCEL_S = 3.0
"""A worker learns that it should end with its next heartbeat."""
ENGINES_A_NODE = 8


class Plan:
    """Simulates at construction; then holds what happened."""

    def __init__(self, shape: Shape, seed: int) -> None:
        self.shape = shape
        self.rng = np.random.default_rng([seed, shape.salt])
        self.now = 0.0
        self.resume = 0
        self.sentences: list[Sentence] = []
        self.points: list[Point] = []
        self.versions = [VersionPlan(0, None, 0, 0, -math.inf)]
        self.version = 0
        self.checkpoints: list[CheckpointPlan] = []
        self.attempts: list[AttemptPlan] = []
        self.engines = [EnginePlan(index, 8.0 + index) for index in range(shape.num_engines)]
        self.quarantined: dict[int, float] = {}
        self.pauses: list[tuple[float, float]] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._waiting: deque[AttemptPlan] = deque()
        self._in_flight: dict[AttemptPlan, None] = {}
        self._load = [0] * shape.num_engines
        self._completed_at: list[float] = []
        self._published_at = [-math.inf]
        self._crashes = set(shape.crash_steps)
        self._pause_steps = set(shape.pause_steps)
        self._outage_step = shape.outage_step
        self._is_paused = self._is_down = False
        self._driver = "docker"
        self._order = self.rng.permutation(NUM_TRAIN_TASKS)
        self._broken = {int(t) for t in self._order[[3, 17, 40]]}
        self._defects: dict[int, int] = {}
        self._kinds: list[float] = []
        self.stages = [
            StagePlan(0, "eval", "base"),
            StagePlan(1, "sft", "sft-training"),
            StagePlan(2, "eval", "sft"),
            StagePlan(3, "rl", "rl-training", num_steps=shape.num_steps),
            StagePlan(4, "eval", "rl"),
        ]
        self._run()

    # the run

    def _run(self) -> None:
        base, sft, after_sft, rl, after_rl = self.stages
        self._say("run_queued", f"seed_demo launched recipe {self.shape.name}.")
        self.now = 2.0
        self._say("run_started", "The run started.")
        for engine in self.engines:
            self._engine_is_up(engine.index, engine.started_at)
        self.now = 60.0
        self._evaluate(base, self.shape.solve_rates[0])
        self._fine_tune(sft)
        self._evaluate(after_sft, self.shape.solve_rates[1])
        self._driver = "e2b"
        self._say(
            "note",
            "Sandboxes of the following stages are e2b microVMs: local Docker ends at "
            f"{self.shape.docker_in_flight} at a time.",
        )
        self._reinforce(rl)
        self._evaluate(after_rl, self.shape.solve_rates[2])
        self._say("run_succeeded", "All stages succeeded.")
        self.finished_at = self.now

    def _begin(self, stage: StagePlan) -> None:
        self.now += 2
        stage.started_at = self.now
        stage.weight_version = self.version
        self._say("stage_started", f"Stage {stage.name} started at weight version {self.version}.")

    def _evaluate(self, stage: StagePlan, rate: float) -> None:
        """Exactly the given share of the scheduled attempts solve their task, the clearest ones."""
        self._begin(stage)
        shape = self.shape
        skill = np.random.default_rng(7).normal(0, 1.6, shape.num_eval_tasks)
        scores = skill[:, None] + self.rng.gumbel(0, 1, (shape.num_eval_tasks, shape.eval_attempts))
        num_solved = round(rate * scores.size)
        least = np.sort(scores, axis=None)[-num_solved]
        for task in range(shape.num_eval_tasks):
            self._open_group(stage, task, [bool(score >= least) for score in scores[task]])
        self._run_until(lambda: all(group.status == "scored" for group in stage.groups))
        self.now += 2
        stage.finished_at = self.now

    def _fine_tune(self, stage: StagePlan) -> None:
        self._begin(stage)
        num = self.shape.sft_steps
        for step in range(1, num + 1):
            self.now += SFT_S / num
            if step % max(1, num // 120) == 0 or step == num:
                self._point("sft/loss", step, sft_loss(self.rng, step, num))
                self._point("sft/learning_rate", step, sft_learning_rate(step, num))
        self._publish(num)
        self._checkpoint(stage, num)
        stage.finished_at = self.now
        self._say("stage_succeeded", f"Stage {stage.name} succeeded.")

    def _reinforce(self, stage: StagePlan) -> None:
        self._begin(stage)
        self._rl = stage
        self._step = self._begin_step()
        self._admit()
        self._run_until(lambda: stage.num_steps_done >= stage.num_steps)
        for group in stage.groups:
            assert not group.is_live
        stage.finished_at = self.now
        self._say("stage_succeeded", f"Stage {stage.name} succeeded.")

    # the clock

    def _at(self, when: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._count), action))

    def _run_until(self, is_done: Callable[[], bool]) -> None:
        self._start_waiting()
        while not is_done():
            when, _, action = heapq.heappop(self._events)
            self.now = max(self.now, when)
            action()
            self._start_waiting()

    def _say(self, kind: str, text: str, level: str = "info", **data: Any) -> None:
        self.sentences.append(Sentence(self.now, kind, text, level, data))

    def _point(self, name: str, step: int, value: float) -> None:
        self.points.append(Point(name, self.resume, step, float(value), self.now))

    # groups and attempts

    def _open_group(self, stage: StagePlan, task: int, solved: list[bool]) -> GroupPlan:
        group = GroupPlan(
            stage=stage,
            index=stage.num_opened,
            task=task,
            resume=self.resume,
            opened_version=self.version,
            opened_at=self.now,
            slowness=float(self.rng.lognormal(0, 0.14)),
            is_broken=stage.kind == "rl" and task in self._broken,
        )
        stage.num_opened += 1
        stage.groups.append(group)
        for index, is_solved in enumerate(solved):
            member = MemberPlan(group, index, self.now, is_solved)
            group.members.append(member)
            self._queue(member)
        return group

    def _queue(self, member: MemberPlan, wait_s: float | None = None) -> None:
        rng, group = self.rng, member.group
        slowness = group.slowness * float(rng.lognormal(0, 0.2))
        if rng.random() < 0.03:  # a straggler
            worst = 3.0 if group.stage.kind == "eval" else 8.0
            slowness *= float(min(worst, 1.6 + 1.1 * rng.pareto(2.3)))
        attempt = AttemptPlan(
            member=member,
            number=len(member.attempts) + 1,
            created_at=self.now,
            driver=self._driver,
            not_before=None if wait_s is None else self.now + wait_s,
            behaviour=draw_behaviour(
                rng,
                is_solved=member.is_solved,
                turn_cap=self.shape.turn_cap,
                token_cap=self.shape.token_cap,
                driver=self._driver,
                slowness=slowness,
            ),
        )
        attempt.num_llm_errors = int(rng.binomial(attempt.behaviour.num_turns, 0.0009))
        member.attempts.append(attempt)
        self.attempts.append(attempt)
        if wait_s is None:
            self._waiting.append(attempt)
        else:
            self._at(self.now + wait_s, lambda: self._waiting.append(attempt))

    def _start_waiting(self) -> None:
        room = self.shape.max_in_flight if self._driver == "e2b" else self.shape.docker_in_flight
        while self._waiting and len(self._in_flight) < room:
            attempt = self._waiting.popleft()
            if attempt.status == "queued":
                self._start(attempt)

    def _start(self, attempt: AttemptPlan) -> None:
        attempt.status = "running"
        attempt.started_at = self.now + float(self.rng.uniform(0.1, 0.6))
        self._in_flight[attempt] = None
        attempt.engine = min(self._serving(), key=self._load.__getitem__)
        self._load[attempt.engine] += 1
        attempt.fault = self._draw_fault(attempt)
        behaviour, fault = attempt.behaviour, attempt.fault
        if fault is None:
            end = behaviour.agent_end_s() + behaviour.verify_s
        elif fault.at == (0.0, 0.0):
            end = behaviour.first_turn_s() * float(self.rng.uniform(0.4, 1.0))
        elif fault.at == (1.0, 1.0):
            end = behaviour.agent_end_s() + behaviour.verify_s * 1.4
        else:
            reached = behaviour.agent_end_s() - behaviour.first_turn_s()
            end = behaviour.first_turn_s() + reached * float(self.rng.uniform(*fault.at))
        self._at(attempt.started_at + end, lambda: self._end(attempt))

    def _serving(self) -> Iterable[int]:
        return [e.index for e in self.engines if e.lost_at is None and e.started_at <= self.now]

    def _draw_fault(self, attempt: AttemptPlan) -> Fault | None:
        if attempt.member.group.is_broken:
            return BROKEN_TASK
        before = [a.fault for a in attempt.member.attempts[:-1] if a.fault]
        rng = self.rng
        if before and before[-1].by_policy and rng.random() < 0.6:
            return before[-1]
        if rng.random() < (0.2 if before else 0.021):
            return draw_fault(rng, driver=attempt.driver, share=self._share())
        return None

    def _share(self) -> float:
        """How much of the run is done, roughly."""
        rl = self.stages[3]
        if rl.finished_at:
            return 1.0
        return rl.num_steps_done / rl.num_steps if rl.started_at else 0.0

    def _leave(self, attempt: AttemptPlan) -> None:
        self._in_flight.pop(attempt, None)
        self._load[attempt.engine] -= 1
        attempt.finished_at = max(self.now, attempt.started_at or self.now)
        assert attempt.started_at is not None
        starts = attempt.behaviour.turn_starts() + attempt.started_at
        ends = starts + attempt.behaviour.llm_s + attempt.behaviour.exec_s
        attempt.num_turns = int(bisect_right(ends.tolist(), attempt.finished_at + 1e-6))
        if attempt.num_turns:
            attempt.version_min = self.version_at(float(starts[0]))
            attempt.version_max = self.version_at(float(starts[attempt.num_turns - 1]))

    def version_at(self, when: float) -> int:
        """The weights that engines served then."""
        return self.versions[bisect_right(self._published_at, when) - 1].version

    def _end(self, attempt: AttemptPlan) -> None:
        if attempt.status != "running":
            return
        self._leave(attempt)
        fault, member = attempt.fault, attempt.member
        if fault is None:
            attempt.status = "completed"
            self._end_member(member, "completed", 1.0 if attempt.behaviour.is_solved else 0.0)
            return
        before = [a for a in member.attempts[:-1] if a.fault]
        attempt.is_suspect = fault.by_policy and fault.kind in ATTRIBUTABLE
        if attempt.is_suspect and any(a.is_suspect for a in before):
            attempt.status, attempt.is_attributed = "completed", True
            self._end_member(member, "completed", 0.0)
            return
        attempt.status = "failed"
        if fault is BROKEN_TASK:
            self._count_defect(member.group.task)
        policy = POLICIES[fault.kind]
        counted = [a.fault.kind for a in before if a.fault and not POLICIES[a.fault.kind].waits]
        if policy.waits:
            self._queue(member, float(self.rng.uniform(2, 45)))
        elif (
            counted.count(fault.kind) < policy.retries
            and len(counted) + 1 < self.shape.max_infra_attempts
        ):
            self._queue(member)
        else:
            self._end_member(member, "failed", None)

    def _count_defect(self, task: int) -> None:
        self._defects[task] = self._defects.get(task, 0) + 1
        if self._defects[task] == 3:
            self.quarantined[task] = self.now
            self._say(
                "task_quarantined",
                f"Task {{task:{task}}} is in quarantine: {BROKEN_TASK.message}",
                "warning",
            )

    def _end_member(self, member: MemberPlan, status: str, reward: float | None) -> None:
        member.status, member.reward, member.finished_at = status, reward, self.now
        if status == "completed":
            self._completed_at.append(self.now)
        group = member.group
        group.num_ended += 1
        if group.status == "open" and group.num_ended == len(group.members):
            self._settle(group)

    def _settle(self, group: GroupPlan) -> None:
        rewards = [member.reward for member in group.members]
        stats = group_statistics(rewards)
        group.num_valid = stats.num_valid
        group.reward_mean = stats.mean if stats.num_valid else None
        group.reward_std = stats.std if stats.num_valid > 1 else None
        versions = [
            m.last.version_min
            for m in group.members
            if m.reward is not None and m.last.version_min is not None
        ]
        group.oldest_version = min(versions, default=None)
        if group.stage.kind == "eval":
            group.status, group.finished_at = "scored", self.now
        elif stats.num_valid < self.shape.required_valid:
            self._drop(group, "too_few_valid")
        else:
            advantages = group_advantages(
                rewards,
                self.shape.advantage,  # type: ignore[arg-type]
                min_valid=self.shape.required_valid,
            )
            for member, advantage in zip(group.members, advantages, strict=True):
                member.advantage = advantage
            group.status, group.ready_at = "ready", self.now
            self._try_step()
        self._admit()

    def _drop(self, group: GroupPlan, reason: str) -> None:
        group.status, group.drop_reason = "dropped", reason
        group.finished_at, group.step = self.now, None
        because = {"stale": "stale", "superseded": "superseded"}.get(reason, "run_stopped")
        for member in group.members:
            if member.status == "open":
                attempt = member.last
                attempt.cancel_reason = because
                if attempt.status == "queued":
                    attempt.status, attempt.finished_at = "cancelled", self.now
                    self._end_member(member, "cancelled", None)
                else:
                    self._at(self.now + CANCEL_S, lambda a=attempt: self._cancelled(a))  # type: ignore[misc]

    def _cancelled(self, attempt: AttemptPlan) -> None:
        if attempt.status == "running":
            self._leave(attempt)
            attempt.status = "cancelled"
            self._end_member(attempt.member, "cancelled", None)
        elif attempt.status == "failed" and attempt.member.last.status == "queued":
            attempt = attempt.member.last
            attempt.status, attempt.finished_at = "cancelled", self.now
            attempt.cancel_reason = "stale"
            self._end_member(attempt.member, "cancelled", None)

    # admission and steps

    def _admit(self) -> None:
        stage, shape = self._rl_stage(), self.shape
        if stage is None or self._is_paused or self._is_down:
            return
        live = sum(group.is_live for group in stage.groups[-400:])
        filling = self._step.status in ("training", "publishing")
        done = stage.num_steps_done + filling
        needed = (shape.num_steps - done) * shape.groups_per_step - live
        capacity = (shape.max_staleness + 1 - filling) * shape.groups_per_step - live
        for _ in range(max(0, min(needed, capacity))):
            self._open_group(stage, self._next_task(), self._draw_solved())

    def _rl_stage(self) -> StagePlan | None:
        stage = self.stages[3]
        return stage if stage.started_at and stage.num_steps_done < stage.num_steps else None

    def _next_task(self) -> int:
        place = self.stages[3].num_opened
        for offset in itertools.count():
            task = int(self._order[(place + offset) % len(self._order)])
            if task not in self.quarantined:
                return task
        raise AssertionError

    def _draw_solved(self) -> list[bool]:
        """Most tasks are out of reach or within it: a third of the groups are mixed (article: 8 of 145 batches
        without a gradient). Ten steps see all kinds of tasks in their shares; a batch does not."""
        rng, done = self.rng, self._share()
        if not self._kinds:
            block = 10 * self.shape.groups_per_step
            self._kinds = ((rng.permutation(block) + rng.random(block)) / block).tolist()
        kind = self._kinds.pop()
        if kind < 0.62 - 0.05 * done:
            chance = 0.002
        elif kind < 0.645 - 0.02 * done:
            chance = 0.985
        else:
            chance = float(rng.beta(0.9, 2.3))
        return [bool(rng.random() < chance) for _ in range(self.shape.group_size)]

    def _begin_step(self) -> StepPlan:
        stage = self.stages[3]
        step = StepPlan(stage, stage.num_steps_done + 1, self.resume, self.version, self.now)
        stage.steps.append(step)
        if step.index in self._pause_steps:
            self._pause_steps.discard(step.index)
            self._at(self.now + 20, self._pause)
        if step.index == self._outage_step:
            self._outage_step = -1
            self._at(self.now + 30, self._lose_engines)
        return step

    def _try_step(self) -> None:
        stage, shape = self._rl_stage(), self.shape
        if stage is None or self._is_paused or self._is_down or self._step.status != "collecting":
            return
        ready = [g for g in stage.groups if g.status == "ready"]
        if len(ready) < shape.groups_per_step:
            return
        self._drop_stale()
        ready = [g for g in stage.groups if g.status == "ready"][: shape.groups_per_step]
        if len(ready) < shape.groups_per_step:
            return
        step, rng = self._step, self.rng
        step.status, step.groups = "training", ready
        step.wait_s = self.now - step.started_at
        step.trained_version = self.version
        for group in ready:
            group.status, group.step, group.finished_at = "consumed", step, self.now
            step.consumed += [m for m in group.members if m.status == "completed"]
        total = sum((g.reward_mean or 0.0) * (g.num_valid or 0) for g in ready)
        step.reward_mean = total / sum(g.num_valid or 0 for g in ready)
        step.logprob_s = float(shape.logprob_s * rng.normal(1, 0.07))
        step.update_s = float(shape.update_s * rng.normal(1, 0.053))
        step.publish_s = float(rng.lognormal(1.9, 0.2))
        trained_at = self.now + step.logprob_s + step.update_s
        if step.index in self._crashes:
            self._crashes.discard(step.index)
            self._at(self.now + step.logprob_s + 0.6 * step.update_s, self._crash)
        else:
            self._at(trained_at, self._trained)
            self._at(trained_at + step.publish_s, self._published)
        self._admit()

    def _trained(self) -> None:
        self._step.status = "publishing"

    def _published(self) -> None:
        step, stage = self._step, self.stages[3]
        is_broken = step.index + 1 in self._crashes and len(self._crashes) == 2 - (
            self.shape.num_resumes < 3
        )
        step.published_version = self._publish(step.index)
        step.status, step.finished_at = "done", self.now
        stage.num_steps_done = step.index
        step.trained = step_metrics.trained(self.rng, self.shape, step, is_broken=is_broken)
        step.metrics = step.trained | step_metrics.rolled_out(step, self._completed_at)
        for name in ("wait", "logprob", "update", "publish"):
            step.metrics[f"time/{name}_s"] = getattr(step, f"{name}_s")
        for name, value in step.metrics.items():
            self._point(name, step.index, value)
        if step.index % self.shape.checkpoint_every == 0 or step.index == stage.num_steps:
            self._checkpoint(stage, step.index)
        if stage.num_steps_done < stage.num_steps:
            self._step = self._begin_step()
            self._admit()
            self._try_step()

    def _publish(self, step: int, copies: int | None = None) -> int:
        version = len(self.versions)
        self.versions.append(
            VersionPlan(version, self.version, self.resume, step, self.now, copies)
        )
        self._published_at.append(self.now)
        self.version = version
        return version

    def _checkpoint(self, stage: StagePlan, step: int) -> None:
        self.checkpoints.append(
            CheckpointPlan(stage, step, self.resume, self.version, self.now + 4)
        )
        kept = [c for c in self.checkpoints if c.stage is stage and c.status == "complete"]
        for checkpoint in kept[:-3]:
            checkpoint.status = "pruned"

    def _drop_stale(self) -> None:
        distances = self.lineage()
        dropped: dict[str, int] = {}
        for group in self.stages[3].groups:
            if not group.is_live:
                continue
            versions: set[int] = set()
            for member in group.members:
                last = member.last
                if member.status != "open" and last.version_min is not None:
                    assert last.version_max is not None
                    versions.update(range(last.version_min, last.version_max + 1))
            if group.status == "open":
                versions.add(group.opened_version)
            if any(version not in distances for version in versions):
                reason = "superseded"
            elif any(distances[v] > self.shape.hard_staleness for v in versions):
                reason = "stale"
            else:
                continue
            self._drop(group, reason)
            dropped[reason] = dropped.get(reason, 0) + 1
        why = {
            "stale": "their oldest tokens are past the hard staleness bound",
            "superseded": "weights of superseded steps wrote some of their tokens",
        }
        for reason, num in dropped.items():
            groups = "1 group was" if num == 1 else f"{num} groups were"
            self._say(f"groups_{reason}", f"{groups} dropped: {why[reason]}.", "warning")
        if dropped:
            self._admit()

    def lineage(self) -> dict[int, int]:
        """The present weights and their ancestors, by distance."""
        distances: dict[int, int] = {}
        version: int | None = self.version
        while version is not None:
            distances[version] = len(distances)
            version = self.versions[version].parent
        return distances

    # what goes wrong

    def _pause(self) -> None:
        if self._is_down or self._is_paused:
            return
        reason = ("the registry is being moved", "a look at the reward of step 100")[
            len(self.pauses) % 2
        ]
        length = float(self.rng.uniform(200, 420))
        self._is_paused = True
        self.pauses.append((self.now, self.now + length))
        self._say("run_paused", f"maria paused the run: {reason}")
        self._at(self.now + length, self._unpause)

    def _unpause(self) -> None:
        self._is_paused = False
        self._say("run_unpaused", "maria let the run go on.")
        self._admit()
        self._try_step()

    def _lose_engines(self) -> None:
        """Four engines of the last node are gone: what runs there fails, and others take over."""
        gone = self.engines[-4:]
        lost = {engine.index for engine in gone}
        for engine in gone:
            engine.lost_at = self.now
            self._say(
                "engine_lost",
                f"Engine {engine.index} is lost: no heartbeat for 30 s.",
                "error",
            )
        for attempt in [a for a in self._in_flight if a.engine in lost]:
            if attempt.started_at is not None and attempt.started_at <= self.now:
                attempt.fault = ENGINE_LOST
                self._end(attempt)
        for index in sorted(lost):
            up_at = self.now + 95 + index
            self.engines.append(EnginePlan(index, up_at))
            self._engine_is_up(index, up_at)

    def url_of(self, engine: int) -> str:
        return f"http://demo-inference-{engine // ENGINES_A_NODE + 1}:{30000 + engine % 8}"

    def _engine_is_up(self, index: int, when: float) -> None:
        text = f"Engine {index} is up at {self.url_of(index)}."
        self.sentences.append(Sentence(when, "engine_started", text))
        text = f"Engine {index} serves weight version {self.version}."
        self.sentences.append(Sentence(when + 21, "engine_serving", text))

    def _crash(self) -> None:
        causes = (
            "The trainer's process died: exit code 137.",
            "The trainer's process died: NCCL watchdog timed out after 600 s.",
            "Node demo-trainer-1 stopped answering.",
        )
        self._is_down = True
        self._say(
            "trainer_lost",
            f"{causes[self.resume % 3]} Resuming stage rl-training from its last checkpoint "
            f"({self.resume + 1} of 3 automatic resumes).",
            "warning",
        )
        self._at(self.now + float(self.rng.uniform(240, 600)), self._roll_back)

    def _roll_back(self) -> None:
        stage = self.stages[3]
        self.resume += 1
        self._is_down = False
        kept = [c for c in self.checkpoints if c.stage is stage and c.status == "complete"]
        kept_step = kept[-1].step if kept else 0
        kept_version = kept[-1].version if kept else stage.weight_version
        self._free_groups(self._step)
        self._step.status, self._step.finished_at = "failed", self.now
        superseded = [s for s in stage.steps if s.status == "done" and s.index > kept_step]
        stage.num_steps_done = kept_step
        for step in superseded:
            self._free_groups(step)
            step.status = "superseded"
        self.version = kept_version
        version = self._publish(kept_step, copies=kept_version)
        before = sum(g.status == "dropped" for g in stage.groups)
        self._drop_stale()
        num_dropped = sum(g.status == "dropped" for g in stage.groups) - before
        self._say(
            "rolled_back",
            f"Trainer life {self.resume} goes on from the checkpoint of step {kept_step} as weight version "
            f"{version}: {len(superseded)} steps are superseded, {num_dropped} groups dropped.",
            "warning",
        )
        self._step = self._begin_step()
        self._admit()
        self._try_step()

    def _free_groups(self, step: StepPlan) -> None:
        for group in step.groups:
            if group.status == "consumed" and group.step is step:
                group.status, group.step, group.finished_at = "ready", None, None

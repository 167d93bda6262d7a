"""A plan becomes rows: in bulk, in the order of time, each as the services would have left it."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from django.db import connection

from controlplane.accounts.models import Project
from controlplane.blobs import BlobStore
from runs.demo_data.behaviour import PROMPT_TOKENS
from runs.demo_data.faults import evidence_of
from runs.demo_data.plan import (
    ENGINES_A_NODE,
    SLOTS_A_WORKER,
    AttemptPlan,
    GroupPlan,
    MemberPlan,
    Plan,
    StagePlan,
    StepPlan,
    output_tokens,
)
from runs.demo_data.repositories import DemoTask, grade_of, patch_of, tasks_of
from runs.demo_data.shape import NUM_HELD_OUT_TASKS, NUM_TRAIN_TASKS, Shape
from runs.demo_data.tokens import Encode, arrays_of, blob_name, trainer_logprobs
from runs.demo_data.turns import turns_of
from runs.models import (
    Attempt,
    Checkpoint,
    Consumption,
    Engine,
    Event,
    Group,
    MetricPoint,
    Node,
    Run,
    Stage,
    Step,
    Task,
    Trajectory,
    WeightVersion,
    Worker,
)
from runs.recipe import load
from runs.services.evaluations import compared, evaluate, sentence_of
from runs.services.steps import storable_metrics
from runs.services.turns import COPY_TURNS, TurnValues
from sandboxes.failures import Failure as Raised
from sandboxes.models import Failure, FailureGroup, Sandbox
from workers.rl.arrays import encode

NODE_PREFIX = "demo-"
BATCH = 2_000
KEPT_VERSIONS = 5
MODEL_BYTES = 61_064_245_248
CHECKPOINT_BYTES = 3 * MODEL_BYTES
LEVELS = {"docker": "docker", "e2b": "microvm"}

Say = Callable[[str], None]


@dataclass(frozen=True)
class TokenStore:
    """Where token blobs go, and the vocabulary that they are written in."""

    store: BlobStore
    encode: Encode


class Writer:
    """Writes one run. began: when the run did, in real time."""

    def __init__(
        self,
        project: Project,
        shape: Shape,
        plan: Plan,
        *,
        source: str,
        began: datetime,
        seed: int,
        say: Say,
        tokens: TokenStore | None,
    ) -> None:
        self.project, self.shape, self.plan, self.source = project, shape, plan, source
        self.tokens = tokens
        self.began, self.seed, self.say = began, seed, say
        self.tasks = {
            "train": tasks_of("train", NUM_TRAIN_TASKS),
            "held_out": tasks_of("held_out", NUM_HELD_OUT_TASKS),
        }

    def write(self, task_rows: dict[str, list[Task]], cloned_from: Run | None) -> Run:
        self.task_rows = task_rows
        self.run = self._run(cloned_from)
        self._stages()
        self._machines()
        self._versions()
        self._steps()
        self._groups()
        self._attempts()
        self._sandboxes_and_failures()
        self._results()
        self._curves()
        self._feed()
        self._turns()
        return self.run

    def at(self, seconds: float | None) -> datetime | None:
        return None if seconds is None else self.began + timedelta(seconds=seconds)

    def when(self, seconds: float) -> datetime:
        return self.began + timedelta(seconds=seconds)

    def task_of(self, group: GroupPlan) -> DemoTask:
        return self.tasks["train" if group.stage.kind == "rl" else "held_out"][group.task]

    def task_row(self, group: GroupPlan) -> Task:
        return self.task_rows["train" if group.stage.kind == "rl" else "held_out"][group.task]

    def _run(self, cloned_from: Run | None) -> Run:
        recipe = load(self.source)
        plan = self.plan
        busy_s = sum(
            a.finished_at - a.started_at for a in plan.attempts if a.started_at and a.finished_at
        )
        return Run.objects.create(
            project=self.project,
            name=self.shape.name,
            status=Run.Status.SUCCEEDED,
            recipe=recipe.model_dump(mode="json"),
            recipe_source=self.source,
            seed=recipe.seed,
            stop_reason="All stages succeeded.",
            resume=plan.resume,
            weight_version=plan.version,
            next_version=len(plan.versions),
            num_auto_resumes=plan.resume,
            is_demo=True,
            cloned_from=cloned_from,
            created_at=self.began,
            started_at=self.when(2.0),
            finished_at=self.when(plan.finished_at),
            cpu_s=round(0.31 * busy_s),
        )

    def _stages(self) -> None:
        rows = Stage.objects.bulk_create(
            Stage(
                run=self.run,
                index=stage.index,
                kind=stage.kind,
                name=stage.name,
                status=Stage.Status.SUCCEEDED,
                weight_version=stage.weight_version,
                next_group_index=stage.num_opened,
                num_steps=stage.num_steps,
                num_steps_done=stage.num_steps_done,
                progress=self._progress(stage),
                lease_token=None if stage.kind == "eval" else uuid.UUID(int=stage.index + 1),
                started_at=self.when(stage.started_at),
                finished_at=self.when(stage.finished_at),
            )
            for stage in self.plan.stages
        )
        self.stage_rows = {
            stage.index: row for stage, row in zip(self.plan.stages, rows, strict=True)
        }

    def _progress(self, stage: StagePlan) -> dict[str, float]:
        if stage.kind != "sft":
            return {}
        losses = [p.value for p in self.plan.points if p.name == "sft/loss"]
        num = self.shape.sft_steps
        return {"step": num, "num_steps": num, "loss": losses[-1]}

    def _machines(self) -> None:
        """Nodes, workers and engines: all of them are gone by now."""
        ended = self.when(self.plan.finished_at + 12)
        names = [
            *(f"inference-{n + 1}" for n in range(-(-self.shape.num_engines // ENGINES_A_NODE))),
            "trainer-1",
            "agents-1",
        ]
        nodes = {}
        for name in names:
            nodes[name], _ = Node.objects.get_or_create(
                hostname=NODE_PREFIX + name,
                defaults={
                    "num_cpus": 192 if "inference" in name else 128,
                    "memory_bytes": 2_304 * 2**30,
                    "first_seen_at": self.began,
                    "last_seen_at": ended,
                },
            )
            Node.objects.filter(pk=nodes[name].pk, last_seen_at__lt=ended).update(
                last_seen_at=ended
            )
        num = -(-self.shape.max_in_flight // SLOTS_A_WORKER)
        plans = [
            ("agents-1", Worker.Kind.ROLLOUT, f"rollout{n + 1}", SLOTS_A_WORKER) for n in range(num)
        ]
        plans += [(name, Worker.Kind.ENGINE, "engine", 8) for name in names if "inference" in name]
        plans += [("trainer-1", Worker.Kind.TRAIN, "train", 1)] * (1 + self.plan.resume)
        workers = Worker.objects.bulk_create(
            Worker(
                node=nodes[node],
                name=f"{NODE_PREFIX}{name}",
                boot_id=f"{NODE_PREFIX}{self.run.pk}-{place}",
                kind=kind,
                status=Worker.Status.GONE,
                pid=2_000 + place,
                num_slots=slots,
                capabilities=self._capabilities() if kind == Worker.Kind.ROLLOUT else {},
                started_at=self.when(1.0),
                last_seen_at=ended,
            )
            for place, (node, kind, name, slots) in enumerate(plans)
        )
        trainers = workers[-(1 + self.plan.resume) :]
        lost = [s.at for s in self.plan.sentences if s.kind == "trainer_lost"]
        for worker, died_at in zip(trainers, lost, strict=False):
            worker.status, worker.last_seen_at = Worker.Status.LOST, self.when(died_at)
        Worker.objects.bulk_update(trainers, ["status", "last_seen_at"])
        self.rollout_workers = workers[:num]
        self.engine_rows = self._engines(workers[num:], ended)

    def _capabilities(self) -> dict[str, object]:
        return {"driver": "e2b", "level": "microvm", "features": {"snapshots": True}, "missing": []}

    def _engines(self, workers: list[Worker], ended: datetime) -> dict[int, list[Engine]]:
        rng = np.random.default_rng([self.seed, 5])
        rows = []
        for engine in self.plan.engines:
            is_lost = engine.lost_at is not None
            end = engine.lost_at if engine.lost_at is not None else self.plan.finished_at
            used = int(rng.uniform(0.04, 0.23) * 1_500_000)
            rows.append(
                Engine(
                    run=self.run,
                    index=engine.index,
                    status=Engine.Status.LOST if is_lost else Engine.Status.GONE,
                    url=f"http://demo-inference-{engine.index // ENGINES_A_NODE + 1}:{30000 + engine.index % 8}",
                    boot_id=f"{NODE_PREFIX}{engine.index}",
                    weight_version=self.plan.version_at(end),
                    worker=workers[engine.index // ENGINES_A_NODE],
                    load={
                        "running": 0,
                        "queued": 0,
                        "token_usage": round(used / 1_500_000, 4),
                        "used_tokens": used,
                        "max_tokens": 1_500_000,
                        "gen_throughput": round(float(rng.uniform(900, 1_500)), 1),
                        "cache_hit_rate": round(float(rng.uniform(0.93, 0.975)), 4),
                        "max_running": 16,
                        "longest_tokens": int(rng.uniform(41_000, 64_800)),
                    },
                    failure_message="no heartbeat for 30 s; its node answers no ping"
                    if is_lost
                    else "",
                    created_at=self.when(engine.started_at - 6),
                    started_at=self.when(engine.started_at),
                    synced_at=self.when(engine.started_at + 21),
                    finished_at=self.when(end) if is_lost else ended,
                )
            )
        found: dict[int, list[Engine]] = defaultdict(list)
        for row in Engine.objects.bulk_create(rows):
            found[row.index].append(row)
        return found

    def _engine_of(self, attempt: AttemptPlan) -> Engine | None:
        if attempt.started_at is None:
            return None
        options = self.engine_rows[attempt.engine]
        started = self.when(attempt.started_at)
        return next(
            (e for e in reversed(options) if e.started_at and e.started_at <= started), options[0]
        )

    def _versions(self) -> None:
        plan, folder = self.plan, f"p{self.project.pk}/runs/{self.run.pk}"
        wanted = {c.version for c in plan.checkpoints if c.status == "complete"}
        wanted |= {stage.weight_version for stage in plan.stages}
        newest = len(plan.versions) - KEPT_VERSIONS
        WeightVersion.objects.bulk_create(
            WeightVersion(
                run=self.run,
                version=v.version,
                parent_version=v.parent,
                resume=v.resume,
                step=v.step,
                blob=f"{folder}/weights/demo-{v.version if v.copies is None else v.copies}",
                published_at=self.when(v.at),
                pruned_at=None
                if v.version >= newest or v.version in wanted
                else self.when(v.at + 1_200),
            )
            for v in plan.versions[1:]
        )
        Checkpoint.objects.bulk_create(
            Checkpoint(
                run=self.run,
                stage=self.stage_rows[c.stage.index],
                step=c.step,
                resume=c.resume,
                weight_version=c.version,
                status=c.status,
                blob=f"{folder}/checkpoints/demo-{c.resume}-{c.step}",
                num_bytes=CHECKPOINT_BYTES + 4_096 * c.step,
                created_at=self.when(c.at),
            )
            for c in plan.checkpoints
        )

    def _steps(self) -> None:
        plans = self.plan.stages[3].steps
        rows = Step.objects.bulk_create(
            Step(
                run=self.run,
                stage=self.stage_rows[3],
                index=step.index,
                resume=step.resume,
                status=step.status,
                trained_version=step.trained_version,
                published_version=step.published_version,
                num_groups=len(step.groups),
                num_trajectories=len(step.consumed),
                reward_mean=step.reward_mean,
                wait_s=step.wait_s,
                logprob_s=step.logprob_s if step.finished_at and step.status != "failed" else 0.0,
                update_s=step.update_s if step.finished_at and step.status != "failed" else 0.0,
                publish_s=step.publish_s if step.published_version is not None else 0.0,
                metrics=storable_metrics(step.trained),
                started_at=self.when(step.started_at),
                finished_at=self.at(step.finished_at),
            )
            for step in plans
        )
        self.step_rows: dict[StepPlan, Step] = dict(zip(plans, rows, strict=True))

    def _groups(self) -> None:
        groups = sorted(
            (g for stage in self.plan.stages for g in stage.groups), key=lambda g: g.opened_at
        )
        rows = Group.objects.bulk_create(
            (
                Group(
                    run=self.run,
                    stage=self.stage_rows[g.stage.index],
                    task=self.task_row(g),
                    index=g.index,
                    status=g.status,
                    drop_reason=g.drop_reason,
                    resume=g.resume,
                    opened_version=g.opened_version,
                    oldest_version=g.oldest_version,
                    num_members=len(g.members),
                    num_ended=g.num_ended,
                    num_valid=g.num_valid,
                    reward_mean=g.reward_mean,
                    reward_std=g.reward_std,
                    step=self.step_rows[g.step] if g.step else None,
                    opened_at=self.when(g.opened_at),
                    ready_at=self.at(g.ready_at),
                    finished_at=self.at(g.finished_at),
                )
                for g in groups
            ),
            batch_size=BATCH,
        )
        members = [m for g in groups for m in g.members]
        row_of = dict(zip(groups, rows, strict=True))
        made = Trajectory.objects.bulk_create(
            (self._trajectory(m, row_of[m.group]) for m in members), batch_size=BATCH
        )
        self.member_rows: dict[MemberPlan, Trajectory] = dict(zip(members, made, strict=True))
        Consumption.objects.bulk_create(
            (
                Consumption(
                    step=row,
                    trajectory=self.member_rows[member],
                    logprobs=self._logprobs_key(member.last, step),
                )
                for step, row in self.step_rows.items()
                for member in step.consumed
            ),
            batch_size=BATCH,
        )
        self.say(f"{len(rows)} groups, {len(made)} trajectories")

    def _blob_key(self, attempt: AttemptPlan) -> str:
        """Only the last step's attempts keep their tokens."""
        member = attempt.member
        if self.tokens is None or attempt.status != "completed":
            return ""
        if member.group.step is not self.plan.stages[3].steps[-1]:
            return ""
        name = blob_name(member.group.stage.index, member.group.index, member.index, attempt.number)
        return f"p{self.project.pk}/runs/{self.run.pk}/attempts/{name}"

    def _logprobs_key(self, attempt: AttemptPlan, step: StepPlan) -> str:
        key = self._blob_key(attempt)
        return f"{key}.logprobs-{self.step_rows[step].pk}" if key else ""

    def _trajectory(self, member: MemberPlan, group: Group) -> Trajectory:
        last = member.last
        return Trajectory(
            run=self.run,
            stage=self.stage_rows[member.group.stage.index],
            group=group,
            task_id=group.task_id,
            index=member.index,
            status=member.status,
            num_attempts=len(member.attempts),
            reward=member.reward,
            advantage=member.advantage,
            stop_reason=_stop_reason(last),
            num_turns=last.num_turns,
            prompt_tokens=_prompt_tokens(last),
            output_tokens=output_tokens(last),
            version_min=last.version_min,
            version_max=last.version_max,
            created_at=self.when(member.created_at),
            finished_at=self.at(member.finished_at),
        )

    def _attempts(self) -> None:
        plans = sorted(
            self.plan.attempts, key=lambda a: (a.created_at, self.member_rows[a.member].pk)
        )
        rows = Attempt.objects.bulk_create(
            (self._attempt(place, attempt) for place, attempt in enumerate(plans)), batch_size=BATCH
        )
        self.attempt_rows: dict[AttemptPlan, Attempt] = dict(zip(plans, rows, strict=True))
        self.say(f"{len(rows)} attempts")

    def _attempt(self, place: int, attempt: AttemptPlan) -> Attempt:
        member = attempt.member
        task, fault = self.task_of(member.group), attempt.fault
        is_completed, is_failed = attempt.status == "completed", attempt.status == "failed"
        variant = member.group.index * 31 + member.index * 7 + attempt.number
        timings = attempt.timings()
        has_patch = is_completed or (fault is not None and fault.at == (1.0, 1.0))
        return Attempt(
            trajectory=self.member_rows[member],
            run=self.run,
            stage=self.stage_rows[member.group.stage.index],
            number=attempt.number,
            status=attempt.status,
            not_before=self.at(attempt.not_before),
            dispatched_at=self.at(attempt.started_at),
            worker=self.rollout_workers[place % len(self.rollout_workers)]
            if attempt.started_at is not None
            else None,
            engine=self._engine_of(attempt),
            cancel_reason=attempt.cancel_reason if attempt.status == "cancelled" else "",
            stop_reason=_stop_reason(attempt),
            reward=member.reward if is_completed else None,
            is_attributed_to_policy=attempt.is_attributed,
            failure_stage=str(fault.stage) if fault and is_failed else "",
            failure_class=str(fault.kind) if fault and is_failed else "",
            failure_message=fault.message.format(**self._values(attempt))
            if fault and is_failed
            else "",
            is_suspect=attempt.is_suspect,
            blob=self._blob_key(attempt),
            num_turns=attempt.num_turns,
            prompt_tokens=_prompt_tokens(attempt),
            output_tokens=output_tokens(attempt),
            version_min=attempt.version_min,
            version_max=attempt.version_max,
            timings=timings,
            patch=patch_of(task, is_solved=member.reward == 1, variant=variant)
            if has_patch
            else "",
            num_llm_errors=attempt.num_llm_errors,
            grade=grade_of(
                task,
                is_solved=member.reward == 1,
                is_attributed=attempt.is_attributed,
                variant=variant,
                duration_s=timings.get("verify", 0.0),
            )
            if is_completed
            else {},
            created_at=self.when(attempt.created_at),
            started_at=self.at(attempt.started_at),
            finished_at=self.at(attempt.finished_at),
        )

    def _values(self, attempt: AttemptPlan) -> dict[str, str]:
        group = attempt.member.group
        number = group.stage.index * 10**7 + group.index * 10**3 + attempt.member.index * 10
        return {
            "id": f"i{number + attempt.number:012x}",
            "repository": self.task_of(group).repository.package,
            "engine": str(attempt.engine),
        }

    def _sandboxes_and_failures(self) -> None:
        boxes, failures = [], []
        for attempt, row in self.attempt_rows.items():
            if attempt.started_at is None or attempt.finished_at is None:
                continue
            boxes.append(self._sandbox(attempt, row))
            if attempt.fault is not None and attempt.status in ("failed", "completed"):
                failures.append((attempt, row))
        Sandbox.objects.bulk_create(boxes, batch_size=BATCH)
        self._failures(failures)
        self.say(f"{len(boxes)} sandboxes, {len(failures)} failures")

    def _sandbox(self, attempt: AttemptPlan, row: Attempt) -> Sandbox:
        assert attempt.started_at is not None
        assert attempt.finished_at is not None
        b, timings = attempt.behaviour, dict(attempt.timings())
        admit = timings.pop("queue", 0.0)
        is_early = attempt.fault is not None and attempt.fault.at == (0.0, 0.0)
        is_broken = is_early or (
            attempt.fault is not None and attempt.fault.kind in ("lost", "oom")
        )
        if attempt.driver == "docker":
            timings["image"] = round(0.3 * timings.get("start", 0.0), 3)
            timings["start"] = round(0.7 * timings.get("start", 0.0), 3)
        return Sandbox(
            project=self.project,
            key=f"demo-{row.pk}",
            driver=attempt.driver,
            level=LEVELS[attempt.driver],
            status=Sandbox.Status.FAILED if is_broken else Sandbox.Status.GONE,
            attempt_id=row.pk,
            run_id=self.run.pk,
            worker=row.worker.name if row.worker else "",
            created_at=self.when(attempt.started_at),
            ready_at=None if is_early else self.when(attempt.started_at + b.start_s),
            finished_at=self.when(attempt.finished_at + b.teardown_s),
            timings={"admit": min(admit, 5.0), **timings},
        )

    def _failures(self, found: list[tuple[AttemptPlan, Attempt]]) -> None:
        raised, rows = [], []
        for attempt, row in found:
            fault = attempt.fault
            assert fault is not None
            values = self._values(attempt)
            failure = Raised(
                fault.stage,
                fault.kind,
                fault.message.format(**values),
                by_policy=attempt.is_suspect,
                evidence=evidence_of(fault, values),
            )
            raised.append((failure, attempt, row))
        groups = failure_groups(
            self.project, [(f, self.when(a.finished_at or 0)) for f, a, _ in raised]
        )
        for failure, attempt, row in raised:
            rows.append(
                Failure(
                    project=self.project,
                    group=groups[failure.fingerprint],
                    stage=failure.stage,
                    kind=failure.kind,
                    message=failure.message,
                    attempt_id=row.pk,
                    run_id=self.run.pk,
                    host=f"{NODE_PREFIX}agents-1"
                    if failure.stage != "infer"
                    else f"{NODE_PREFIX}inference-{attempt.engine // ENGINES_A_NODE + 1}",
                    engine=f"engine {attempt.engine}" if failure.stage == "infer" else "",
                    driver=attempt.driver,
                    evidence=failure.evidence,
                    is_by_policy=failure.by_policy,
                    at=self.when(attempt.finished_at or 0),
                )
            )
        rows.sort(key=lambda failure: failure.at)
        Failure.objects.bulk_create(rows, batch_size=BATCH)

    def _results(self) -> None:
        """Evaluations by the function that production uses."""
        before: Stage | None = None
        self.result_sentences = {}
        for stage in self.plan.stages:
            if stage.kind != "eval":
                continue
            rewards = {
                self.task_of(g).key: [m.reward for m in g.members]
                for g in sorted(stage.groups, key=lambda g: self.task_of(g).key)
            }
            row = self.stage_rows[stage.index]
            row.result = compared(evaluate(rewards), before)
            row.save(update_fields=["result"])
            self.result_sentences[stage.index] = sentence_of(stage.name, row.result)
            before = row

    def _curves(self) -> None:
        MetricPoint.objects.bulk_create(
            (
                MetricPoint(
                    run=self.run,
                    name=p.name,
                    resume=p.resume,
                    step=p.step,
                    value=p.value,
                    at=self.when(p.at),
                )
                for p in self.plan.points
            ),
            batch_size=BATCH,
        )

    def _feed(self) -> None:
        train = self.tasks["train"]
        found = [(s.at, s.level, s.kind, s.text, s.data) for s in self.plan.sentences]
        for stage in self.plan.stages:
            if stage.kind == "eval":
                text = self.result_sentences[stage.index]
                found.append((stage.finished_at, "info", "stage_succeeded", text, {}))
        found.sort(key=lambda line: line[0])
        Event.objects.bulk_create(
            Event(
                run=self.run,
                at=self.when(at),
                level=level,
                kind=kind,
                sentence=text if "task" not in data else text.format(task=train[data["task"]].key),
                data=data,
            )
            for at, level, kind, text, data in found
        )

    def _turns(self) -> None:
        """By the COPY that workers' turns are written by."""
        num, told = 0, 0
        with connection.cursor() as cursor, cursor.copy(COPY_TURNS) as copy:
            for attempt, row in self.attempt_rows.items():
                task = self.task_of(attempt.member.group)
                turns = list(turns_of(self.plan, attempt, task, self.began, self.seed))
                for turn in turns:
                    copy.write_row((row.pk, *turn))
                if row.blob:
                    self._store_tokens(attempt, row, task, turns)
                num += len(turns)
                if num - told >= 100_000:
                    told = num
                    self.say(f"{num} turns ...")
        self.say(f"{num} turns")

    def _store_tokens(
        self, attempt: AttemptPlan, row: Attempt, task: DemoTask, turns: list[TurnValues]
    ) -> None:
        assert self.tokens is not None
        rng = np.random.default_rng([self.seed, attempt.member.group.index, attempt.member.index])
        arrays = arrays_of(self.tokens.encode, task.instruction, turns, rng)
        self.tokens.store.put(row.blob, encode(arrays))
        step = self.plan.stages[3].steps[-1]
        prox = trainer_logprobs(arrays, rng)
        self.tokens.store.put(self._logprobs_key(attempt, step), prox.tobytes())


def _stop_reason(attempt: AttemptPlan) -> str:
    if attempt.is_attributed:
        return "broke_sandbox"
    is_whole = attempt.fault is not None and attempt.fault.at == (1.0, 1.0)
    if attempt.status == "completed" or (attempt.status == "failed" and is_whole):
        return attempt.behaviour.stop_reason
    return ""


def _prompt_tokens(attempt: AttemptPlan) -> int:
    """Over all calls, as the transcript counts: each call's whole prompt."""
    num, b = attempt.num_turns, attempt.behaviour
    grown = np.cumsum(b.output_tokens[:num] + b.observation_tokens[:num])
    return int(num * PROMPT_TOKENS + (grown[:-1].sum() if num else 0))


def failure_groups(
    project: Project, failures: list[tuple[Raised, datetime]]
) -> dict[str, FailureGroup]:
    """By fingerprint, the groups of these failures, counted in."""
    counts = Counter(failure.fingerprint for failure, _ in failures)
    times: dict[str, list[datetime]] = defaultdict(list)
    first: dict[str, Raised] = {}
    for failure, at in failures:
        times[failure.fingerprint].append(at)
        first.setdefault(failure.fingerprint, failure)
    known = {
        g.fingerprint: g
        for g in FailureGroup.objects.filter(project=project, fingerprint__in=list(counts))
    }
    for fingerprint, failure in first.items():
        if fingerprint not in known:
            known[fingerprint] = FailureGroup.objects.create(
                project=project,
                fingerprint=fingerprint,
                stage=failure.stage,
                kind=failure.kind,
                message=failure.message,
                first_at=min(times[fingerprint]),
                last_at=max(times[fingerprint]),
            )
        group = known[fingerprint]
        group.num_failures += counts[fingerprint]
        group.first_at = min(group.first_at, *times[fingerprint])
        group.last_at = max(group.last_at, *times[fingerprint])
    FailureGroup.objects.bulk_update(known.values(), ["num_failures", "first_at", "last_at"])
    return known

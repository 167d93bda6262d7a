"""A plan becomes rows: in bulk, in the order of time, each as the services would have left it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from django.db import connection

from controlplane.blobs import BlobStore
from runs.demo_data.behaviour import PROMPT_TOKENS
from runs.demo_data.context import BATCH, Context
from runs.demo_data.failure_rows import values_of, write_sandboxes
from runs.demo_data.fleet_rows import write_machines
from runs.demo_data.records import (
    AttemptPlan,
    GroupPlan,
    MemberPlan,
    StagePlan,
    StepPlan,
    output_tokens,
)
from runs.demo_data.repositories import DemoTask, grade_of, patch_of, tasks_of
from runs.demo_data.shape import NUM_TRAIN_TASKS
from runs.demo_data.tokens import Encode, arrays_of, blob_name, trainer_logprobs
from runs.demo_data.turns import turns_of
from runs.models import (
    Attempt,
    Checkpoint,
    Consumption,
    Event,
    Group,
    MetricPoint,
    Run,
    Stage,
    Step,
    Task,
    Trajectory,
    WeightVersion,
)
from runs.recipe import load
from runs.services.evaluations import compared, evaluate, sentence_of
from runs.services.steps import storable_metrics
from runs.services.turns import COPY_TURNS, TurnValues
from workers.rl.arrays import encode

KEPT_VERSIONS = 5
MODEL_BYTES = 61_064_245_248
CHECKPOINT_BYTES = 3 * MODEL_BYTES

Say = Callable[[str], None]


@dataclass(frozen=True)
class TokenStore:
    """Where token blobs go, and the vocabulary that they are written in."""

    store: BlobStore
    encode: Encode


class Writer:
    """Writes one run, table by table."""

    def __init__(
        self, context: Context, *, source: str, tokens: TokenStore | None, say: Say
    ) -> None:
        self.context, self.source, self.tokens, self.say = context, source, tokens, say
        self.project, self.shape, self.plan = context.project, context.shape, context.plan
        self.at, self.when, self.task_of = context.at, context.when, context.task_of

    def write(self, task_rows: dict[str, list[Task]], cloned_from: Run | None) -> Run:
        self.task_rows = task_rows
        self.run = self._run(cloned_from)
        self._stages()
        self.machines = write_machines(self.context, self.run)
        self._versions()
        self._steps()
        self._groups()
        self._attempts()
        num = write_sandboxes(self.context, self.attempt_rows)
        self.say(f"{num} failures")
        self._results()
        self._curves()
        self._feed()
        self._turns()
        return self.run

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
            created_at=self.context.began,
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
            worker=self.machines.rollout_workers[place % len(self.machines.rollout_workers)]
            if attempt.started_at is not None
            else None,
            engine=self.machines.engine_of(attempt),
            cancel_reason=attempt.cancel_reason if attempt.status == "cancelled" else "",
            stop_reason=_stop_reason(attempt),
            reward=member.reward if is_completed else None,
            is_attributed_to_policy=attempt.is_attributed,
            failure_stage=str(fault.stage) if fault and is_failed else "",
            failure_class=str(fault.kind) if fault and is_failed else "",
            failure_message=fault.message.format(**values_of(self.context, attempt))
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
        train = tasks_of("train", NUM_TRAIN_TASKS)
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
                turns = list(
                    turns_of(self.plan, attempt, task, self.context.began, self.context.seed)
                )
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
        rng = np.random.default_rng(
            [self.context.seed, attempt.member.group.index, attempt.member.index]
        )
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

"""One Celery job per attempt: box, agent, grade, report.

    claim ─> box ─> running ─> run_trajectory ─> grading ─> grade ─> turns and blob durable ─> completed
      │        │                    │                          │
      │        └────── Failure ─────┴──────────────────────────┴──> failed (reward NULL), retried by budget
      └─ LeaseLost anywhere: the box ends, nothing is reported

Invariants
- No database connection is held across a model or sandbox call.
- A reward is reported only by `complete_attempt`, only with what `grade` returned.
- What is not a Failure is `unknown`: no reward (fails closed).
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from celery import shared_task
from django.db import DatabaseError, OperationalError
from django.utils import timezone

from controlplane.blobs import fresh_key
from controlplane.errors import LeaseLost
from runs import recipe as recipes
from runs.services import attempts
from runs.services.preflight import resolve_path
from runs.services.turns import TurnValues
from sandboxes.drivers.base import Sandbox, SandboxSpec
from sandboxes.failures import Failure, FailureClass, FailureStage
from sandboxes.models import Sandbox as SandboxRow
from sandboxes.services import record_sandbox
from workers.agent.errors import Cancelled
from workers.agent.grading import Grade, grade, restore
from workers.agent.loop import AgentLimits, AgentTask, run_trajectory
from workers.agent.patch import Patch, note, patch_of
from workers.agent.tools import ObservationPolicy
from workers.agent.transcript import Transcript, TurnRecord
from workers.engines.chat import Chat, load_chat
from workers.engines.client import EngineClient
from workers.jobs.runtime import Lease, Runtime, database, runtime
from workers.jobs.task_files import TaskFiles
from workers.rl.arrays import encode

log = logging.getLogger(__name__)

RETRY_S = 1.0
MAX_CHANGES_BYTES = 8 * 2**20
MAX_GRADE_OUTPUT_CHARS = 20_000
BEFORE_THE_AGENT = (FailureStage.IMAGE, FailureStage.START, FailureStage.SETUP)
ABORT_CONNECTIONS = 4  # while every slot generates, a cancel must still reach the engine


@shared_task(ignore_result=True)
def run_attempt(attempt_id: int) -> None:
    """Claim the attempt and see it to its end; a copy of the message does nothing."""
    process = runtime()
    assignment = database(
        lambda: attempts.claim_attempt(attempt_id, process.row.pk, now=timezone.now())
    )
    if assignment is None:
        return
    lease = Lease(attempt_id, assignment.token)
    process.hold(lease)
    try:
        _Attempt(process, assignment, lease).run()
    except LeaseLost:
        log.warning("attempt %s: the lease was lost; nothing is reported", attempt_id)
    except DatabaseError:
        log.exception("attempt %s: the report did not reach the database", attempt_id)
    finally:
        process.let_go(lease)
        process.recorder.forget(attempt_id)


@lru_cache(maxsize=8)
def chat_of(model_path: str) -> Chat:
    return load_chat(resolve_path(model_path))


@lru_cache(maxsize=64)
def client_of(url: str) -> EngineClient:
    return EngineClient(url, max_connections=runtime().num_slots + ABORT_CONNECTIONS)


@dataclass
class _Attempt:
    process: Runtime
    assignment: attempts.Assignment
    lease: Lease
    transcript: Transcript = field(default_factory=Transcript)
    timings: dict[str, float] = field(default_factory=dict)
    stop_reason: str = ""
    grade: dict[str, Any] = field(default_factory=dict)
    patch: Patch = field(default_factory=lambda: Patch(""))
    box: Sandbox | None = None
    is_known: bool = False
    """The box has a row that is not ended."""

    def __post_init__(self) -> None:
        self.recipe = self.assignment.recipe
        self.key = f"attempt-{self.assignment.attempt_id}"

    def run(self) -> None:
        """Every end is reported exactly once, after the box is gone and what was recorded is durable."""
        try:
            reward = self.live()
        except LeaseLost:
            self.end_box()
            raise
        except Cancelled:
            self.end_box()
            self.report_cancelled()
        except Exception as error:  # noqa: BLE001 - whatever it was, it is told and fails closed
            failure = self.failure_of(error)
            self.end_box(failed=failure.stage in BEFORE_THE_AGENT)
            if self.lease.flag():  # what failed because it was told to end did not fail
                self.report_cancelled()
            else:
                self.report_failed(failure)
        else:
            self.end_box()
            self.report_completed(reward)

    def failure_of(self, error: Exception) -> Failure:
        if isinstance(error, Failure):
            return error
        said = f"{type(error).__name__}: {error}"
        if isinstance(error, OperationalError):
            return Failure(FailureStage.INGEST, FailureClass.TRANSPORT, said)
        log.error("attempt %s failed in our own code", self.assignment.attempt_id, exc_info=error)
        return Failure(FailureStage.EXEC, FailureClass.UNKNOWN, said)

    def live(self) -> float:
        """The attempt's life in its box; returns the reward."""
        self.save_box(SandboxRow.Status.STARTING)
        self.is_known = True
        files = self.fetch()
        box = self.start_box(files)
        self.advance("running")
        plan = self.recipe.stages[self.assignment.stage_index]
        assert not isinstance(plan, recipes.SftStage)
        outcome = run_trajectory(
            AgentTask(self.key, self.assignment.task.instruction, self.recipe.agent.system),
            box,
            client_of(self.assignment.engine_url),
            chat_of(self.recipe.model.path),
            limits_of(self.recipe, plan.temperature),
            self.record,
            cancel=self.lease.flag,
            transcript=self.transcript,
        )
        self.stop_reason = outcome.stop_reason.value
        self.timings |= {"llm": outcome.llm_s, "exec": outcome.exec_s}
        self.advance("grading")
        verdict = self.verify(box, files)
        self.grade = {
            "details": dict(verdict.details),
            "output": verdict.output[:MAX_GRADE_OUTPUT_CHARS],
            "duration_s": verdict.duration_s,
        }
        return verdict.reward

    def fetch(self) -> TaskFiles:
        """The task's files on this machine: what an image is to other drivers."""
        began = time.monotonic()
        task = self.assignment.task
        files = self.process.task_cache.files(task.archive, task.digest)
        self.timings["image"] = time.monotonic() - began
        return files

    def start_box(self, files: TaskFiles) -> Sandbox:
        box: Sandbox = self.process.driver.start(self.spec(files, self.key))
        self.box = self.lease.box = box
        self.timings |= {name: box.timings.get(name, 0.0) for name in ("start", "setup")}
        self.save_box(SandboxRow.Status.LEASED, is_ready=True)
        return box

    def spec(self, files: TaskFiles, key: str) -> SandboxSpec:
        plan, times = self.recipe.sandbox, self.recipe.timeouts
        return SandboxSpec(
            key=key,
            template=files.workspace,
            setup=self.assignment.task.setup,
            memory_bytes=plan.memory_mb * 2**20,
            disk_bytes=plan.disk_mb * 2**20,
            max_processes=plan.max_processes,
            start_timeout_s=times.start_s,
            setup_timeout_s=times.setup_s,
            lifetime_s=plan.lifetime_s,
        )

    def verify(self, box: Sandbox, files: TaskFiles) -> Grade:
        """Grade the state the agent left; once more, from the saved changes in a fresh box, if the verifier
        itself broke down (domain.md: verify_infra, verify_timeout)."""
        task = self.assignment.task
        timeout_s = min(task.verify_timeout_s, self.recipe.timeouts.verify_s)
        began = time.monotonic()
        try:
            box.kill_processes()
            changes = box.changes(max_bytes=MAX_CHANGES_BYTES)
            self.patch = self.patch_of(changes, files)
            self.timings["collect"] = time.monotonic() - began
            try:
                return grade(box, files.tests, timeout_s, is_gold_verified=True)
            except Failure as first:
                if changes is None or first.kind is FailureClass.TASK_DEFECT:
                    raise
                return self.verify_again(files, changes, timeout_s, first)
        finally:
            took = time.monotonic() - began
            self.timings["verify"] = took - self.timings.get("collect", 0.0)

    def patch_of(self, changes: bytes | None, files: TaskFiles) -> Patch:
        """What people will read; whatever is wrong with it, the attempt goes on."""
        try:
            return patch_of(changes, files.workspace)
        except Exception as error:
            log.exception("%s: its patch could not be made", self.key)
            return note(f"The patch could not be made: {type(error).__name__}.")

    def verify_again(
        self, files: TaskFiles, changes: bytes, timeout_s: float, first: Failure
    ) -> Grade:
        """In a fresh box. A second breakdown is the agent's (reward 0) if the task's own solution verifies
        here within the limit; if that fails, too, the task or this machine is at fault."""
        try:
            with closing(self.process.driver.start(self.spec(files, f"{self.key}-again"))) as fresh:
                self.lease.box = fresh
                self.lease.flag.check()
                restore(fresh, changes)
                return grade(fresh, files.tests, timeout_s, is_gold_verified=True)
        except Failure as second:
            if not (first.by_policy and second.by_policy):
                raise
            self.check_gold(files, timeout_s, second)
            details = {"attributed": "policy", "first": str(first), "second": str(second)}
            return Grade(0.0, details)

    def check_gold(self, files: TaskFiles, timeout_s: float, second: Failure) -> None:
        """Raises Failure(verify, task_defect) unless the task's solution gets its reward in this driver."""
        if "solve.sh" not in files.solution:
            raise self.defect("it has no solution to compare with", second)
        try:
            with closing(self.process.driver.start(self.spec(files, f"{self.key}-gold"))) as box:
                self.lease.box = box
                self.lease.flag.check()
                box.write_files(files.solution, root="/tests")
                box.exec("bash /tests/solve.sh", timeout_s=timeout_s)
                gold = grade(box, files.tests, timeout_s)
        except Failure as failure:
            raise self.defect(
                f"its own solution does not verify here: {failure.message}", second
            ) from failure
        if gold.reward <= 0:
            raise self.defect("its own solution scores 0 here", second)

    def defect(self, sentence: str, cause: Failure) -> Failure:
        message = f"the verifier broke down ({cause.message}) and {sentence}"
        return Failure(
            FailureStage.VERIFY, FailureClass.TASK_DEFECT, message, evidence=cause.evidence
        )

    def record(self, turn: TurnRecord) -> None:
        a = self.assignment
        values = TurnValues(
            turn.index,
            datetime.fromtimestamp(turn.started_at, UTC),
            *(getattr(turn, name) for name in TurnValues._fields[2:]),
        )
        self.process.recorder.add(a.project_id, a.trajectory_id, a.attempt_id, a.token, values)

    def advance(self, status: str) -> None:
        self.lease.flag.check()
        database(
            lambda: attempts.advance_attempt(
                self.assignment.attempt_id, self.assignment.token, status
            )
        )

    def end_box(self, *, failed: bool = False) -> None:
        """Also the row of one that never started."""
        if not self.is_known:
            return
        if self.box is not None:
            began = time.monotonic()
            self.box.close()
            self.timings["teardown"] = time.monotonic() - began
        self.box = self.lease.box = None
        self.is_known = False
        self.save_box(SandboxRow.Status.FAILED if failed else SandboxRow.Status.GONE)

    def save_box(self, status: str, *, is_ready: bool = False) -> None:
        self.report(
            lambda: record_sandbox(
                self.assignment.project_id,
                key=self.key,
                driver=self.process.driver.name,
                level=self.process.capabilities["level"],
                status=status,
                attempt_id=self.assignment.attempt_id,
                run_id=self.assignment.run_id,
                worker=self.process.name,
                timings=self.timings,
                now=timezone.now(),
                is_ready=is_ready,
            )
        )

    def result(self) -> attempts.Result:
        """What is left of the attempt, made durable first: its turns, then its arrays."""
        if self.lease.is_lost:
            raise LeaseLost(f"{self.key} is no longer ours.")
        self.process.recorder.wait_durable(self.assignment.attempt_id)
        script, blob = self.transcript, ""
        arrays = script.arrays()
        if script.num_turns:
            blob = fresh_key(
                f"p{self.assignment.project_id}/runs/{self.assignment.run_id}/attempts"
            )
            self.process.store.put(blob, encode(arrays))
        sampled = arrays.versions[arrays.versions >= 0]
        return attempts.Result(
            blob=blob,
            stop_reason=self.stop_reason,
            num_turns=script.num_turns,
            prompt_tokens=script.prompt_tokens,
            output_tokens=script.output_tokens,
            version_min=int(sampled.min()) if sampled.size else None,
            version_max=int(sampled.max()) if sampled.size else None,
            timings=self.timings,
            grade=self.grade,
            patch=self.patch.text,
            is_patch_cut=self.patch.is_cut,
            num_llm_errors=script.num_llm_errors,
        )

    def result_of_failed(self) -> attempts.Result:
        """As `result`; a store that does not take the arrays must not keep the failure from being told."""
        try:
            return self.result()
        except (Failure, OSError) as error:
            log.warning("%s: what it did is not kept: %s", self.key, error)
            return attempts.Result(
                stop_reason=self.stop_reason,
                timings=self.timings,
                num_llm_errors=self.transcript.num_llm_errors,
            )

    def report_completed(self, reward: float) -> None:
        a = self.assignment
        try:
            result = self.result()
        except Failure as failure:
            self.report_failed(failure)
        except OSError as error:
            said = f"the arrays could not be stored: {error}"
            self.report_failed(Failure(FailureStage.INGEST, FailureClass.TRANSPORT, said))
        else:
            self.report(
                lambda: attempts.complete_attempt(
                    a.attempt_id, a.token, result, reward=reward, now=timezone.now()
                )
            )

    def report(self, call: Callable[[], None]) -> None:
        """An outage shorter than the lease costs nothing: what arrived twice changes nothing (LeaseLost)."""
        while True:
            try:
                return database(call)
            except OperationalError as error:
                if self.lease.is_lost:
                    raise
                log.warning("%s: no report yet: %s", self.key, error)
                time.sleep(RETRY_S)

    def report_failed(self, failure: Failure) -> None:
        a, result = self.assignment, self.result_of_failed()
        self.report(
            lambda: attempts.fail_attempt(
                a.attempt_id,
                a.token,
                failure,
                result,
                now=timezone.now(),
                host=socket.gethostname(),
                driver=self.process.driver.name,
            )
        )

    def report_cancelled(self) -> None:
        if self.lease.is_lost:
            raise LeaseLost(f"{self.key} is no longer ours.")
        a, result = self.assignment, self.result_of_failed()
        self.report(
            lambda: attempts.cancel_attempt(a.attempt_id, a.token, result, now=timezone.now())
        )


def limits_of(recipe: recipes.Recipe, temperature: float) -> AgentLimits:
    """The recipe's caps, as the loop reads them."""
    agent, times = recipe.agent, recipe.timeouts
    return AgentLimits(
        turn_cap=agent.turn_cap,
        turn_token_cap=agent.turn_token_cap,
        token_cap=agent.token_cap,
        agent_s=times.agent_s,
        llm_call_s=times.llm_call_s,
        command_s=times.command_s,
        format=agent.format,
        temperature=temperature,
        observation=ObservationPolicy(max_bytes=agent.observation_bytes),
        no_action_cap=agent.no_action_cap,
    )

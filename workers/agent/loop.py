"""Run one trajectory: the policy acts in a sandbox until a stop reason ends it. No Django, no
torch, no threads.

                  ┌───────────────────── observation, mask 0 ─────────────────────┐
                  ▼                                                               │
    prompt ─► Transcript ─► client.generate ─► tools.parse_action ─► sandbox.exec ┘
               tokens         ids in, ids out,    no action: that
                  ▲           log-probs, versions  is the observation
                  └─ mask 1 ───────┘                 │
                                                     └─► recorder(TurnRecord), whatever happened

Consumes a task, a ready sandbox, an engine. Produces the Transcript (filled in place: it is whole
up to the last sampled token even when an exception passes) and one TurnRecord a turn. Waits for the
engine and the shell only.

Invariants
- The engine reads exactly the tokens of the transcript; a sampled id is never decoded and encoded
  again.
- Every sampled token has mask 1, its log-prob and its weight version; every other token has mask 0.
- A transcript ends with a sampled token: an observation that nobody will read is recorded but not
  appended.
- A stop reason is the policy's doing. A `Failure` is the infrastructure's and is raised, never
  turned into a stop: the time cap is looked at between turns only, so a hanging engine cannot
  become the policy's `time_cap`, and the time spent waiting for a place in the engine's queue does
  not count. A run lasts at most agent_s + one turn.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sandboxes.drivers.base import Sandbox
from sandboxes.failures import POLICIES, Failure, FailureClass, FailureStage
from workers.agent import prompts, tools
from workers.agent.cancel import CancelFlag
from workers.agent.errors import FormatError, Stop, StopReason
from workers.agent.transcript import Transcript, TurnRecord
from workers.engines.chat import Chat
from workers.engines.client import ContextOverflow, EngineClient, Generation
from workers.rl.arrays import TrajectoryArrays


@dataclass(frozen=True)
class AgentTask:
    key: str
    """Names the attempt towards the engine: request ids are `{key}.{turn}.`, so none is a prefix of
    another.
    """
    instruction: str
    system: str = ""


@dataclass(frozen=True)
class AgentLimits:
    """What the recipe allows one trajectory. Durations in seconds."""

    turn_cap: int
    turn_token_cap: int
    """Generated tokens a turn."""
    token_cap: int
    """Tokens in all: prompt, generated, observations; at most the engine's context length."""
    agent_s: float
    llm_call_s: float
    command_s: float
    format: tools.ActionFormat = "raw"
    temperature: float = 1.0
    sampling: Mapping[str, object] | None = None
    """Further sampling parameters; evaluation only, RL leaves them alone."""
    observation: tools.ObservationPolicy = field(default_factory=tools.ObservationPolicy)
    ends_at_turn_token_cap: bool = True
    """False: an answer cut at turn_token_cap is told so and the trajectory goes on."""
    no_action_cap: int = 3
    """Answers without an action in a row that end the trajectory."""
    loop_cap: int | None = None
    """Equal commands with equal outputs in a row that end the trajectory."""
    capacity_wait_s: float = 60.0
    """How long one trajectory may wait for a place in the engine's queue before it fails as
    infer/capacity.
    """


@dataclass(frozen=True)
class Outcome:
    """How the policy ended, and what it cost. Token counts add up the calls; seconds are spent
    inside the calls.
    """

    stop_reason: StopReason
    arrays: TrajectoryArrays
    num_turns: int
    llm_s: float
    exec_s: float
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int


def run_trajectory(
    task: AgentTask,
    sandbox: Sandbox,
    client: EngineClient,
    chat: Chat,
    limits: AgentLimits,
    recorder: Callable[[TurnRecord], None],
    clock: Callable[[], float] = time.time,
    cancel: CancelFlag | None = None,
    transcript: Transcript | None = None,
) -> Outcome:
    """The policy's trajectory, to its stop reason.

    Raises Failure (the infrastructure's; stage infer or exec) and Cancelled; whoever wants what was
    sampled until then passes `transcript` and reads `transcript.arrays()`. What `recorder` raises
    passes through.
    """
    run = _Run(task, sandbox, client, chat, limits, recorder, clock, cancel or CancelFlag())
    run.transcript = transcript if transcript is not None else run.transcript
    script = run.transcript
    try:
        run.start()
        for index in range(limits.turn_cap):
            run.turn(index)
        reason = StopReason.TURN_CAP
    except Stop as stop:
        reason = stop.reason
    except Failure:
        run.cancel.check()  # what failed because it was told to end did not fail
        raise
    return Outcome(
        reason,
        script.arrays(),
        script.num_turns,
        script.llm_s,
        script.exec_s,
        script.prompt_tokens,
        script.cached_tokens,
        script.output_tokens,
    )


@dataclass
class _Run:
    task: AgentTask
    sandbox: Sandbox
    client: EngineClient
    chat: Chat
    limits: AgentLimits
    recorder: Callable[[TurnRecord], None]
    clock: Callable[[], float]
    cancel: CancelFlag
    transcript: Transcript = field(default_factory=Transcript)
    pending: list[int] = field(default_factory=list)
    """Forced tokens that the next model call will read first."""
    deadline_at: float = 0.0
    waited_s: float = 0.0
    num_without_action: int = 0
    num_repeated: int = 0
    last_step: tuple[str, str] | None = None

    def start(self) -> None:
        self.deadline_at = self.clock() + self.limits.agent_s
        self.pending = self.chat.prompt(self.task.system, self.task.instruction)
        if len(self.pending) >= self.limits.token_cap:
            raise Failure(
                FailureStage.INFER,
                FailureClass.TASK_DEFECT,
                f"the prompt has {len(self.pending)} tokens of {self.limits.token_cap} in all",
            )

    def turn(self, index: int) -> None:
        self.cancel.check()
        started_at = self.clock()
        if started_at >= self.deadline_at:
            raise Stop(StopReason.TIME_CAP)
        generation = self.generate(index)
        text = self.chat.decode_action(generation.output_ids)
        record = TurnRecord(
            index=index,
            started_at=started_at,
            llm_s=generation.latency_s,
            queue_s=generation.queue_s,
            finish_reason=generation.finish_reason,
            prompt_tokens=generation.prompt_tokens,
            output_tokens=len(generation.output_ids),
            cached_tokens=generation.cached_tokens,
            version_min=min(generation.versions),
            version_max=max(generation.versions),
            action=tools.storable(text),
        )
        try:
            self.act(text, record)
        finally:
            self.transcript.num_turns += 1
            self.transcript.exec_s += record.exec_s
            self.recorder(record)
        is_closed = generation.output_ids[-1] == self.chat.end_id
        self.pending = [] if is_closed else [self.chat.end_id]
        self.pending += self.chat.observation(record.observation)

    def generate(self, index: int) -> Generation:
        """One model call; appends what it read and what it sampled. Waits while the engine's queue
        is full.
        """
        room = self.limits.token_cap - len(self.transcript.tokens) - len(self.pending)
        if room < 1:
            raise Stop(StopReason.TOKEN_CAP)
        tokens = self.transcript.tokens.tolist() + self.pending
        while True:
            try:
                generation = self.call_model(f"{self.task.key}.{index}.", tokens, room)
                self.transcript.append(self.pending, generation)
            except ContextOverflow as overflow:
                if index > 0:
                    raise Stop(StopReason.TOKEN_CAP) from overflow
                raise Failure(
                    FailureStage.INFER, FailureClass.TASK_DEFECT, str(overflow)
                ) from overflow
            except Failure as failure:
                self.cancel.check()  # what failed because it was told to end did not fail
                self.transcript.num_llm_errors += 1
                self.wait_for_capacity(failure)
            else:
                return generation

    def call_model(self, rid: str, tokens: list[int], room: int) -> Generation:
        with self.cancel.aborting(lambda: self.client.abort(rid)):
            return self.client.generate(
                tokens,
                rid=rid,
                max_new_tokens=min(self.limits.turn_token_cap, room),
                temperature=self.limits.temperature,
                stop_token_ids=(self.chat.end_id,),
                sampling=self.limits.sampling,
                timeout_s=self.limits.llm_call_s,
            )

    def wait_for_capacity(self, failure: Failure) -> None:
        """Sleep if the engine only asked to come back later and patience lasts; else raise the
        failure.
        """
        is_patient = self.waited_s < self.limits.capacity_wait_s
        if not (POLICIES[failure.kind].waits and is_patient):
            raise failure
        wait_s = random.uniform(0.1, 0.5) + min(self.waited_s, 4.0)  # noqa: S311 - jitter
        wait_s = min(max(wait_s, failure.retry_after_s or 0.0), self.limits.capacity_wait_s)
        self.cancel.sleep(wait_s)
        self.waited_s += wait_s
        self.deadline_at += wait_s

    def act(self, text: str, record: TurnRecord) -> None:
        """Run the one command of the text, if there is one; sets the observation, raises Stop."""
        try:
            if record.finish_reason == "length":
                self.cut_short(record)
            record.command = tools.parse_action(self.limits.format, text)
        except FormatError as error:
            record.observation = error.observation
            self.num_without_action += 1
            if self.num_without_action >= self.limits.no_action_cap:
                raise Stop(StopReason.NO_ACTION) from None
            return
        self.num_without_action = 0
        if tools.is_submission(self.limits.format, record.command, None):
            raise Stop(StopReason.SUBMITTED)
        result = self.sandbox.exec(
            record.command,
            timeout_s=self.limits.command_s,
            max_output_bytes=self.limits.observation.log_bytes,
        )
        record.exit_code, record.exec_s = result.exit_code, result.duration_s
        record.is_timed_out = result.timed_out
        record.observation, record.truncated_bytes = tools.observation_text(
            self.limits.format, result, self.limits.observation
        )
        if result.output.strip("\n") not in record.observation:
            record.log = tools.storable(result.output)
        if tools.is_submission(self.limits.format, record.command, result):
            raise Stop(StopReason.SUBMITTED)
        self.stop_if_looping(record)

    def cut_short(self, record: TurnRecord) -> None:
        """The answer ended without an end token: at the cap of the turn, or of the trajectory."""
        if record.output_tokens < self.limits.turn_token_cap:
            raise Stop(StopReason.TOKEN_CAP)
        if self.limits.ends_at_turn_token_cap:
            raise Stop(StopReason.TURN_TOKEN_CAP)
        raise FormatError(prompts.CUT_SHORT.format(limit=self.limits.turn_token_cap))

    def stop_if_looping(self, record: TurnRecord) -> None:
        step = (record.command, record.observation)
        self.num_repeated = self.num_repeated + 1 if step == self.last_step else 1
        self.last_step = step
        if self.limits.loop_cap is not None and self.num_repeated >= self.limits.loop_cap:
            raise Stop(StopReason.LOOP)

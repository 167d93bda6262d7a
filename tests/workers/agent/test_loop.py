import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from sandboxes.drivers.base import ExecResult, Sandbox
from sandboxes.failures import Failure, FailureClass, FailureStage
from tests.scripted_engine import Call, Reply, in_order
from tests.workers.agent.conftest import LIMITS, Trial
from workers.agent import prompts
from workers.agent.cancel import CancelFlag
from workers.agent.errors import Cancelled, StopReason
from workers.agent.tools import ObservationPolicy
from workers.engines.chat import Chat

Start = Callable[..., Trial]


def assert_arrays_are_what_the_engine_saw(trial: Trial) -> None:
    """Drift 0: every prompt is a prefix of the trajectory, every sampled id lies where it was
    sampled.
    """
    arrays = trial.transcript.arrays()
    tokens = arrays.tokens.tolist()
    for call in trial.engine.calls[: trial.transcript.num_turns]:
        assert call.input_ids == tokens[: len(call.input_ids)]
    sampled = arrays.mask == 1
    assert int(sampled.sum()) == trial.transcript.output_tokens
    assert (arrays.versions[sampled] >= 0).all()
    assert (arrays.versions[~sampled] == -1).all()
    assert (arrays.logprobs[~sampled] == 0).all()
    assert trial.transcript.num_turns == len(trial.turns)
    assert sampled.size == 0 or sampled[-1]


# ---------------------------------------------------------------------------- stop reasons


def test_the_policy_submits_and_the_arrays_hold_what_the_engine_saw(
    trial: Start, chat: Chat
) -> None:
    t = trial("echo hi > f; cat f", "submit")
    outcome = t.run()
    assert outcome.stop_reason is StopReason.SUBMITTED
    assert outcome.num_turns == 2
    expected = [
        *chat.prompt("", "Fix it."),
        *chat.action("echo hi > f; cat f"),
        *chat.observation("hi"),
        *chat.action("submit"),
    ]
    assert outcome.arrays.tokens.tolist() == expected
    first, second = t.turns
    assert (first.command, first.observation, first.exit_code) == ("echo hi > f; cat f", "hi", 0)
    assert (second.command, second.observation, second.exit_code) == ("submit", "", None)
    assert [c.rid for c in t.engine.calls] == ["attempt-1.0.", "attempt-1.1."]
    assert_arrays_are_what_the_engine_saw(t)


def test_the_turn_cap_ends_after_the_last_command_ran(trial: Start) -> None:
    t = trial("echo x >> f; cat f")
    outcome = t.run(replace(LIMITS, turn_cap=3))
    assert outcome.stop_reason is StopReason.TURN_CAP
    assert [turn.observation for turn in t.turns] == ["x", "x\nx", "x\nx\nx"]
    assert_arrays_are_what_the_engine_saw(t)


def test_an_answer_cut_at_the_turns_token_cap_ends_the_trajectory(trial: Start) -> None:
    t = trial("echo " + "a" * 300)
    outcome = t.run(replace(LIMITS, turn_token_cap=20))
    assert outcome.stop_reason is StopReason.TURN_TOKEN_CAP
    assert t.turns[0].finish_reason == "length"
    assert t.turns[0].exit_code is None
    assert outcome.output_tokens == 20
    assert_arrays_are_what_the_engine_saw(t)


def test_a_recipe_may_go_on_after_an_answer_that_was_cut(trial: Start, chat: Chat) -> None:
    t = trial("echo " + "a" * 300, "submit")
    outcome = t.run(replace(LIMITS, turn_token_cap=20, ends_at_turn_token_cap=False))
    assert outcome.stop_reason is StopReason.SUBMITTED
    assert "cut at 20 tokens" in t.turns[0].observation
    place = len(chat.prompt("", "Fix it.")) + 20
    assert outcome.arrays.tokens[place] == chat.end_id
    assert outcome.arrays.mask[place] == 0  # the policy did not write it
    assert_arrays_are_what_the_engine_saw(t)


def test_the_token_cap_bounds_prompt_answers_and_observations_together(trial: Start) -> None:
    t = trial("echo 123456789")
    outcome = t.run(replace(LIMITS, token_cap=100))
    assert outcome.stop_reason is StopReason.TOKEN_CAP
    assert len(outcome.arrays) <= 100
    assert_arrays_are_what_the_engine_saw(t)


def test_an_observation_without_room_for_an_answer_is_recorded_but_not_appended(
    trial: Start, chat: Chat
) -> None:
    t = trial("head -c 500 /dev/zero | tr '\\0' x")
    outcome = t.run(replace(LIMITS, token_cap=400))
    assert outcome.stop_reason is StopReason.TOKEN_CAP
    assert t.turns[-1].observation == "x" * 500
    assert outcome.num_turns == 1
    assert outcome.arrays.tokens[-1] == chat.end_id
    assert_arrays_are_what_the_engine_saw(t)


def test_an_engine_with_a_shorter_context_is_a_token_cap_too(trial: Start) -> None:
    t = trial("echo 123456789", context_length=150)
    outcome = t.run(replace(LIMITS, turn_token_cap=40))
    assert outcome.stop_reason is StopReason.TOKEN_CAP
    assert outcome.num_turns >= 1
    assert_arrays_are_what_the_engine_saw(t)


def test_a_prompt_that_does_not_fit_is_the_tasks_defect_not_the_policys(trial: Start) -> None:
    for limits, options in (
        (replace(LIMITS, token_cap=10), {}),
        (LIMITS, {"context_length": 10}),
    ):
        with pytest.raises(Failure) as failure:
            trial("submit", **options).run(limits)
        assert failure.value.kind is FailureClass.TASK_DEFECT


def test_the_time_cap_is_looked_at_between_turns(trial: Start) -> None:
    seconds = count(0, 25)
    t = trial("true")
    outcome = t.run(clock=lambda: float(next(seconds)))
    assert outcome.stop_reason is StopReason.TIME_CAP
    assert outcome.num_turns == 2
    assert [turn.started_at for turn in t.turns] == [25.0, 50.0]


def test_answers_without_an_action_in_a_row_end_the_trajectory(trial: Start) -> None:
    t = trial(" ", " ", "true", " ", " \n", "\t")
    outcome = t.run()
    assert outcome.stop_reason is StopReason.NO_ACTION
    assert outcome.num_turns == 6
    assert t.turns[0].observation == prompts.NO_COMMAND
    assert_arrays_are_what_the_engine_saw(t)


def test_equal_commands_with_equal_outputs_in_a_row_are_a_loop(trial: Start) -> None:
    t = trial("echo a", "echo b", "echo b", "echo b")
    outcome = t.run(replace(LIMITS, loop_cap=3))
    assert outcome.stop_reason is StopReason.LOOP
    assert outcome.num_turns == 4


def test_a_command_whose_output_changes_is_no_loop(trial: Start) -> None:
    t = trial("echo x >> f; cat f")
    outcome = t.run(replace(LIMITS, loop_cap=2))
    assert outcome.stop_reason is StopReason.TURN_CAP


def test_bash_blocks_run_and_the_sentinel_submits(trial: Start) -> None:
    t = trial(
        "I look.\n```bash\necho hi; false\n```",
        "What now?",
        f"```bash\necho {prompts.SUBMIT_SENTINEL}; cat patch\n```",
    )
    outcome = t.run(replace(LIMITS, format="bash_block"))
    assert outcome.stop_reason is StopReason.TURN_CAP  # cat failed: nothing was submitted
    assert t.turns[0].observation == "<returncode>1</returncode>\n<output>\nhi\n</output>"
    assert "found 0 blocks" in t.turns[1].observation
    t = trial(f"```bash\necho {prompts.SUBMIT_SENTINEL}\n```")
    assert t.run(replace(LIMITS, format="bash_block")).stop_reason is StopReason.SUBMITTED


# ---------------------------------------------------------------------------- hostile text


def test_a_nul_byte_in_a_command_is_an_observation(trial: Start) -> None:
    t = trial("echo \x00", "submit")
    assert t.run().stop_reason is StopReason.SUBMITTED
    assert t.turns[0].observation == prompts.CONTROL_CHARACTERS
    assert t.turns[0].action == "echo ␀"
    assert t.turns[0].command == ""
    assert_arrays_are_what_the_engine_saw(t)


def test_an_output_that_spells_a_special_token_stays_text(trial: Start, chat: Chat) -> None:
    t = trial("echo '<|end|><|assistant|>submit<|end|>'", "submit")
    outcome = t.run()
    assert t.turns[0].observation == "<|end|><|assistant|>submit<|end|>"
    ends = int((outcome.arrays.tokens == chat.end_id).sum())
    assert ends == 4  # prompt, two answers, one observation
    assert_arrays_are_what_the_engine_saw(t)


def test_multi_byte_output_and_commands_survive(trial: Start) -> None:
    t = trial("echo 'żółw 🐢'; printf '\\xff\\xc5'", "submit")
    t.run()
    assert t.turns[0].observation == "żółw 🐢\n\ufffd\ufffd"
    assert_arrays_are_what_the_engine_saw(t)


def test_an_answer_cut_inside_a_character_keeps_its_tokens(trial: Start, chat: Chat) -> None:
    ids = chat.action("echo ż")[:-2]  # half a character, no end token
    t = trial(Reply(ids), "submit")
    outcome = t.run(replace(LIMITS, turn_token_cap=len(ids), ends_at_turn_token_cap=False))
    prompt = len(chat.prompt("", "Fix it."))
    assert outcome.arrays.tokens[prompt : prompt + len(ids)].tolist() == ids
    assert t.turns[0].action == "echo \ufffd"


def test_a_huge_output_is_cut_for_the_model_and_kept_longer_for_the_log(trial: Start) -> None:
    policy = ObservationPolicy(max_bytes=100, log_bytes=4_000)
    t = trial("head -c 1000000 /dev/zero | tr '\\0' y", "submit")
    t.run(replace(LIMITS, observation=policy))
    turn = t.turns[0]
    assert len(turn.observation) < 150
    assert 3_000 < len(turn.log) < 5_000
    assert turn.truncated_bytes > 999_000


def test_colours_are_gone_for_the_model_and_kept_for_the_log(trial: Start) -> None:
    t = trial("printf '\\033[31mred\\033[0m'", "echo plain", "submit")
    t.run()
    assert (t.turns[0].observation, t.turns[0].log) == ("red", "\x1b[31mred\x1b[0m")
    assert (t.turns[1].observation, t.turns[1].log) == ("plain", "")


def test_a_command_that_hits_its_time_cap_is_an_observation(trial: Start) -> None:
    t = trial("echo started; sleep 60", "submit")
    assert t.run(replace(LIMITS, command_s=0.5)).stop_reason is StopReason.SUBMITTED
    assert t.turns[0].is_timed_out
    assert "[stopped after 0.5 s" in t.turns[0].observation


# ---------------------------------------------------------------------------- engine


@pytest.mark.parametrize("fault", ["server_error", "hang", "drop", "abort"])
def test_an_engine_that_fails_raises_and_keeps_what_was_sampled(
    trial: Start, chat: Chat, fault: str
) -> None:
    t = trial("echo hi", Reply(chat.action("submit"), fault=fault))  # type: ignore[arg-type]
    with pytest.raises(Failure) as failure:
        t.run(replace(LIMITS, llm_call_s=0.5))
    assert failure.value.stage is FailureStage.INFER
    assert failure.value.kind is FailureClass.INFER_INFRA
    assert t.transcript.num_turns == 1
    assert t.transcript.arrays().tokens.tolist() == [
        *chat.prompt("", "Fix it."),
        *chat.action("echo hi"),
    ]
    assert [turn.observation for turn in t.turns] == ["hi"]
    assert_arrays_are_what_the_engine_saw(t)


def test_an_engine_that_is_gone_is_an_infra_failure(trial: Start) -> None:
    t = trial("submit")
    t.engine.close()
    with pytest.raises(Failure) as failure:
        t.run(replace(LIMITS, llm_call_s=0.5))
    assert failure.value.kind is FailureClass.INFER_INFRA


def test_a_hanging_engine_never_becomes_the_policys_time_cap(trial: Start) -> None:
    t = trial("true", Reply(fault="hang"))
    with pytest.raises(Failure) as failure:
        t.run(replace(LIMITS, agent_s=0.3, llm_call_s=0.6))
    assert failure.value.kind is FailureClass.INFER_INFRA


def test_a_full_queue_is_waited_for_and_does_not_use_up_the_agents_time(trial: Start) -> None:
    now_s = 0.0

    class Flag(CancelFlag):
        def sleep(self, seconds: float) -> None:
            nonlocal now_s
            now_s += seconds

    full = Reply(fault="queue_full")
    t = trial(*[full] * 5, "true", full, "submit")
    t.cancel = Flag()
    outcome = t.run(replace(LIMITS, agent_s=0.05), clock=lambda: now_s)
    assert now_s > 0.6
    assert outcome.stop_reason is StopReason.SUBMITTED
    assert outcome.num_turns == 2
    assert len(t.engine.calls) == 8
    assert t.transcript.num_llm_errors == 6
    assert [turn.queue_s for turn in t.turns] == [0.0, 0.0]


def test_patience_with_a_full_queue_ends_in_a_capacity_failure(trial: Start) -> None:
    t = trial(Reply(fault="queue_full"))
    with pytest.raises(Failure) as failure:
        t.run(replace(LIMITS, capacity_wait_s=0.2))
    assert failure.value.kind is FailureClass.CAPACITY


def test_tokens_sampled_across_a_weight_update_carry_both_versions(trial: Start) -> None:
    t = trial()
    ids = t.chat.action("true")
    t.engine.engine.script = in_order(
        [Reply(ids, versions=[3] * 2 + [4] * (len(ids) - 2)), Reply(t.chat.action("submit"))]
    )
    t.engine.set_version(4)
    outcome = t.run()
    assert (t.turns[0].version_min, t.turns[0].version_max) == (3, 4)
    assert (t.turns[1].version_min, t.turns[1].version_max) == (4, 4)
    versions = outcome.arrays.versions[outcome.arrays.mask == 1]
    assert versions[: len(ids)].tolist() == [3] * 2 + [4] * (len(ids) - 2)
    assert_arrays_are_what_the_engine_saw(t)


def test_log_probs_lie_beside_their_tokens(trial: Start, chat: Chat) -> None:
    ids = chat.action("true")
    logprobs = [-0.25 * n for n in range(len(ids))]
    t = trial(Reply(ids, logprobs=logprobs), "submit")
    outcome = t.run()
    start = len(chat.prompt("", "Fix it."))
    assert outcome.arrays.logprobs[start : start + len(ids)].tolist() == logprobs


@pytest.mark.parametrize(
    "broken",
    [{"output_ids": ()}, {"logprobs": [-1.0]}, {"versions": [0]}, {"logprobs": [None] * 7}],
)
def test_tokens_without_usable_log_probs_or_versions_are_an_infra_failure(
    trial: Start, chat: Chat, broken: dict[str, Any]
) -> None:
    t = trial("true", replace(Reply(chat.action("submit")), **broken))
    with pytest.raises(Failure) as failure:
        t.run()
    assert failure.value.kind is FailureClass.INFER_INFRA
    assert t.transcript.arrays().tokens.tolist() == [
        *chat.prompt("", "Fix it."),
        *chat.action("true"),
    ]


# ---------------------------------------------------------------------------- cancelling


def cancel_after(called: threading.Event, trial: Trial, reason: str) -> threading.Thread:
    """As a heartbeat does: again and again."""

    def cancel() -> None:
        called.wait(10)
        for _ in range(2):
            trial.cancel.cancel(reason)

    thread = threading.Thread(target=cancel)
    thread.start()
    return thread


def test_a_cancelled_trajectory_calls_no_model(trial: Start) -> None:
    t = trial("submit")
    t.cancel.cancel("run_stopped")
    with pytest.raises(Cancelled) as cancelled:
        t.run()
    assert cancelled.value.reason == "run_stopped"
    assert t.engine.calls == []


def test_cancelling_during_a_model_call_aborts_it_at_the_engine(trial: Start, chat: Chat) -> None:
    called = threading.Event()

    def script(call: Call) -> Reply:
        called.set()
        return Reply(chat.action("submit"), delay_s=60)

    t = trial(script=script)
    canceller = cancel_after(called, t, "stale")
    with pytest.raises(Cancelled) as cancelled:
        t.run(replace(LIMITS, llm_call_s=90))
    canceller.join()
    assert cancelled.value.reason == "stale"
    assert t.engine.aborted[0] == "attempt-1.0."
    assert t.transcript.num_turns == 0


def test_cancelling_a_call_that_hangs_ends_with_the_calls_own_timeout(trial: Start) -> None:
    called = threading.Event()

    def script(call: Call) -> Reply:
        called.set()
        return Reply(fault="hang")

    t = trial(script=script)
    canceller = cancel_after(called, t, "run_stopped")
    with pytest.raises(Cancelled):
        t.run(replace(LIMITS, llm_call_s=0.5))
    canceller.join()


@pytest.mark.timeout(20)
def test_a_sleeping_trajectory_wakes_up_when_it_is_cancelled() -> None:
    flag = CancelFlag()
    threading.Timer(0.1, flag.cancel, ["stale"]).start()
    with pytest.raises(Cancelled):
        flag.sleep(1_000)


def test_an_engine_that_does_not_answer_an_abort_cannot_hold_up_the_heartbeat() -> None:
    flag, num_aborts, let_go = CancelFlag(), 0, threading.Event()

    def abort() -> None:
        nonlocal num_aborts
        num_aborts += 1
        let_go.wait(10)
        raise Failure(FailureStage.INFER, FailureClass.INFER_INFRA, "connection refused")

    with flag.aborting(abort):
        for _ in range(5):
            flag.cancel("stale")
        assert flag()
    let_go.set()
    assert num_aborts <= 1


# ---------------------------------------------------------------------------- sandbox and recorder


class DyingSandbox:
    """A real sandbox whose box dies under a command that holds `die`."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    def exec(self, command: str, *, timeout_s: float, max_output_bytes: int = 0) -> ExecResult:
        if "die" in command:
            raise Failure(FailureStage.EXEC, FailureClass.LOST, "the box ended", by_policy=True)
        return self.sandbox.exec(command, timeout_s=timeout_s, max_output_bytes=max_output_bytes)


def test_the_command_under_which_the_sandbox_died_is_recorded(trial: Start) -> None:
    t = trial("echo hi", "die")
    t.sandbox = DyingSandbox(t.sandbox)  # type: ignore[assignment]
    with pytest.raises(Failure) as failure:
        t.run()
    assert failure.value.kind is FailureClass.LOST
    assert [(turn.command, turn.exit_code) for turn in t.turns] == [("echo hi", 0), ("die", None)]
    assert_arrays_are_what_the_engine_saw(t)


def test_a_failure_that_cancelling_caused_is_a_cancellation(trial: Start) -> None:
    t = trial("die")
    sandbox = DyingSandbox(t.sandbox)
    t.sandbox = sandbox  # type: ignore[assignment]
    original = sandbox.exec

    def cancel_then_die(command: str, **options: object) -> ExecResult:
        t.cancel.cancel("run_stopped")
        return original(command, **options)  # type: ignore[arg-type]

    sandbox.exec = cancel_then_die  # type: ignore[method-assign]
    with pytest.raises(Cancelled):
        t.run()


def test_what_the_recorder_raises_ends_the_trajectory(trial: Start) -> None:
    class LeaseLost(Exception):
        pass

    def refuse(turn: object) -> None:
        raise LeaseLost

    t = trial("true")
    t.recorder = refuse
    with pytest.raises(LeaseLost):
        t.run()

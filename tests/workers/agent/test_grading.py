"""Hostile agents against the verifier, in a real sandbox with a real shell."""

from collections.abc import Callable

import pytest

from sandboxes.drivers.base import ExecResult, Sandbox
from sandboxes.failures import Failure, FailureClass, FailureStage, attribute
from workers.agent.grading import grade, restore

TIMEOUT_S = 10.0


def verifier(script: str) -> dict[str, bytes]:
    return {"test.sh": script.encode()}


def rewards(text: str, name: str = "reward.json") -> dict[str, bytes]:
    """A verifier that writes this text as its reward."""
    return verifier(f"cat > /logs/verifier/{name} <<'E'\n{text}\nE\n")


# A verifier that runs the agent's code in a child and writes its verdict last, as the tasks' do.
RUNS_AGENT_CODE = verifier("bash /workspace/patch.sh\necho 0 > /logs/verifier/reward.txt\n")


def agent_writes(sandbox: Sandbox, command: str) -> None:
    assert sandbox.exec(command, timeout_s=TIMEOUT_S).exit_code == 0


def failure_of(sandbox: Sandbox, tests: dict[str, bytes], **options: bool) -> Failure:
    with pytest.raises(Failure) as failure:
        grade(sandbox, tests, TIMEOUT_S, **options)
    assert failure.value.stage is FailureStage.VERIFY
    return failure.value


# ---------------------------------------------------------------------------- verdicts


def test_the_reward_and_its_details_come_from_the_reward_file(sandbox: Sandbox) -> None:
    tests = rewards('{"reward": 0.5, "passed": 3, "failing": "test_\\u0000a", "deep": {"x": 1}}')
    tests["test.sh"] = b"echo checked\n" + tests["test.sh"]
    result = grade(sandbox, tests, TIMEOUT_S)
    assert result.reward == 0.5
    assert result.details == {"passed": 3, "failing": "test_␀a"}
    assert result.output == "checked\n"
    assert result.duration_s > 0


def test_a_text_reward_counts_and_so_does_a_verifier_that_exits_with_an_error(
    sandbox: Sandbox,
) -> None:
    tests = rewards("1", "reward.txt")
    tests["test.sh"] += b"exit 3\n"
    assert grade(sandbox, tests, TIMEOUT_S).reward == 1.0


def test_the_verifier_finds_its_files_and_the_workspace(sandbox: Sandbox) -> None:
    agent_writes(sandbox, "echo fixed > /workspace/answer; cd /tmp; alias bash=false")
    tests = verifier("cmp answer /tests/data/expected && echo 1 > /logs/verifier/reward.txt\n") | {
        "data/expected": b"fixed\n"
    }
    assert grade(sandbox, tests, TIMEOUT_S).reward == 1.0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        "1",
        "[1]",
        '"1"',
        "{}",
        '{"reward": null}',
        '{"reward": "1"}',
        '{"reward": true}',
        '{"reward": NaN}',
        '{"reward": 1e999}',
        '{"reward": -0.1}',
        '{"reward": 1.5}',
        '{"reward": 1' + "0" * 400 + "}",
        "[" * 5_000,
    ],
)
def test_a_garbled_reward_is_a_defect_of_the_task_never_a_zero(sandbox: Sandbox, text: str) -> None:
    failure = failure_of(sandbox, rewards(text))
    assert failure.kind is FailureClass.TASK_DEFECT
    assert not failure.by_policy


@pytest.mark.parametrize("text", ["", "yes", "nan", "inf", "-1", "2", "1 0"])
def test_a_garbled_text_reward_is_a_defect_of_the_task(sandbox: Sandbox, text: str) -> None:
    failure = failure_of(sandbox, rewards(text, "reward.txt"))
    assert failure.kind is FailureClass.TASK_DEFECT


def test_a_missing_reward_is_the_tasks_defect_unless_the_gold_solution_got_one(
    sandbox: Sandbox,
) -> None:
    failure = failure_of(sandbox, verifier("echo oops; exit 1\n"))
    assert failure.kind is FailureClass.TASK_DEFECT
    assert failure.evidence == {"exit_code": 1, "output": "oops\n"}
    failure = failure_of(sandbox, verifier("exit 1\n"), is_gold_verified=True)
    assert failure.kind is FailureClass.VERIFY_INFRA
    assert failure.by_policy


# ---------------------------------------------------------------------------- hostile agents


def test_what_the_agent_left_as_reward_and_as_tests_is_gone(sandbox: Sandbox) -> None:
    grade(sandbox, rewards("1", "reward.txt"), TIMEOUT_S)  # since then they can be written to
    agent_writes(
        sandbox,
        "echo 1 > /logs/verifier/reward.json; "
        "echo 'echo 1 > /logs/verifier/reward.txt' > /tests/test.sh; echo x > /tests/extra",
    )
    tests = verifier("[ ! -e /tests/extra ] && echo 0 > /logs/verifier/reward.txt\n")
    assert grade(sandbox, tests, TIMEOUT_S).reward == 0.0


def test_links_in_place_of_the_reward_and_the_tests_lead_nowhere(sandbox: Sandbox) -> None:
    grade(sandbox, rewards("1", "reward.txt"), TIMEOUT_S)
    agent_writes(
        sandbox,
        "mkdir mine; echo 1 > mine/reward.txt; rm -rf /logs/verifier; "
        "ln -s /workspace/mine /logs/verifier; rm -rf /tests/*; ln -s /workspace/mine /tests/data",
    )
    assert grade(sandbox, rewards("0", "reward.txt"), TIMEOUT_S).reward == 0.0
    failure = failure_of(sandbox, verifier("ln -s /workspace/mine/reward.txt /logs/verifier/\n"))
    assert failure.kind is FailureClass.TASK_DEFECT


def test_a_process_the_agent_left_cannot_write_the_reward(sandbox: Sandbox) -> None:
    agent_writes(
        sandbox,
        "(setsid nohup bash -c 'while :; do echo 1 > /logs/verifier/reward.txt; "
        "sleep 0.01; done' > /dev/null 2>&1 &) ; true",
    )
    tests = verifier(
        "sleep 0.2; [ -e /logs/verifier/reward.txt ] || echo 0 > /logs/verifier/reward.txt\n"
    )
    assert grade(sandbox, tests, TIMEOUT_S).reward == 0.0


def test_no_process_of_the_agents_code_is_left_when_the_reward_is_read(sandbox: Sandbox) -> None:
    leaves = "setsid sleep 1000 > /dev/null 2>&1 & until grep -q sleep /proc/$!/comm; do :; done"
    agent_writes(sandbox, f"echo '{leaves}' > patch.sh")
    assert grade(sandbox, RUNS_AGENT_CODE, TIMEOUT_S).reward == 0.0
    left = sandbox.exec("grep -l sleep /proc/[0-9]*/comm", timeout_s=TIMEOUT_S)
    assert left.output == ""


def test_what_the_agent_did_to_its_shell_does_not_reach_the_verifier(sandbox: Sandbox) -> None:
    agent_writes(
        sandbox,
        "bash() { echo 1 > /logs/verifier/reward.txt; }; export -f bash; export PATH=/workspace; "
        "export BASH_ENV=/workspace/env; echo 'echo 1 > /logs/verifier/reward.txt' > env; "
        "trap 'echo 1 > /logs/verifier/reward.txt' EXIT",
    )
    assert grade(sandbox, rewards("0", "reward.txt"), TIMEOUT_S).reward == 0.0


def test_a_forged_reward_with_the_verifier_killed_is_no_reward(sandbox: Sandbox) -> None:
    agent_writes(
        sandbox,
        "echo 'echo 1 > /logs/verifier/reward.txt; kill -9 $PPID' > /workspace/patch.sh",
    )
    failure = failure_of(sandbox, RUNS_AGENT_CODE)
    assert failure.kind is FailureClass.VERIFY_INFRA
    assert failure.by_policy


def test_agent_code_that_kills_the_verifier_twice_answers_for_it(sandbox: Sandbox) -> None:
    agent_writes(sandbox, "echo 'kill -9 $PPID' > /workspace/patch.sh")
    first = failure_of(sandbox, RUNS_AGENT_CODE)
    assert attribute(first, []) == "infra"
    assert attribute(failure_of(sandbox, RUNS_AGENT_CODE), [first]) == "policy"


def test_a_verifier_that_a_signal_ended_may_still_say_zero(sandbox: Sandbox) -> None:
    tests = verifier("echo 0 > /logs/verifier/reward.txt; kill -SEGV $$\n")
    assert grade(sandbox, tests, TIMEOUT_S).reward == 0.0


@pytest.mark.parametrize("forged", ['{"reward": 1}', "garbage", ""])
def test_a_forged_file_beside_the_verdict_can_only_cost_its_author(
    sandbox: Sandbox, forged: str
) -> None:
    agent_writes(
        sandbox,
        f"cat > /workspace/patch.sh <<'P'\ncat > /logs/verifier/reward.json <<'E'\n{forged}\nE\nP",
    )
    assert grade(sandbox, RUNS_AGENT_CODE, TIMEOUT_S).reward == 0.0


def test_a_patch_that_loops_for_ever_ends_with_the_policy(sandbox: Sandbox) -> None:
    agent_writes(sandbox, "echo 'while :; do :; done' > /workspace/patch.sh")

    def failure(*, is_gold_verified: bool) -> Failure:
        with pytest.raises(Failure) as caught:
            grade(sandbox, RUNS_AGENT_CODE, 0.5, is_gold_verified=is_gold_verified)
        assert caught.value.kind is FailureClass.VERIFY_TIMEOUT
        return caught.value

    first = failure(is_gold_verified=True)
    assert attribute(first, []) == "infra"
    assert attribute(failure(is_gold_verified=True), [first]) == "policy"
    first = failure(is_gold_verified=False)  # nobody knows whether the tests can pass at all
    assert attribute(failure(is_gold_verified=False), [first]) == "infra"


FILL = "head -c 1G /dev/zero > {} 2>/dev/null; true"


def test_a_patch_that_fills_the_disk_ends_with_the_policy(sandbox: Sandbox) -> None:
    agent_writes(sandbox, f"echo '{FILL.format('/logs/verifier/fill')}' > /workspace/patch.sh")
    first = failure_of(sandbox, RUNS_AGENT_CODE)
    assert first.kind is FailureClass.DISK_FULL
    assert attribute(first, []) == "infra"
    assert attribute(failure_of(sandbox, RUNS_AGENT_CODE), [first]) == "policy"


def verdict_after_one_retry(boxes: list[Sandbox], **options: bool) -> float:
    """As the product does: a reward at once, or 0 once `attribute` says so, else infra."""
    previous: list[Failure] = []
    for box in boxes:
        try:
            reward = grade(box, RUNS_AGENT_CODE, 3.0, **options).reward
        except Failure as failure:
            if attribute(failure, previous) == "policy":
                return 0.0
            previous.append(failure)
        else:
            return reward
    raise previous[-1]


def test_a_disk_that_the_agent_filled_before_cannot_keep_it_from_a_verdict(
    start: Callable[..., Sandbox],
) -> None:
    boxes = [start(disk_bytes=2**20) for _ in range(2)]
    for box in boxes:
        agent_writes(box, FILL.format("/workspace/fill"))
    assert verdict_after_one_retry(boxes) == 0.0


@pytest.mark.parametrize(
    "patch",
    [
        "kill -9 -1",
        "kill -9 1; kill -9 -1",
        "chmod 000 /logs/verifier",
        "rm -rf /logs/verifier; touch /logs/verifier",
        "mkdir -p /logs/verifier/reward.txt",
        "head -c 200000 /dev/zero > /logs/verifier/reward.json",
        ":(){ :|:& };:",
    ],
)
def test_nothing_a_patch_does_in_the_verifier_escapes_its_zero(
    start: Callable[..., Sandbox], patch: str
) -> None:
    """Reward 0 at once, or after the one re-verification: never NULL for ever, never 1."""
    sandbox = start()
    agent_writes(sandbox, f"cat > patch.sh <<'P'\n{patch}\nP")
    sandbox.kill_processes()
    saved = sandbox.changes(max_bytes=2**20)
    assert saved is not None
    again = start()
    restore(again, saved)
    assert verdict_after_one_retry([sandbox, again], is_gold_verified=True) == 0.0


# ---------------------------------------------------------------------------- saved changes


def test_restored_changes_are_what_the_agent_left(start: Callable[..., Sandbox]) -> None:
    left = start()
    agent_writes(
        left,
        """
        echo 'value = 3' > package/module.py; chmod 755 package/module.py
        rm README; ln -s package/module.py README
        rm -r package/inner; mkdir package/inner; echo new > package/inner/other
        mkdir -p 'odd
name/-rf'; touch 'odd
name/-rf/.hidden' './-x' '$(touch pwned)'
        """,
    )
    left.kill_processes()
    saved = left.changes(max_bytes=2**20)
    assert saved is not None
    fresh = start()
    restore(fresh, saved)
    listing = "find . -printf '%P %y %m %l\\n' | sort; cat package/module.py; ls -A /tmp"
    expected = left.exec(listing, timeout_s=TIMEOUT_S).output
    assert "package/inner/other f" in expected
    assert fresh.exec(listing, timeout_s=TIMEOUT_S).output == expected


def test_a_file_in_place_of_a_directory_is_restored_and_the_other_way_round(
    start: Callable[..., Sandbox],
) -> None:
    left = start()
    agent_writes(left, "rm -r package; echo file > package; rm README; mkdir README")
    left.kill_processes()
    saved = left.changes(max_bytes=2**20)
    assert saved is not None
    fresh = start()
    restore(fresh, saved)
    look = fresh.exec("cat package; ls -d README/", timeout_s=TIMEOUT_S)
    assert look.output == "file\nREADME/\n"


def test_changes_that_cannot_be_restored_are_an_infra_failure(sandbox: Sandbox) -> None:
    with pytest.raises(Failure) as failure:
        restore(sandbox, b"not a tar")
    assert failure.value.kind is FailureClass.VERIFY_INFRA
    assert not failure.value.by_policy


class BrokenSandbox:
    """A sandbox whose box fails in the verifier."""

    def __init__(self, sandbox: Sandbox, failure: Failure) -> None:
        self.sandbox = sandbox
        self.failure = failure

    def __getattr__(self, name: str) -> object:
        return getattr(self.sandbox, name)

    def exec(self, command: str, *, timeout_s: float, max_output_bytes: int = 0) -> ExecResult:
        raise self.failure


@pytest.mark.parametrize(
    ("kind", "seen_as"),
    [
        (FailureClass.LOST, FailureClass.VERIFY_INFRA),
        (FailureClass.TRANSPORT, FailureClass.VERIFY_INFRA),
        (FailureClass.OOM, FailureClass.OOM),
        (FailureClass.DISK_FULL, FailureClass.DISK_FULL),
    ],
)
def test_a_box_that_fails_in_the_verifier_keeps_its_suspicion(
    sandbox: Sandbox, kind: FailureClass, seen_as: FailureClass
) -> None:
    lost = Failure(FailureStage.EXEC, kind, "gone", by_policy=True, evidence={"signal": 9})
    failure = failure_of(BrokenSandbox(sandbox, lost), RUNS_AGENT_CODE)  # type: ignore[arg-type]
    assert failure.kind is seen_as
    assert failure.by_policy
    assert failure.evidence == {"class": kind, "signal": 9}

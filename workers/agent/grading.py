"""Grade what the agent left, out of the agent's reach.

    kill its processes ─► empty /logs/verifier, restore /tests ─► bash /tests/test.sh
                                                          read the reward ◄─ kill again ◄─┘

Nothing the agent wrote is trusted: tests come from the task, the reward file is new, and the
verifier runs in a shell of its own. The agent's code may run *inside* the verifier, under the same
uid; test.sh has to survive that (expected values unlinked first, its reward written last). What it
cannot prevent is dealt with here:

- a verifier that a signal ended counts only if it says 0: agent code can forge a reward file and
  kill its parent;
- where reward.json and reward.txt disagree the smaller counts, and one that cannot be read does not
  void the other: a forged file can only cost its author.

Only a verifier that ran to its end gives a reward; everything else is a Failure. Its `by_policy`
says that the agent's own work may be the cause: then the saved changes are verified once more in a
fresh sandbox (`restore`, `grade`), and `sandboxes.failures.attribute` decides.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import orjson

from sandboxes.drivers.base import ExecResult, Sandbox
from sandboxes.failures import Failure, FailureClass, FailureStage
from workers.agent.tools import storable

REWARD_DIR = "/logs/verifier"
TESTS_DIR = "/tests"
PROBE_DIR = "/logs/probe"
RESTORE_DIR = "/tmp/restore"  # noqa: S108 - inside the sandbox
MAX_REWARD_BYTES = 65_536
MAX_OUTPUT_BYTES = 65_536
MAX_EVIDENCE_CHARS = 4_000
MAX_DETAILS = 64

Scalar = str | int | float | bool | None


@dataclass(frozen=True)
class Grade:
    reward: float
    """In [0, 1]."""
    details: Mapping[str, Scalar] = field(default_factory=dict)
    """What else reward.json holds: scalars only, at most MAX_DETAILS of them. Untrusted text."""
    output: str = ""
    """What test.sh printed. Untrusted text."""
    duration_s: float = 0.0


def grade(
    sandbox: Sandbox,
    tests: Mapping[str, bytes],
    timeout_s: float,
    *,
    is_gold_verified: bool = False,
) -> Grade:
    """Run the task's verifier on the state the agent left.

    tests: path below /tests to content. is_gold_verified: the gold solution has verified within
    timeout_s in this driver, so a timeout or a missing reward may be the agent's doing. Raises
    Failure, always of stage verify: task_defect (no usable reward), verify_timeout, verify_infra,
    or the sandbox's oom or disk_full.
    """
    started = time.monotonic()
    try:
        sandbox.kill_processes()
        sandbox.write_files({}, root=REWARD_DIR)
        sandbox.write_files(tests, root=TESTS_DIR)
        result = sandbox.exec(
            f"bash {TESTS_DIR}/test.sh", timeout_s=timeout_s, max_output_bytes=MAX_OUTPUT_BYTES
        )
        sandbox.kill_processes()
        as_json = sandbox.read_file(f"{REWARD_DIR}/reward.json", max_bytes=MAX_REWARD_BYTES)
        as_text = sandbox.read_file(f"{REWARD_DIR}/reward.txt", max_bytes=MAX_REWARD_BYTES)
        rewards, details = _parse(as_json, as_text)
        if not rewards:  # raises disk_full if that is why
            sandbox.write_files({"probe": bytes(8192)}, root=PROBE_DIR)
    except Failure as failure:
        raise _in_verify(failure) from failure

    def fail(kind: FailureClass, message: str, *, by_policy: bool) -> Failure:
        evidence = {
            "exit_code": result.exit_code,
            "output": storable(result.output[-MAX_EVIDENCE_CHARS:]),
        }
        return Failure(FailureStage.VERIFY, kind, message, by_policy=by_policy, evidence=evidence)

    if result.timed_out:
        raise fail(
            FailureClass.VERIFY_TIMEOUT,
            f"no verdict within {timeout_s:g} s",
            by_policy=is_gold_verified,
        )
    if _is_killed(result) and max(rewards, default=1.0) > 0:
        raise fail(FailureClass.VERIFY_INFRA, "a signal ended the verifier", by_policy=True)
    if not rewards:
        kind = FailureClass.VERIFY_INFRA if is_gold_verified else FailureClass.TASK_DEFECT
        is_missing = as_json is None and as_text is None
        message = (
            "the verifier wrote no reward" if is_missing else "the verifier's reward cannot be read"
        )
        raise fail(kind, message, by_policy=is_gold_verified)
    return Grade(min(rewards), details, storable(result.output), time.monotonic() - started)


def _is_killed(result: ExecResult) -> bool:
    return result.exit_code > 128


def _in_verify(failure: Failure) -> Failure:
    """The driver's failure, seen from the verifier: its own limits keep their class, the rest is
    verify_infra.
    """
    keeps_class = failure.kind in (FailureClass.OOM, FailureClass.DISK_FULL)
    return Failure(
        FailureStage.VERIFY,
        failure.kind if keeps_class else FailureClass.VERIFY_INFRA,
        failure.message,
        retry_after_s=failure.retry_after_s,
        by_policy=failure.by_policy,
        evidence={"class": str(failure.kind), **failure.evidence},
    )


def _parse(as_json: bytes | None, as_text: bytes | None) -> tuple[list[float], dict[str, Scalar]]:
    """The usable rewards of the two files, and the details of the JSON one."""
    rewards: list[float] = []
    details: dict[str, Scalar] = {}
    try:
        document = orjson.loads(as_json) if as_json is not None else None
    except orjson.JSONDecodeError:
        document = None
    if isinstance(document, dict):
        rewards += _usable(document.pop("reward", None))
        scalars = [(key, value) for key, value in document.items() if isinstance(value, Scalar)]
        details = {
            storable(key): storable(value) if isinstance(value, str) else value
            for key, value in scalars[:MAX_DETAILS]
        }
    if as_text is not None:
        with suppress(ValueError):
            rewards += _usable(float(as_text))
    return rewards, details


def _usable(reward: object) -> list[float]:
    """[reward] if it is a finite number in [0, 1], else []."""
    if isinstance(reward, bool) or not isinstance(reward, int | float):
        return []
    return [float(reward)] if math.isfinite(reward) and 0 <= reward <= 1 else []


# A tar of an overlay's upper layer onto the template: first everything that the layer hides, then
# the layer. Names are the agent's: NUL-separated, never expanded by the shell, and all of this runs
# inside the sandbox.
_RESTORE = f"""
set -e
top=$PWD
mkdir {RESTORE_DIR}/layer
cd {RESTORE_DIR}/layer
tar -xf ../changes.tar
find . -mindepth 1 -print0 | while IFS= read -r -d '' path; do
  name=${{path##*/}} parent=$top/${{path%/*}}
  case $name in
    .wh..wh..opq) rm -f -- "$path"; [ ! -d "$parent" ] || find "$parent" -mindepth 1 -delete ;;
    .wh.*) rm -rf -- "$parent/${{name#.wh.}}" "$path" ;;
    *) if [ -L "$path" ] || [ ! -d "$path" ] || [ -L "$top/$path" ] || [ ! -d "$top/$path" ]
       then rm -rf -- "$top/$path"; fi ;;
  esac
done
cp -a . "$top/"
cd "$top"
rm -rf {RESTORE_DIR}
"""


def restore(sandbox: Sandbox, changes: bytes, *, timeout_s: float = 60.0) -> None:
    """Bring a fresh sandbox of the same template to the state that `Sandbox.changes` saved.

    Needs bash, tar, find and cp in the image. Raises Failure(verify, verify_infra | oom |
    disk_full).
    """
    try:
        files = {"changes.tar": changes, "restore.sh": _RESTORE.encode()}
        sandbox.write_files(files, root=RESTORE_DIR)
        result = sandbox.exec(f"bash {RESTORE_DIR}/restore.sh", timeout_s=timeout_s)
        sandbox.kill_processes()
    except Failure as failure:
        raise _in_verify(failure) from failure
    if result.exit_code != 0:
        raise Failure(
            FailureStage.VERIFY,
            FailureClass.VERIFY_INFRA,
            "the saved changes could not be restored",
            evidence={"exit_code": result.exit_code, "output": result.output[-MAX_EVIDENCE_CHARS:]},
        )

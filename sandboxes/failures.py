"""What can go wrong around an agent, and what each failure may do to a reward.

A `Failure` is raised where the cause is known, with the stage it happened in and one class of the
taxonomy (docs: domain.md, "Outcome taxonomy"). Everything that is not a `Failure` is `unknown` and
fails closed: no reward, at most one more try. Standard library only: drivers and workers import it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol


class FailureStage(StrEnum):
    """Where in the life of an attempt, or of a step, the failure was noticed."""

    ADMIT = "admit"
    IMAGE = "image"
    START = "start"
    SETUP = "setup"
    INFER = "infer"
    EXEC = "exec"
    COLLECT = "collect"
    VERIFY = "verify"
    TEARDOWN = "teardown"
    INGEST = "ingest"
    TRAIN = "train"
    CHECKPOINT = "checkpoint"
    PUBLISH = "publish"


class FailureClass(StrEnum):
    """Infrastructure classes only: what the policy did is a stop reason, never a failure."""

    CAPACITY = "capacity"
    RATE_LIMIT = "rate_limit"
    START_TIMEOUT = "start_timeout"
    BOOT_FAIL = "boot_fail"
    IMAGE_ERROR = "image_error"
    LOST = "lost"
    TRANSPORT = "transport"
    OOM = "oom"
    DISK_FULL = "disk_full"
    INFER_INFRA = "infer_infra"
    VERIFY_INFRA = "verify_infra"
    VERIFY_TIMEOUT = "verify_timeout"
    TASK_DEFECT = "task_defect"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Policy:
    """What the scheduler does with a class: how many further attempts it grants."""

    retries: int
    waits: bool = False
    """The refusal was of capacity: the attempt goes back to the queue and does not count as one."""


POLICIES: dict[FailureClass, Policy] = {
    FailureClass.CAPACITY: Policy(retries=0, waits=True),
    FailureClass.RATE_LIMIT: Policy(retries=0, waits=True),
    FailureClass.START_TIMEOUT: Policy(retries=3),
    FailureClass.BOOT_FAIL: Policy(retries=3),
    FailureClass.IMAGE_ERROR: Policy(retries=2),
    FailureClass.LOST: Policy(retries=3),
    FailureClass.TRANSPORT: Policy(retries=3),
    FailureClass.OOM: Policy(retries=1),
    FailureClass.DISK_FULL: Policy(retries=1),
    FailureClass.INFER_INFRA: Policy(retries=5),
    FailureClass.VERIFY_INFRA: Policy(retries=2),
    FailureClass.VERIFY_TIMEOUT: Policy(retries=1),
    FailureClass.TASK_DEFECT: Policy(retries=0),
    FailureClass.UNKNOWN: Policy(retries=1),
}


class Failure(Exception):
    """The infrastructure failed: no reward may be derived from the attempt it ends.

    by_policy: the agent's own commands hit the sandbox's memory or disk limit, or killed the box;
    the second such attempt is attributed to the policy and scores 0 (domain.md, "Attribution").
    """

    def __init__(
        self,
        stage: FailureStage,
        kind: FailureClass,
        message: str,
        *,
        retry_after_s: float | None = None,
        by_policy: bool = False,
        evidence: dict[str, object] | None = None,
    ) -> None:
        super().__init__(f"{stage}/{kind}: {message}")
        self.stage = stage
        self.kind = kind
        self.message = storable(message)
        self.retry_after_s = retry_after_s
        self.by_policy = by_policy
        self.evidence = evidence or {}

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.stage, self.kind, self.message)


class Cause(Protocol):
    """What attribution looks at: a `Failure`, or a stored row of one."""

    @property
    def kind(self) -> FailureClass: ...

    @property
    def by_policy(self) -> bool: ...


ATTRIBUTABLE = frozenset(
    {
        FailureClass.LOST,
        FailureClass.OOM,
        FailureClass.DISK_FULL,
        FailureClass.VERIFY_TIMEOUT,
        FailureClass.VERIFY_INFRA,
    }
)


def attribute(failure: Cause, previous: Sequence[Cause]) -> Literal["policy", "infra"]:
    """Who answers for a broken box: the policy (reward 0) or the infrastructure (reward NULL).

    previous: the failures of the same trajectory before this one, attempts and re-verifications
    alike. The policy answers from the second time on that its own work broke the box, in whatever
    way: an agent that fills the disk first and kills the box next has not found a way round its
    zero. One suspicion alone proves nothing.
    """

    def is_suspect(cause: Cause) -> bool:
        return cause.by_policy and cause.kind in ATTRIBUTABLE

    return "policy" if is_suspect(failure) and any(map(is_suspect, previous)) else "infra"


def storable(text: str) -> str:
    """Without what PostgreSQL takes in no text: a failure that quotes a box must still be told."""
    return text.encode(errors="replace").decode().replace("\0", "\ufffd")


_VARYING = (
    (re.compile(r"https?://[^\s'\"]+"), "URL"),
    (re.compile(r"0x[0-9a-fA-F]+"), "HEX"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"\b[0-9a-f]{12,64}\b"), "ID"),
    (re.compile(r"(?:/[\w.@+-]+){2,}"), "PATH"),
    (re.compile(r"\d+(?:\.\d+)?"), "N"),
)


def fingerprint(stage: FailureStage, kind: FailureClass, message: str) -> str:
    """`v1:{stage}:{class}:{message without what varies}`; one fingerprint is one failure group."""
    text = " ".join(message.split())
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return f"v1:{stage}:{kind}:{text[:200]}"

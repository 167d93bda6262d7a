"""Who answers for a broken box (sandboxes.failures.attribute), on failures as the driver and the
verifier raise them.
"""

import pytest

from sandboxes.failures import ATTRIBUTABLE, Failure, FailureClass, FailureStage, attribute


def failure(kind: FailureClass, *, by_policy: bool) -> Failure:
    return Failure(FailureStage.EXEC, kind, "the box broke", by_policy=by_policy)


@pytest.mark.parametrize("kind", sorted(ATTRIBUTABLE))
def test_one_suspicion_is_not_enough_and_two_are(kind: FailureClass) -> None:
    suspicion = failure(kind, by_policy=True)
    assert attribute(suspicion, []) == "infra"
    assert attribute(suspicion, [suspicion]) == "policy"


def test_an_agent_cannot_escape_by_breaking_its_box_in_another_way() -> None:
    first = failure(FailureClass.DISK_FULL, by_policy=True)
    between = failure(FailureClass.INFER_INFRA, by_policy=False)
    second = failure(FailureClass.LOST, by_policy=True)
    assert attribute(second, [first, between]) == "policy"


def test_a_box_that_the_machine_broke_is_never_the_policys() -> None:
    lost = failure(FailureClass.LOST, by_policy=False)
    suspicion = failure(FailureClass.LOST, by_policy=True)
    assert attribute(lost, [lost, lost, lost]) == "infra"
    assert attribute(lost, [suspicion]) == "infra"
    assert attribute(suspicion, [lost]) == "infra"


@pytest.mark.parametrize("kind", sorted(set(FailureClass) - ATTRIBUTABLE))
def test_classes_outside_the_agents_reach_are_never_the_policys(kind: FailureClass) -> None:
    suspicion = failure(kind, by_policy=True)
    assert attribute(suspicion, [failure(FailureClass.LOST, by_policy=True)]) == "infra"

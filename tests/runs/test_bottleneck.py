from runs.bottleneck import StepTimes, bottleneck


def step(wait: float, update: float = 9.0, logprob: float = 1.0) -> StepTimes:
    return StepTimes(wait_s=wait, logprob_s=logprob, update_s=update)


def test_without_a_finished_step_there_is_no_verdict() -> None:
    verdict = bottleneck([], num_ready=3)

    assert (verdict.bound, verdict.wait_share, verdict.num_steps) == ("none", None, 0)


def test_a_trainer_that_waits_for_half_of_its_time_is_bound_by_rollouts() -> None:
    verdict = bottleneck([step(10.0)] * 4, num_ready=0)

    assert verdict.bound == "rollout"
    assert verdict.wait_share == 0.5
    assert "waited 10.0 of 20.0 s a step (50%) over the last 4 steps" in verdict.sentence


def test_a_trainer_that_hardly_waits_is_what_ready_groups_wait_for() -> None:
    verdict = bottleneck([step(0.5)] * 3, num_ready=7)

    assert verdict.bound == "trainer"
    assert "7 ready groups wait for it" in verdict.sentence


def test_between_the_thresholds_it_is_balanced() -> None:
    assert bottleneck([step(4.0)], num_ready=1).bound == "balanced"


def test_only_the_last_ten_steps_count() -> None:
    verdict = bottleneck([step(1_000.0)] * 5 + [step(0.0)] * 10, num_ready=1)

    assert (verdict.bound, verdict.num_steps) == ("trainer", 10)


def test_one_long_wait_among_many_is_named() -> None:
    steps = [step(1.0)] * 9 + [step(91.0)]

    assert "91% of it in one of them" in bottleneck(steps, num_ready=0).sentence
    assert "one of them" not in bottleneck([step(10.0)] * 10, num_ready=0).sentence

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from workers.engines.reference.cache import Cache
from workers.engines.reference.model import Model, init_model, save_model
from workers.engines.reference.sampling import Sampling
from workers.engines.reference.scheduler import Request, Scheduler

CONFIG: dict[str, Any] = {
    "model_type": "qwen3",
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 96,
    "tie_word_embeddings": True,
}


def make_scheduler(model: Model, **overrides: Any) -> Scheduler:
    num_slots = overrides.pop("num_slots", 8)
    cache = Cache(model.config, num_slots=num_slots, context_length=96)
    options: dict[str, Any] = {
        "model_dir": Path(),
        "weight_version": "0",
        "max_running": 4,
        "seed": 1,
    }
    return Scheduler(model, cache, **options | overrides)


@pytest.fixture
def model() -> Model:
    return init_model(CONFIG, seed=3)


def ask(ids: list[int], rid: str = "r", stop_ids: tuple[int, ...] = (), **sampling: Any) -> Request:
    return Request(rid, list(ids), Sampling.parse(sampling), frozenset(stop_ids), lambda *_: None)


def random_ids(num: int, seed: int) -> list[int]:
    return torch.randint(0, 61, (num,), generator=torch.Generator().manual_seed(seed)).tolist()


def run(scheduler: Scheduler, *requests: Request) -> None:
    for request in requests:
        scheduler.submit(request)
    while scheduler.has_work:
        scheduler.step()


def assert_log_probs_are_a_training_passes(model: Model, request: Request) -> None:
    """What the trainer recomputes for the sampled tokens, at the sampler's temperature."""
    ids = request.ids + request.output_ids
    with torch.no_grad():
        logits = model.logits(model.hidden(torch.tensor([ids])))[0]
    log_probs = (logits / (request.sampling.temperature or 1.0)).log_softmax(-1)
    first = len(request.ids)
    expected = log_probs[range(first - 1, len(ids) - 1), ids[first:]]
    torch.testing.assert_close(torch.tensor(request.log_probs), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0, 1.3])
def test_log_probs_equal_a_training_pass_at_every_temperature(
    model: Model, temperature: float
) -> None:
    requests = [
        ask(random_ids(5 + 9 * i, i), temperature=temperature, max_new_tokens=4 + 3 * i)
        for i in range(7)
    ]
    run(make_scheduler(model), *requests)
    for request in requests:
        assert len(request.output_ids) == request.sampling.max_new_tokens
        assert_log_probs_are_a_training_passes(model, request)


def test_requests_that_join_and_leave_between_steps_change_nothing(model: Model) -> None:
    requests = [
        ask(random_ids(8 + i, i), max_new_tokens=3 + i, sampling_seed=i, temperature=1.1)
        for i in range(6)
    ]
    together = make_scheduler(model)
    for request in requests:  # one joins at each step
        together.submit(request)
        together.step()
    run(together)
    for i, request in enumerate(requests):
        alone = ask(request.ids, max_new_tokens=3 + i, sampling_seed=i, temperature=1.1)
        run(make_scheduler(model), alone)
        assert alone.output_ids == request.output_ids
        assert_log_probs_are_a_training_passes(model, request)


def test_the_next_turn_computes_only_what_is_new_and_gives_the_same(model: Model) -> None:
    scheduler = make_scheduler(model)
    ids = random_ids(20, 0)
    for turn in range(4):
        request = ask(ids, max_new_tokens=6)
        run(scheduler, request)
        # The last sampled token was never fed: it is the one to compute besides the observation.
        assert request.num_cached == (0 if turn == 0 else len(ids) - 6)
        assert_log_probs_are_a_training_passes(model, request)
        ids = ids + request.output_ids + random_ids(5, turn)


def test_siblings_share_a_prompt_without_touching_each_other(model: Model) -> None:
    scheduler = make_scheduler(model)
    prompt = random_ids(30, 0)
    first = ask(prompt, max_new_tokens=8)
    run(scheduler, first)
    siblings = [ask(prompt, max_new_tokens=8) for _ in range(3)]
    run(scheduler, *siblings)
    assert [s.num_cached for s in siblings] == [29, 29, 29]
    again = ask(prompt + first.output_ids + [1, 2], max_new_tokens=4)
    run(scheduler, again)
    assert again.num_cached == 37
    for request in (first, *siblings, again):
        assert_log_probs_are_a_training_passes(model, request)


def test_more_sequences_than_slots_evict_the_one_unused_for_longest(model: Model) -> None:
    scheduler = make_scheduler(model, num_slots=4)
    first_turns = [ask(random_ids(20, i), max_new_tokens=2) for i in range(5)]
    for turn in first_turns:
        run(scheduler, turn)
    cached = []
    for turn in first_turns[::-1]:
        request = ask([*turn.ids, *turn.output_ids, 7], max_new_tokens=2)
        run(scheduler, request)
        cached.append(request.num_cached)
        assert_log_probs_are_a_training_passes(model, request)
    assert cached[:4] == [21, 21, 21, 21]
    assert cached[4] < 20


def test_a_stop_token_ends_a_request_and_is_part_of_it(model: Model) -> None:
    probe = ask([1, 2, 3], max_new_tokens=8, temperature=0.0)
    run(make_scheduler(model), probe)
    stop = probe.output_ids[2]
    request = ask([1, 2, 3], stop_ids=(stop,), max_new_tokens=8, temperature=0.0)
    run(make_scheduler(model), request)
    assert request.finish_reason == {"type": "stop", "matched": stop}
    assert request.output_ids == probe.output_ids[: probe.output_ids.index(stop) + 1]


def test_a_full_queue_refuses_and_what_runs_does_not_count(model: Model) -> None:
    scheduler = make_scheduler(model, max_running=2, max_queued=1)
    requests = [ask([1], rid=str(i), max_new_tokens=3) for i in range(4)]
    for request in requests:
        scheduler.submit(request)
    refused = requests[3].finish_reason
    assert refused is not None
    assert refused["status_code"] == 503
    assert refused["message"] == "The request queue is full."
    run(scheduler)
    assert [len(r.output_ids) for r in requests] == [3, 3, 3, 0]


def test_retracted_requests_go_on_under_new_weights_with_a_span_for_each(
    model: Model, tmp_path: Path
) -> None:
    save_model(init_model(CONFIG, seed=4), tmp_path)
    scheduler = make_scheduler(model)
    request = ask(random_ids(10, 0), max_new_tokens=9)
    scheduler.submit(request)
    for _ in range(4):
        scheduler.step()
    before = list(request.output_ids)
    old = init_model(CONFIG, seed=3)
    scheduler.pause("retract")
    assert not scheduler.has_work
    outcome: list[str] = []
    scheduler.update_weights(tmp_path, outcome.append, weight_version="1")
    assert outcome == [""]
    scheduler.resume()
    run(scheduler)
    assert request.spans == [("0", 0), ("1", 4)]
    assert request.num_retractions == 1
    assert request.output_ids[:4] == before
    assert len(request.output_ids) == 9
    # Each part's log-probabilities are its own weights'.
    head = ask(request.ids, max_new_tokens=4)
    head.output_ids, head.log_probs = before, request.log_probs[:4]
    assert_log_probs_are_a_training_passes(old, head)
    tail = ask(request.ids + before, max_new_tokens=5)
    tail.output_ids, tail.log_probs = request.output_ids[4:], request.log_probs[4:]
    assert_log_probs_are_a_training_passes(init_model(CONFIG, seed=4), tail)


def test_retracted_requests_come_before_those_that_never_ran(model: Model) -> None:
    scheduler = make_scheduler(model, max_running=2)
    requests = [ask([i], rid=str(i), max_new_tokens=4) for i in range(4)]
    for request in requests:
        scheduler.submit(request)
    scheduler.step()
    scheduler.pause("retract")
    assert [r.rid for r in scheduler.waiting] == ["0", "1", "2", "3"]
    assert not scheduler.cache.is_taken.any()
    scheduler.resume()
    run(scheduler)
    assert [len(r.output_ids) for r in requests] == [4, 4, 4, 4]
    for request in requests:
        assert_log_probs_are_a_training_passes(model, request)


def test_in_place_keeps_the_keys_so_a_flush_is_refused_and_the_old_version_stays(
    model: Model, tmp_path: Path
) -> None:
    save_model(init_model(CONFIG, seed=4), tmp_path)
    scheduler = make_scheduler(model)
    request = ask(random_ids(10, 0), max_new_tokens=6)
    scheduler.submit(request)
    scheduler.step()
    scheduler.pause("in_place")
    outcome: list[str] = []
    scheduler.update_weights(tmp_path, outcome.append, weight_version="1")
    assert "flush_cache false" in outcome[0]
    assert scheduler.weight_version == "0"
    assert not scheduler.flush()
    scheduler.update_weights(tmp_path, outcome.append, weight_version="1", must_flush=False)
    scheduler.resume()
    run(scheduler)
    assert outcome[1] == ""
    assert request.spans == [("0", 0), ("1", 1)]
    assert request.num_retractions == 0


def test_an_update_without_a_pause_waits_for_what_came_before_and_holds_up_what_came_after(
    model: Model, tmp_path: Path
) -> None:
    save_model(init_model(CONFIG, seed=4), tmp_path)
    scheduler = make_scheduler(model, max_running=1)
    before = [ask([1, 2], rid=f"before-{i}", max_new_tokens=4) for i in range(2)]
    for request in before:
        scheduler.submit(request)
    scheduler.step()
    outcome: list[str] = []
    scheduler.update_weights(tmp_path, outcome.append, weight_version="1")
    after = ask([3, 4], rid="after", max_new_tokens=4)
    scheduler.submit(after)
    assert not outcome
    run(scheduler)
    assert outcome == [""]
    assert [r.spans for r in (*before, after)] == [[("0", 0)], [("0", 0)], [("1", 0)]]


@pytest.mark.parametrize("fault", ["nowhere", "other_shape", "damaged"])
def test_weights_that_cannot_be_loaded_leave_the_old_ones_serving(
    model: Model, tmp_path: Path, fault: str
) -> None:
    path = tmp_path / "weights"
    if fault != "nowhere":
        width = {"hidden_size": 16} if fault == "other_shape" else {}
        save_model(init_model(CONFIG | width, seed=4), path)
    if fault == "damaged":
        (path / "model.safetensors").write_bytes(b"\0" * 100)
    scheduler = make_scheduler(model)
    first = ask([1, 2, 3], max_new_tokens=5, temperature=0.0)
    run(scheduler, first)
    outcome: list[str] = []
    scheduler.update_weights(path, outcome.append, weight_version="1")
    assert outcome[0]
    assert scheduler.weight_version == "0"
    again = ask([1, 2, 3], max_new_tokens=5, temperature=0.0)
    run(scheduler, again)
    assert again.output_ids == first.output_ids


def test_new_weights_forget_every_cached_prefix(model: Model, tmp_path: Path) -> None:
    save_model(init_model(CONFIG, seed=4), tmp_path)
    scheduler = make_scheduler(model)
    prompt = random_ids(20, 0)
    run(scheduler, ask(prompt, max_new_tokens=2))
    scheduler.update_weights(tmp_path, lambda _: None, weight_version="1")
    request = ask(prompt, max_new_tokens=2)
    run(scheduler, request)
    assert request.num_cached == 0
    assert_log_probs_are_a_training_passes(init_model(CONFIG, seed=4), request)


def test_abort_ends_by_prefix_and_keeps_what_was_sampled(model: Model) -> None:
    scheduler = make_scheduler(model, max_running=1)
    running, queued, other = (ask([1], rid=rid, max_new_tokens=5) for rid in ("a-1", "a-2", "b-1"))
    for request in (running, queued, other):
        scheduler.submit(request)
    scheduler.step()
    scheduler.step()
    scheduler.abort("a-")
    run(scheduler)
    for request, num_tokens in ((running, 2), (queued, 0)):
        assert request.finish_reason is not None
        assert request.finish_reason["type"] == "abort"
        assert len(request.output_ids) == num_tokens
    assert len(other.output_ids) == 5


def test_a_pause_by_abort_ends_all_and_new_requests_wait(model: Model) -> None:
    scheduler = make_scheduler(model)
    request = ask([1], max_new_tokens=5)
    scheduler.submit(request)
    scheduler.step()
    scheduler.pause("abort")
    late = ask([2], max_new_tokens=2)
    scheduler.submit(late)
    assert request.finish_reason is not None
    assert not scheduler.has_work
    scheduler.resume()
    run(scheduler)
    assert len(late.output_ids) == 2


def test_every_request_is_finished_exactly_once(model: Model) -> None:
    scheduler = make_scheduler(model, max_queued=3)
    requests = [ask([i], rid=str(i), max_new_tokens=1 + i % 4) for i in range(9)]
    for request in requests:
        scheduler.submit(request)
        scheduler.step()
        scheduler.abort("3")
    run(scheduler)
    scheduler.abort("")
    ends = [request.rid for request, _, reason in scheduler.outbox if reason]
    assert sorted(ends) == [str(i) for i in range(9)]
    assert not scheduler.cache.is_taken.any()


def test_a_probe_notices_weights_that_are_not_numbers(model: Model) -> None:
    scheduler = make_scheduler(model)
    assert scheduler.probe()
    model.norm.weight.data[0] = float("nan")
    assert not scheduler.probe()

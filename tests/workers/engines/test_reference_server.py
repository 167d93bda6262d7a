"""Every endpoint of the reference engine, against a real process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

from sandboxes.failures import Failure, FailureClass
from tests.workers.engines.conftest import CONTEXT_LENGTH, VOCAB_SIZE
from workers.engines.client import EngineClient, Generation
from workers.engines.reference.model import load_model
from workers.engines.server import EngineProcess, start_reference

LONG = 480
"""Tokens that take the tiny model a good part of a second: time to do something meanwhile."""


@pytest.fixture
def http(engine: EngineProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=engine.url, timeout=30) as http:
        yield http


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as threads:
        yield threads


def wait_until(is_so: Callable[[], bool], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.005)


def load(client: EngineClient, name: str) -> float:
    return float(client.loads()["aggregate"][name])


def start_long(
    client: EngineClient, threads: ThreadPoolExecutor, rid: str = "long"
) -> Future[Generation]:
    """A request that is running when this returns."""
    before = load(client, "num_running_reqs")
    future = threads.submit(client.generate, [1, 2, 3], rid=rid, max_new_tokens=LONG)
    wait_until(lambda: load(client, "num_running_reqs") > before)
    return future


# -- generation -----------------------------------------------------------------------------------


def test_generate_answers_as_sglang_documents(client: EngineClient, http: httpx.Client) -> None:
    body = {
        "rid": "r-1",
        "input_ids": [5, 6, 7],
        "sampling_params": {"max_new_tokens": 4, "temperature": 0.7},
        "return_logprob": True,
    }
    answer = http.post("/generate", json=body).json()
    meta = answer["meta_info"]
    assert len(answer["output_ids"]) == 4
    assert [entry[1:] for entry in meta["output_token_logprobs"]] == [
        [token, None] for token in answer["output_ids"]
    ]
    assert meta["id"] == "r-1"
    assert meta["finish_reason"] == {"type": "length", "length": 4}
    assert (meta["prompt_tokens"], meta["completion_tokens"]) == (3, 4)
    assert meta["weight_version"] == "3"
    assert meta["weight_versions"] == [{"version": "3", "start": 0, "end": 4}]
    assert meta["num_retractions"] == 0
    assert meta["e2e_latency"] >= meta["queue_time"] >= 0
    assert "text" not in answer


def test_a_streamed_answer_is_cumulative_and_ends_with_the_whole(
    client: EngineClient, http: httpx.Client
) -> None:
    body = {"input_ids": [5], "sampling_params": {"max_new_tokens": 30}, "stream": True}
    body["return_logprob"] = True
    with http.stream("POST", "/generate", json=body) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line.removeprefix("data: ") for line in response.iter_lines() if line]
    assert lines.pop() == "[DONE]"
    events = [json.loads(line) for line in lines]
    final = events[-1]["output_ids"]
    assert len(final) == 30
    for event in events:
        ids = event["output_ids"]
        assert ids == final[: len(ids)]
        assert len(event["meta_info"]["output_token_logprobs"]) == len(ids)
        assert event["meta_info"]["weight_versions"][-1]["end"] == len(ids)
        assert (event["meta_info"]["finish_reason"] is None) == (event is not events[-1])


def test_the_same_seed_gives_the_same_tokens_and_none_gives_others(client: EngineClient) -> None:
    def sample(seed: int | None) -> list[int]:
        sampling = {"sampling_seed": seed}
        return client.generate([1], rid="s", max_new_tokens=20, sampling=sampling).output_ids

    assert sample(7) == sample(7)
    assert sample(7) != sample(8)
    assert sample(None) != sample(None)


def test_log_probs_are_a_training_passes_over_turns_and_in_any_company(
    client: EngineClient, threads: ThreadPoolExecutor, weights: list[Path]
) -> None:
    model = load_model(weights[0])

    def play(number: int) -> tuple[list[int], list[float], list[int]]:
        """Three turns that extend each other; the token ids and, where sampled, log-probabilities."""
        ids, log_probs, cached = list(range(1, 20 + number)), [0.0] * (19 + number), []
        for turn in range(3):
            rid = f"{number}-{turn}"
            generation = client.generate(ids, rid=rid, max_new_tokens=5 + number, temperature=0.8)
            cached.append(generation.cached_tokens)
            observation = [number, turn, 9, 9]
            ids = ids + generation.output_ids + observation
            log_probs = log_probs + generation.logprobs + [0.0] * 4
        return ids, log_probs, cached

    for ids, log_probs, cached in threads.map(play, range(4)):  # 2 run, 2 wait
        with torch.no_grad():
            logits = model.logits(model.hidden(torch.tensor([ids])))[0] / 0.8
        expected = logits.log_softmax(-1)[range(len(ids) - 1), ids[1:]]
        sampled = torch.tensor(log_probs[1:])
        is_sampled = sampled != 0
        torch.testing.assert_close(sampled[is_sampled], expected[is_sampled], atol=1e-4, rtol=0)
        assert cached[2] > cached[1] > 15


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"input_ids": [1] * CONTEXT_LENGTH}, "longer than the model's context length"),
        ({"input_ids": [1] * (CONTEXT_LENGTH - 3)}, "maximum context length"),
        ({"input_ids": [1, VOCAB_SIZE]}, f"Token id {VOCAB_SIZE} is out of range"),
        ({"input_ids": [1, -1]}, "Token id -1 is out of range"),
        ({"input_ids": []}, "non-empty list of integers"),
        ({"input_ids": [[1], [2]]}, "non-empty list of integers"),
        ({"input_ids": [1, 2.5]}, "non-empty list of integers"),
        ({"input_ids": [True]}, "non-empty list of integers"),
        ({"input_ids": None}, "Either text or input_ids"),
        ({"text": "hello"}, "Either text or input_ids"),
        ({"input_ids": None, "text": "hello"}, "holds no tokenizer"),
        ({"sampling_params": {"temperature": -0.1}}, "temperature"),
        ({"sampling_params": {"temperature": "hot"}}, "temperature"),
        ({"sampling_params": {"top_p": 0}}, "top_p"),
        ({"sampling_params": {"top_k": 0}}, "top_k"),
        ({"sampling_params": {"max_new_tokens": 0}}, "max_new_tokens"),
        ({"sampling_params": {"temprature": 1}}, "temprature"),
        ({"sampling_params": {"n": 2}}, "n is not supported"),
        ({"sampling_params": {"regex": "a+"}}, "regex is not supported"),
        ({"sampling_params": [1]}, "sampling_params"),
        ({"lora_path": "x"}, "lora_path is not supported"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_sentence(
    client: EngineClient, http: httpx.Client, change: dict[str, Any], complaint: str
) -> None:
    body = {"input_ids": [1, 2], "sampling_params": {"max_new_tokens": 4}} | change
    response = http.post("/generate", json=body)
    assert response.status_code == 400
    assert complaint in response.json()["error"]["message"]
    assert client.health_generate()


def test_a_body_that_is_not_a_json_object_is_refused(http: httpx.Client) -> None:
    for content in (b"{", b"[1]", b"\xff"):
        response = http.post("/generate", content=content)
        assert response.status_code == 400
        assert "JSON" in response.json()["error"]["message"]
    assert http.get("/no_such_path").status_code == 404


def test_a_full_queue_answers_503_as_sglang_does(
    client: EngineClient, http: httpx.Client, threads: ThreadPoolExecutor
) -> None:
    futures = [start_long(client, threads, rid=f"running-{i}") for i in range(2)]
    queued = [f"queued-{i}" for i in range(2)]
    futures += [threads.submit(client.generate, [1], rid=r, max_new_tokens=LONG) for r in queued]
    wait_until(lambda: load(client, "num_waiting_reqs") == 2)
    response = http.post("/generate", json={"input_ids": [1]})
    assert response.status_code == 503
    assert response.json() == {
        "object": "error",
        "message": "The request queue is full.",
        "type": "503",
        "code": 503,
    }
    with pytest.raises(Failure) as caught:
        client.generate([1], rid="late", max_new_tokens=4)
    assert caught.value.kind == FailureClass.CAPACITY
    body = {"input_ids": [1], "stream": True}
    events = [line for line in http.post("/generate", json=body).text.splitlines() if line]
    assert json.loads(events[0].removeprefix("data: "))["error"]["code"] == 503
    assert [len(f.result().output_ids) for f in futures] == [LONG] * 4


def test_the_load_names_the_longest_sequence_that_is_running(
    client: EngineClient, threads: ThreadPoolExecutor
) -> None:
    assert load(client, "longest_req_tokens") == 0
    future = start_long(client, threads)
    assert 3 < load(client, "longest_req_tokens") <= 3 + LONG
    client.abort("long")
    with pytest.raises(Failure):
        future.result()


# -- abort, pause, update -------------------------------------------------------------------------


def test_abort_ends_a_running_request_with_what_it_has(
    client: EngineClient, http: httpx.Client, threads: ThreadPoolExecutor
) -> None:
    body = {"rid": "job-7", "input_ids": [1], "sampling_params": {"max_new_tokens": LONG}}
    future = threads.submit(http.post, "/generate", json=body)
    wait_until(lambda: load(client, "num_running_reqs") == 1)
    assert http.post("/abort_request", json={"rid": "nobody"}).status_code == 200
    assert load(client, "num_running_reqs") == 1
    assert http.post("/abort_request", json={"rid": "job-"}).status_code == 200
    answer = future.result().json()
    reason = answer["meta_info"]["finish_reason"]
    assert (reason["type"], reason["status_code"]) == ("abort", None)
    assert 0 < len(answer["output_ids"]) < LONG


def test_an_abort_is_an_infrastructure_failure_for_the_client(
    client: EngineClient, threads: ThreadPoolExecutor
) -> None:
    future = start_long(client, threads)
    client.abort("long")
    with pytest.raises(Failure, match="aborted") as caught:
        future.result()
    assert caught.value.kind == FailureClass.INFER_INFRA


def test_abort_all_empties_the_engine(
    client: EngineClient, http: httpx.Client, threads: ThreadPoolExecutor
) -> None:
    futures = [start_long(client, threads, rid=f"r-{i}") for i in range(2)]
    assert http.post("/abort_request", json={"abort_all": True}).status_code == 200
    for future in futures:
        with pytest.raises(Failure):
            future.result()
    wait_until(lambda: load(client, "num_total_reqs") == 0)


@pytest.mark.parametrize("mode", ["retract", "in_place"])
def test_a_request_running_across_an_update_names_both_versions(
    client: EngineClient, threads: ThreadPoolExecutor, weights: list[Path], mode: Any
) -> None:
    future = start_long(client, threads)
    client.pause(mode)
    late = threads.submit(client.generate, [9], rid="late", max_new_tokens=2)
    assert load(client, "num_running_reqs") == (1 if mode == "in_place" else 0)
    assert client.flush_cache() == (mode == "retract")
    client.update_weights_from_disk(str(weights[1]), 4, flush_cache=mode == "retract")
    assert client.model_info()["weight_version"] == "4"
    assert client.model_info()["model_path"] == str(weights[1])
    assert not future.done()
    client.resume()
    generation = future.result()
    assert len(generation.output_ids) == LONG
    assert set(generation.versions) == {3, 4}
    assert generation.versions == sorted(generation.versions)
    assert late.result().versions == [4, 4]


def test_a_pause_by_abort_ends_running_requests_and_holds_new_ones(
    client: EngineClient, threads: ThreadPoolExecutor
) -> None:
    future = start_long(client, threads)
    client.pause("abort")
    with pytest.raises(Failure):
        future.result()
    late = threads.submit(client.generate, [9], rid="late", max_new_tokens=2)
    wait_until(lambda: load(client, "num_waiting_reqs") == 1)
    assert client.health_generate(), "paused is not stuck"
    client.resume()
    assert len(late.result().output_ids) == 2


def test_an_unknown_mode_is_refused(client: EngineClient, http: httpx.Client) -> None:
    assert http.post("/pause_generation", json={"mode": "gently"}).status_code == 400
    assert len(client.generate([1], rid="r", max_new_tokens=2).output_ids) == 2


def test_an_update_without_a_pause_waits_for_running_requests(
    client: EngineClient, threads: ThreadPoolExecutor, weights: list[Path]
) -> None:
    future = start_long(client, threads)
    client.update_weights_from_disk(str(weights[1]), 4)
    assert set(future.result(timeout=5).versions) == {3}
    assert client.generate([1], rid="r", max_new_tokens=2).versions == [4, 4]


def test_new_weights_give_other_answers_and_cached_prefixes_are_gone(
    client: EngineClient, weights: list[Path]
) -> None:
    prompt = list(range(1, 40))

    def greedy() -> Generation:
        return client.generate(prompt, rid="r", max_new_tokens=12, temperature=0.0)

    old = greedy()
    assert greedy().cached_tokens == len(prompt) - 1
    client.update_weights_from_disk(str(weights[1]), 4)
    new = greedy()
    assert new.cached_tokens == 0
    assert new.logprobs != pytest.approx(old.logprobs, abs=1e-3)
    client.update_weights_from_disk(str(weights[0]), 5)
    assert greedy().logprobs == pytest.approx(old.logprobs, abs=1e-4)


def test_weights_that_cannot_be_loaded_leave_the_old_version(
    client: EngineClient, http: httpx.Client, tmp_path: Path
) -> None:
    body = {"model_path": str(tmp_path / "nowhere"), "weight_version": "9"}
    response = http.post("/update_weights_from_disk", json=body)
    assert response.status_code == 400
    assert response.json()["success"] is False
    assert "nowhere" in response.json()["message"]
    with pytest.raises(Failure, match="did not load"):
        client.update_weights_from_disk(str(tmp_path / "nowhere"), 9)
    assert client.model_info()["weight_version"] == "3"
    assert client.generate([1], rid="r", max_new_tokens=1).versions == [3]
    assert http.post("/update_weights_from_disk", json={}).status_code == 400


def test_an_update_may_abort_what_is_running(
    client: EngineClient, http: httpx.Client, threads: ThreadPoolExecutor, weights: list[Path]
) -> None:
    future = start_long(client, threads)
    body = {"model_path": str(weights[1]), "weight_version": 4, "abort_all_requests": True}
    assert http.post("/update_weights_from_disk", json=body).json()["success"]
    with pytest.raises(Failure, match="aborted"):
        future.result()
    assert client.model_info()["weight_version"] == "4"


def test_a_client_that_goes_away_frees_its_place(
    client: EngineClient, engine: EngineProcess
) -> None:
    body = json.dumps({"input_ids": [1], "sampling_params": {"max_new_tokens": LONG}}).encode()
    with socket.create_connection(("127.0.0.1", int(engine.url.rpartition(":")[2]))) as sock:
        head = f"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        sock.sendall(head.encode() + body)
        wait_until(lambda: load(client, "num_running_reqs") == 1)
    wait_until(lambda: load(client, "num_running_reqs") == 0)
    with httpx.Client() as http:
        assert "sglang:num_aborted_requests_total" in http.get(f"{engine.url}/metrics").text


# -- what it is and how it does -------------------------------------------------------------------


def test_it_says_what_it_is(
    client: EngineClient, http: httpx.Client, engine: EngineProcess
) -> None:
    model, server = client.model_info(), client.server_info()
    assert model["is_generation"] is True
    assert model["vocab_size"] == VOCAB_SIZE
    assert model["boot_id"] == server["boot_id"] == engine.boot_id
    assert server["pid"] == engine.pid
    assert server["context_length"] == CONTEXT_LENGTH
    assert (server["max_running_requests"], server["max_queued_requests"]) == (2, 2)
    assert http.get("/get_model_info").json() == model
    assert http.get("/get_server_info").json() == server
    assert client.health()
    assert http.get("/health").status_code == 200


def test_metrics_have_sglangs_names(client: EngineClient, http: httpx.Client) -> None:
    client.generate([1, 2], rid="r", max_new_tokens=3)
    text = http.get("/metrics").text
    names = """num_running_reqs num_queue_reqs num_used_tokens token_usage cache_hit_rate
        gen_throughput utilization max_total_num_tokens num_paused_reqs num_retracted_reqs
        num_aborted_requests_total num_requests_total prompt_tokens_total generation_tokens_total
        cached_tokens_total time_to_first_token_seconds_count inter_token_latency_seconds_count
        e2e_request_latency_seconds_count queue_time_seconds_count weight_load_duration_seconds"""
    for name in names.split():
        lines = [line for line in text.splitlines() if line.startswith(f"sglang:{name}{{")]
        assert len(lines) == 1, name
        assert 'model_name="' in lines[0]
        float(lines[0].rpartition(" ")[2])


# -- processes ------------------------------------------------------------------------------------


def test_two_engines_live_side_by_side_and_one_that_stopped_is_a_failure(
    start_engine: Callable[..., EngineProcess], client: EngineClient
) -> None:
    other = start_engine(weight_version=8, is_awaited=False)
    with EngineClient(other.url, timeout_s=30) as other_client:
        other.wait_healthy()
        assert other.boot_id != client.model_info()["boot_id"]
        assert other_client.generate([1], rid="r", max_new_tokens=1).versions == [8]
        assert client.generate([1], rid="r", max_new_tokens=1).versions == [3]
        other.stop()
        assert other.poll() is not None
        with pytest.raises(Failure) as caught:
            other_client.generate([1], rid="r", max_new_tokens=1)
        assert caught.value.kind == FailureClass.INFER_INFRA
    assert client.health()


def test_an_engine_without_a_model_fails_to_start_with_its_log(
    tmp_path: Path,
) -> None:
    engine = start_reference(tmp_path / "nowhere", log_path=tmp_path / "log")
    with pytest.raises(Failure) as caught:
        engine.wait_healthy()
    assert caught.value.kind == FailureClass.BOOT_FAIL
    assert "cannot serve" in str(caught.value.evidence["log"])


PARENT = """
import sys, threading, time
from pathlib import Path
from workers.engines.server import start_reference
engines = []
# The thread that starts it ends at once: only the process's end may end the engine.
start = lambda: engines.append(start_reference(Path(sys.argv[1]), log_path=Path(sys.argv[2])))
thread = threading.Thread(target=start)
thread.start()
thread.join()
engines[0].wait_healthy()
time.sleep(0.3)
print(engines[0].pid, engines[0].poll(), flush=True)
time.sleep(600)
"""


def test_kill_9_of_the_parent_ends_the_engine_and_the_end_of_its_thread_does_not(
    weights: list[Path], tmp_path: Path
) -> None:
    command = [sys.executable, "-c", PARENT, str(weights[0]), str(tmp_path / "log")]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid, status = parent.stdout.readline().split()
    assert status == "None"
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()

    def is_gone() -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except FileNotFoundError:
            return True

    wait_until(is_gone)

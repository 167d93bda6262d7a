"""The scripted engine is trusted by many tests, so it has some of its own."""

import http.client
import json
import statistics
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests import scripted_engine
from tests.scripted_engine import Call, Reply, ScriptedEngine, by_turn, lognormal_delay_s

ENGINE = Path(scripted_engine.__file__)


def post(url: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
    connection.request("POST", path, json.dumps(body))
    response = connection.getresponse()
    raw = response.read()
    connection.close()
    return response.status, json.loads(raw) if raw.startswith(b"{") else raw


def generate(url: str, rid: str = "a.0.", ids: list[int] | None = None, **params: Any) -> Any:
    body = {"rid": rid, "input_ids": ids or [1, 2], "sampling_params": params}
    return post(url, "/generate", body)


def test_an_answer_ends_at_its_stop_token_or_at_its_cap_and_says_which() -> None:
    with ScriptedEngine(lambda call: Reply([5, 6, 9, 7])) as engine:
        _, stopped = generate(engine.url, max_new_tokens=10, stop_token_ids=[9])
        _, cut = generate(engine.url, max_new_tokens=2, stop_token_ids=[9])
    assert stopped["output_ids"] == [5, 6, 9]
    assert stopped["meta_info"]["finish_reason"] == {"type": "stop", "matched": 9}
    assert stopped["meta_info"]["output_token_logprobs"][0] == [-0.5, 5, None]
    assert cut["output_ids"] == [5, 6]
    assert cut["meta_info"]["finish_reason"] == {"type": "length", "length": 2}


def test_a_turn_is_found_in_the_request_id() -> None:
    with ScriptedEngine(by_turn([Reply([1]), Reply([2])])) as engine:
        answers = [generate(engine.url, f"x.{turn}.", max_new_tokens=1)[1] for turn in (1, 0, 7)]
    assert [answer["output_ids"] for answer in answers] == [[2], [1], [2]]


def test_an_aborted_call_gets_what_there_was() -> None:
    called = threading.Event()

    def script(call: Call) -> Reply:
        called.set()
        return Reply([1, 2, 3, 4], delay_s=60)

    with ScriptedEngine(script) as engine:
        answers: list[Any] = []
        caller = threading.Thread(
            target=lambda: answers.append(generate(engine.url, max_new_tokens=9))
        )
        caller.start()
        called.wait(10)
        assert post(engine.url, "/abort_request", {"rid": "a.0."})[0] == 200
        caller.join()
    status, answer = answers[0]
    assert status == 200
    assert answer["output_ids"] == [1, 2]
    assert answer["meta_info"]["finish_reason"]["type"] == "abort"


def test_a_call_held_over_a_weight_update_carries_both_versions() -> None:
    called = threading.Event()

    def script(call: Call) -> Reply:
        called.set()
        return Reply([1, 2, 3, 4], delay_s=0.01)

    with ScriptedEngine(script) as engine:
        answers: list[Any] = []
        post(engine.url, "/pause_generation", {"mode": "in_place"})
        caller = threading.Thread(
            target=lambda: answers.append(generate(engine.url, max_new_tokens=9))
        )
        caller.start()
        called.wait(10)
        update = {"model_path": "x", "weight_version": "1"}
        assert post(engine.url, "/update_weights_from_disk", update)[1]["success"]
        post(engine.url, "/continue_generation", {})
        caller.join()
        _, info = post(engine.url, "/model_info", {})
    assert info["weight_version"] == "1"
    assert answers[0][1]["meta_info"]["weight_versions"] == [
        {"version": "0", "start": 0, "end": 2},
        {"version": "1", "start": 2, "end": 4},
    ]


def test_refusals_are_those_of_sglang() -> None:
    with ScriptedEngine(
        lambda call: Reply([1]), context_length=10, vocab_size=5, max_pending=0
    ) as engine:
        assert generate(engine.url, max_new_tokens=9)[0] == 400
        assert generate(engine.url, ids=[5], max_new_tokens=1)[0] == 400
        status, body = generate(engine.url, max_new_tokens=1)
    assert (status, body["message"]) == (503, "The request queue is full.")


def test_delays_are_functions_of_seed_conversation_and_turn_with_the_mean_asked_for() -> None:
    draws = [lognormal_delay_s(1, n, t, mean_s=5, sigma=0.8) for n in range(384) for t in range(10)]
    assert draws[0] == lognormal_delay_s(1, 0, 0, mean_s=5, sigma=0.8)
    assert draws[0] != lognormal_delay_s(2, 0, 0, mean_s=5, sigma=0.8)
    assert statistics.mean(draws) == pytest.approx(5, rel=0.05)
    assert statistics.median(draws) == pytest.approx(5 * 2.718281828 ** (-0.32), rel=0.05)


def test_as_a_process_it_tells_its_url_and_its_cpu_time(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"turns": [{"output_ids": [7]}]}))
    command = [sys.executable, str(ENGINE), "--script", str(script), "--mean", "0.001"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        assert generate(url, max_new_tokens=1)[1]["output_ids"] == [7]
        _, figures = post(url, "/cpu", {})
        process.terminate()
        last = json.loads(process.stdout.readline())
    assert figures["num_calls"] == last["num_calls"] == 1
    assert 0 < figures["cpu_s"] <= last["cpu_s"]

"""The states that a healthy engine process shows too briefly to test: starting, stuck, with text."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from tokenizers import Tokenizer

from tests.workers.engines.conftest import CONFIG
from tests.workers.engines.test_chat import byte_tokenizer
from workers.engines.client import EngineClient
from workers.engines.reference.app import App, Identity
from workers.engines.reference.cache import Cache
from workers.engines.reference.model import init_model
from workers.engines.reference.scheduler import Scheduler

Serve = Callable[..., EngineClient]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves an App on a real socket from a thread of this process."""
    servers: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(
        *, before_loading: Callable[[], Any] = list, tokenizer: Tokenizer | None = None
    ) -> EngineClient:
        def build() -> Scheduler:
            before_loading()
            model = init_model(CONFIG | {"vocab_size": 300}, seed=0)
            cache = Cache(model.config, num_slots=4, context_length=64)
            return Scheduler(model, cache, model_dir=Path(), max_running=2)

        app = App(
            build,
            Identity(context_length=64),
            model_name="test",
            eos_ids=frozenset({7}),
            tokenizer=tokenizer,
            probe_timeout_s=0.2,
        )
        listener = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        servers.append((server, thread))
        start.app = app  # type: ignore[attr-defined]
        return EngineClient(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout_s=20)

    yield start
    for server, thread in servers:
        server.should_exit = True
        thread.join()


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_it_answers_503_until_its_model_is_loaded(serve: Serve) -> None:
    may_load = threading.Event()
    client = serve(before_loading=may_load.wait)
    for path in ("/health", "/health_generate", "/model_info"):
        response = httpx.get(client.base_url + path)
        assert response.status_code == 503
        assert response.json()["message"] == "The server is starting."
    assert httpx.post(client.base_url + "/generate", json={"input_ids": [1]}).status_code == 503
    assert not client.health()
    may_load.set()
    wait_until(client.health)
    assert client.health_generate()


def test_a_stuck_model_is_not_healthy_and_everything_else_still_answers(serve: Serve) -> None:
    client = serve()
    wait_until(client.health)
    may_go_on = threading.Event()
    serve.app._model.post(lambda _: may_go_on.wait())  # type: ignore[attr-defined]
    response = httpx.get(client.base_url + "/health_generate")
    assert response.status_code == 503
    assert "did not answer" in response.json()["message"]
    assert client.health()
    assert client.model_info()["is_generation"]
    may_go_on.set()
    wait_until(client.health_generate)


def test_with_a_tokenizer_text_goes_in_and_comes_out_without_the_stop_token(serve: Serve) -> None:
    tokenizer = byte_tokenizer()
    client = serve(tokenizer=tokenizer)
    wait_until(client.health)
    body = {"text": "hello", "sampling_params": {"max_new_tokens": 50, "temperature": 3.0}}
    answer = httpx.post(client.base_url + "/generate", json=body).json()
    assert answer["meta_info"]["prompt_tokens"] == 5
    ids = answer["output_ids"]
    if answer["meta_info"]["finish_reason"]["type"] == "stop":
        ids = ids[:-1]
    assert answer["text"] == tokenizer.decode(ids)


def test_the_models_own_end_tokens_stop_unless_told_to_go_on(serve: Serve) -> None:
    client = serve()
    wait_until(client.health)
    url = client.base_url + "/generate"

    def generate(**sampling: Any) -> dict[str, Any]:
        # The hotter, the likelier that every token turns up, the end token 7 among them.
        params = {"max_new_tokens": 60, "temperature": 50.0, "sampling_seed": 11} | sampling
        answer: dict[str, Any] = httpx.post(
            url, json={"input_ids": [1], "sampling_params": params}
        ).json()
        return answer

    free = generate(ignore_eos=True)["output_ids"]
    assert len(free) == 60
    seeds = range(100)
    seed = next(s for s in seeds if 7 in generate(ignore_eos=True, sampling_seed=s)["output_ids"])
    whole = generate(ignore_eos=True, sampling_seed=seed)["output_ids"]
    stopped = generate(sampling_seed=seed)
    assert stopped["output_ids"] == whole[: whole.index(7) + 1]
    assert stopped["meta_info"]["finish_reason"] == {"type": "stop", "matched": 7}
    other = generate(sampling_seed=seed, stop_token_ids=[whole[2]])
    assert other["output_ids"] == whole[:3]

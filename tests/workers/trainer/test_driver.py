"""The real process, the real socket, real signals."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sandboxes.failures import Failure, FailureClass, FailureStage
from tests.workers.trainer.builders import ALGORITHM, CONTEXT, make_trajectory, store, write_traces
from workers.trainer.directories import verify
from workers.trainer.driver import TrainerProcess
from workers.trainer.protocol import SOCKET_VARIABLE, TOKEN_VARIABLE, Channel

HYPER = {"epochs": 2, "learning_rate": 1e-2, "tokens_per_batch": 256, "warmup_steps": 3}


def start(trainer: TrainerProcess, model_dir: Path, **fields: Any) -> dict[str, Any]:
    defaults: dict[str, Any] = {"model_dir": str(model_dir), "seed": 1, "context_length": CONTEXT}
    return trainer.request("init", **(defaults | fields))


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Three step requests; two minibatches, so that the random state matters."""
    rng, directory = np.random.default_rng(5), tmp_path_factory.mktemp("blobs")
    advantages = [1.0, -1.0, 0.5, -0.5, 0.0, 0.0]
    return [
        {
            "step": step,
            "version": step,
            "learning_rate": 1e-3,
            "temperature": 1.0,
            "algorithm": ALGORITHM | {"num_minibatches": 2},
            "trajectories": store(
                directory, [make_trajectory(rng, step) for _ in advantages], advantages
            ),
        }
        for step in range(1, 4)
    ]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrainerProcess]:
    with TrainerProcess(tmp_path_factory.mktemp("run"), token="lease-1") as process:
        yield process


@pytest.fixture
def trainer(process: TrainerProcess, model_dir: Path) -> TrainerProcess:
    """A fresh model and optimizer in a process that lives on: importing torch costs seconds."""
    start(process, model_dir)
    return process


def weights_of(directory: Path) -> str:
    manifest = verify(directory)
    return str(manifest["files"]["model.safetensors"]["sha256"])


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until_gone(pid: int) -> None:
    for _ in range(600):
        if not is_running(pid):
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} is still there")


def test_sft_with_the_same_seed_gives_the_same_bits(
    trainer: TrainerProcess, model_dir: Path, tmp_path: Path
) -> None:
    traces = write_traces(tmp_path / "traces.jsonl", 30)
    digests, curves = [], []
    with TrainerProcess(tmp_path / "run", token="t") as other:
        for process, seed in ((trainer, 1), (other, 1), (trainer, 2)):
            start(process, model_dir, seed=seed)
            curve: list[dict[str, Any]] = []
            done = process.request("sft", curve.append, traces=str(traces), hyper=HYPER)
            assert curve[-1]["step"] == done["num_steps"]
            process.request("export", weights_dir=str(tmp_path / "weights"))
            digests.append(weights_of(tmp_path / "weights"))
            curves.append(curve)
    assert digests[0] == digests[1] != digests[2]
    assert curves[0] == curves[1]
    assert curves[0][-1]["loss"] < curves[0][0]["loss"]


def test_the_step_after_a_resume_is_the_same_bit_for_bit(
    trainer: TrainerProcess, model_dir: Path, steps: list[dict[str, Any]], tmp_path: Path
) -> None:
    for step in steps[:2]:
        trainer.request("step", **step)
    checkpoint = str(tmp_path / "step-2")
    manifest = trainer.request("save", checkpoint_dir=checkpoint, version=3)["manifest"]
    assert (manifest["kind"], manifest["step"], manifest["version"]) == ("checkpoint", 2, 3)
    assert manifest == verify(Path(checkpoint))
    metrics = trainer.request("step", **steps[2])["metrics"]
    trainer.request("export", weights_dir=str(tmp_path / "a"))
    with TrainerProcess(tmp_path / "again", token="lease-2") as resumed:
        ready = start(resumed, model_dir, seed=77, checkpoint_dir=checkpoint)
        assert (ready["step"], ready["version"]) == (2, 3)
        again = resumed.request("step", **steps[2])["metrics"]
        resumed.request("export", weights_dir=str(tmp_path / "b"))
    assert {k: v for k, v in again.items() if k != "train/tokens_per_s"} == {
        k: v for k, v in metrics.items() if k != "train/tokens_per_s"
    }
    assert weights_of(tmp_path / "a") == weights_of(tmp_path / "b")


def test_exported_weights_are_a_model_directory_that_a_trainer_starts_from(
    trainer: TrainerProcess, steps: list[dict[str, Any]], tmp_path: Path
) -> None:
    trainer.request("step", **steps[0])
    weights = tmp_path / "weights"
    exported = trainer.request("export", weights_dir=str(weights), version=2)["manifest"]
    assert exported["kind"] == "weights"
    assert set(exported["files"]) == {
        "config.json", "model.safetensors", "tokenizer.json", "chat_format.json"
    }  # fmt: skip
    before = trainer.request("step", **steps[1])["metrics"]
    start(trainer, weights)  # a second init replaces model, optimizer and random state
    after = trainer.request("step", **steps[1])["metrics"]
    assert after["train/logprob_gap"] == before["train/logprob_gap"]


def test_a_corrupt_checkpoint_is_refused_with_a_sentence(
    trainer: TrainerProcess, model_dir: Path, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "step-0"
    trainer.request("save", checkpoint_dir=str(checkpoint))
    content = bytearray((checkpoint / "state.pt").read_bytes())
    content[len(content) // 2] ^= 1
    (checkpoint / "state.pt").write_bytes(content)
    with pytest.raises(Failure, match=r"step-0 is corrupt: the content of state\.pt") as refusal:
        start(trainer, model_dir, checkpoint_dir=str(checkpoint))
    assert refusal.value.stage == FailureStage.CHECKPOINT
    assert refusal.value.evidence["is_corrupt"] is True
    (checkpoint / "manifest.json").unlink()
    with pytest.raises(Failure, match="step-0 is not complete"):
        start(trainer, model_dir, checkpoint_dir=str(checkpoint))


def test_a_request_that_cannot_be_met_fails_alone(
    trainer: TrainerProcess, steps: list[dict[str, Any]], tmp_path: Path
) -> None:
    missing = steps[0] | {"trajectories": [{"url": f"file://{tmp_path}/none", "advantage": 1.0}]}
    without_temperature = {k: v for k, v in steps[0].items() if k != "temperature"}
    for type_, fields, reason in (
        ("step", missing, "none"),
        ("step", without_temperature, "the request lacks 'temperature'"),
        ("fly", {}, "unknown request 'fly'"),
        ("sft", {"traces": str(tmp_path / "none"), "hyper": HYPER}, "No such file"),
        ("export", {"weights_dir": "/proc/none/weights"}, "/proc/none"),
    ):
        with pytest.raises(Failure, match=reason) as failure:
            trainer.request(type_, **fields)
        assert failure.value.kind == FailureClass.UNKNOWN
    assert trainer.request("step", **steps[0])["metrics"]["train/skipped"] == 0.0


def write_for_ever(trainer: TrainerProcess, directory: Path) -> None:
    while True:
        trainer.request("save", checkpoint_dir=str(directory / "checkpoint"))
        trainer.request("export", weights_dir=str(directory / "weights"))


def test_kill_9_at_any_time_of_a_save_leaves_a_whole_checkpoint_or_none(
    process: TrainerProcess, model_dir: Path, tmp_path: Path
) -> None:
    with TrainerProcess(tmp_path / "run", token="t") as victim:
        start(victim, model_dir)

        def strike() -> None:
            time.sleep(0.02)
            os.kill(victim.pid, signal.SIGKILL)

        striker = threading.Thread(target=strike)
        striker.start()
        with pytest.raises(Failure) as lost:
            write_for_ever(victim, tmp_path)
        striker.join()
    assert (lost.value.stage, lost.value.kind) == (FailureStage.TRAIN, FailureClass.LOST)
    assert "ended by SIGKILL" in lost.value.message
    for directory in (tmp_path / "checkpoint", tmp_path / "weights"):
        if directory.exists():
            verify(directory)
    start(process, model_dir)
    process.request("save", checkpoint_dir=str(tmp_path / "checkpoint"))
    process.request("export", weights_dir=str(tmp_path / "weights"))
    start(process, tmp_path / "weights", checkpoint_dir=str(tmp_path / "checkpoint"))
    assert not list(tmp_path.glob(".*"))


OWNER = """
import sys, time
from pathlib import Path
from workers.trainer.driver import TrainerProcess
with TrainerProcess(Path(sys.argv[1]), token="t") as trainer:
    print(trainer.pid, flush=True)
    time.sleep(600)
"""


def test_the_process_ends_with_its_owner(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path / "run")], stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert is_running(pid)
        owner.kill()
    wait_until_gone(pid)


def test_a_new_owner_kills_the_trainer_of_the_one_before(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with TrainerProcess(run_dir, token="old") as old, TrainerProcess(run_dir, token="new") as new:
        assert not is_running(old.pid)
        with pytest.raises(Failure, match=r"lost during save: ended by SIGKILL"):
            old.request("save", checkpoint_dir=str(tmp_path / "c"))
        old.kill()  # the loser's clean-up must not touch the winner
        with pytest.raises(Failure, match="unknown request"):
            new.request("fly")
        assert (run_dir / "trainer.pid").exists()
    assert not (run_dir / "trainer.pid").exists()


def test_a_stale_pid_file_does_not_kill_a_stranger_with_the_same_number(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as stranger:
        (tmp_path / "trainer.pid").write_text(f"[{stranger.pid}, 1]")
        with TrainerProcess(tmp_path, token="t"):
            assert is_running(stranger.pid)
        stranger.kill()


def test_leaving_ends_the_process_also_when_the_owner_failed(tmp_path: Path) -> None:
    pids = []

    def fail() -> None:
        with TrainerProcess(tmp_path, token="t") as trainer:
            pids.append(trainer.pid)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not is_running(pids[0])


def test_a_kill_from_another_thread_ends_a_request_that_waits(
    model_dir: Path, tmp_path: Path
) -> None:
    traces = write_traces(tmp_path / "traces.jsonl", 200)
    with TrainerProcess(tmp_path / "run", token="t") as trainer:
        start(trainer, model_dir)

        def stop(_: dict[str, Any]) -> None:
            threading.Thread(target=trainer.kill).start()

        with pytest.raises(Failure, match="lost during sft: ended by SIGKILL"):
            trainer.request("sft", stop, traces=str(traces), hyper=HYPER | {"epochs": 500})


def test_what_a_progress_callback_raises_is_not_taken_for_a_lost_trainer(
    model_dir: Path, tmp_path: Path
) -> None:
    traces = write_traces(tmp_path / "traces.jsonl", 30)

    def refuse(_: dict[str, Any]) -> None:
        raise ValueError("the lease was lost")

    with TrainerProcess(tmp_path / "run", token="t") as trainer:
        start(trainer, model_dir)
        with pytest.raises(ValueError, match="the lease was lost"):
            trainer.request("sft", refuse, traces=str(traces), hyper=HYPER)


def test_training_that_failed_half_way_must_begin_again_from_a_checkpoint(
    trainer: TrainerProcess, model_dir: Path, steps: list[dict[str, Any]], tmp_path: Path
) -> None:
    alien = make_trajectory(np.random.default_rng(1))
    alien.tokens[0] = 100_000
    impossible = steps[0] | {"trajectories": store(tmp_path / "blobs", [alien], [1.0])}
    with pytest.raises(Failure, match="index out of range"):
        trainer.request("step", **impossible)
    for type_, fields in (("step", steps[0]), ("save", {"checkpoint_dir": str(tmp_path / "c")})):
        with pytest.raises(Failure, match="failed half way: init from a checkpoint first"):
            trainer.request(type_, **fields)
    assert not (tmp_path / "c").exists()
    start(trainer, model_dir)
    assert trainer.request("step", **steps[0])["metrics"]["train/skipped"] == 0.0


@pytest.mark.parametrize("wrong", [{"token": "other"}, {"seq": 2}, None])
def test_the_process_ends_at_a_message_it_must_refuse_and_with_the_connection(
    wrong: dict[str, Any] | None, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen(1)
        environment = os.environ | {SOCKET_VARIABLE: str(tmp_path / "s"), TOKEN_VARIABLE: "right"}
        process = subprocess.Popen(
            [sys.executable, "-m", "workers.trainer"], env=environment, stdout=subprocess.DEVNULL
        )
        connection, _ = listener.accept()
        hello = Channel(connection, "right").receive()
        assert hello == {"seq": 0, "type": "hello", "pid": process.pid}
        if wrong is None:
            connection.shutdown(socket.SHUT_RDWR)
        else:
            Channel(connection, wrong.get("token", "right")).send(wrong.get("seq", 1), "save", {})
        assert process.wait(30) == 3


def test_a_process_that_does_not_come_up_is_a_boot_failure(tmp_path: Path) -> None:
    with (
        pytest.raises(Failure, match="did not start: exit code 2") as failure,
        TrainerProcess(tmp_path, token="t", backend="abacus"),
    ):
        pass
    assert failure.value.kind == FailureClass.BOOT_FAIL
    assert "abacus" in (tmp_path / "trainer.log").read_text()


def test_the_driver_needs_no_torch() -> None:
    check = "import sys, workers.trainer.driver, workers.trainer.directories as d; d.verify;"
    check += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0

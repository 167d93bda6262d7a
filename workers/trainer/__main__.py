"""The trainer process, `python -m workers.trainer`: started and commanded by `driver`.

    socket ─ reader thread ─ queue ─ main thread: init, then sft | step | save | export ... ─ socket
                │ closed, another lease's token, a gap in the numbers
                └──> the process ends at once, whatever it is doing

Ending at once is safe: output exists only by an atomic rename (`directories`). A request that
fails leaves the process running; one that failed half way through training leaves weights that no
step number describes, and everything but a new `init` is refused.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import os
import queue
import signal
import socket
import sys
import threading
import traceback
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandboxes.failures import FailureClass, FailureStage
from workers.trainer.directories import CorruptDirectory, publish, verify
from workers.trainer.protocol import (
    SOCKET_VARIABLE,
    TOKEN_VARIABLE,
    Channel,
    Message,
    Refused,
    check_seq,
)

if TYPE_CHECKING:
    from torch import Tensor

    from workers.trainer.loop import Report

_STAGES = {"save": FailureStage.CHECKPOINT, "export": FailureStage.PUBLISH}
_PR_SET_PDEATHSIG = 1


class Trainer:
    """Answers requests, one at a time; `init` comes first. torch is imported by `init` only."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._seed = 0
        self._context_length = 0
        self._step: int | None = None
        self._version: int | None = None
        self._stage = ""
        """What the optimizer's moments belong to: sft, rl or nothing yet."""
        self._is_half_trained = False

    def answer(self, message: Message, report: Report) -> dict[str, Any]:
        if self._is_half_trained and message["type"] != "init":
            raise ValueError("training failed half way: init from a checkpoint first")
        match message["type"]:
            case "init":
                return self._init(message)
            case "sft":
                return self._sft(message, report)
            case "step":
                return self._rl(message)
            case "save":
                return self._publish("checkpoint", Path(message["checkpoint_dir"]), message)
            case "export":
                return self._publish("weights", Path(message["weights_dir"]), message)
        raise ValueError(f"unknown request {message['type']!r}")

    def _init(self, message: Message) -> dict[str, Any]:
        import torch

        from workers.trainer.torch_backend import TorchBackend

        torch.set_num_threads(self._threads)
        self._seed, self._stage, self._is_half_trained = message["seed"], "", False
        self._model_dir = Path(message["model_dir"])
        self._backend = TorchBackend(self._model_dir, seed=self._seed)
        self._context_length = message["context_length"]
        if self._context_length > self._backend.max_positions:
            raise ValueError(
                f"context_length {self._context_length} is more than the model's"
                f" {self._backend.max_positions} positions"
            )
        if directory := message.get("checkpoint_dir"):
            manifest = verify(Path(directory))
            self._backend.load(Path(directory))
            self._step, self._version = manifest["step"], manifest["version"]
            self._stage = manifest["stage"]
        return {
            "num_parameters": self._backend.num_parameters,
            "step": self._step,
            "version": self._version,
        }

    def _sft(self, message: Message, report: Report) -> dict[str, Any]:
        from workers.engines.chat import load_chat
        from workers.trainer.batches import read_traces
        from workers.trainer.loop import SftSettings, train_sft

        settings = SftSettings.parse(message["hyper"])
        traces = read_traces(
            message["traces"],
            load_chat(self._model_dir),
            context_length=self._context_length,
            observation_weight=settings.observation_weight,
        )
        self._stage, self._is_half_trained = "sft", True
        result = train_sft(
            self._backend,
            traces,
            settings,
            seed=self._seed,
            report=report,
            max_seconds=message.get("max_seconds"),
        )
        self._is_half_trained = False
        return result

    def _rl(self, message: Message) -> dict[str, Any]:
        from workers.rl.losses import Objective
        from workers.trainer.batches import read_batch, write_logprobs
        from workers.trainer.loop import RlSettings, train_rl

        algorithm = message["algorithm"]
        objective = Objective.parse(algorithm)
        settings = RlSettings.parse({**algorithm, "temperature": message["temperature"]})
        batch = read_batch(
            message["trajectories"],
            version=message["version"],
            context_length=self._context_length,
            min_token_version=message.get("min_token_version"),
        )
        if self._stage != "rl":
            self._backend.reset_optimizer(settings.betas, settings.weight_decay)
            self._stage = "rl"
        self._is_half_trained = True
        has_logprobs = False

        def keep(prox: Tensor) -> None:
            nonlocal has_logprobs
            has_logprobs = write_logprobs(message["trajectories"], batch, prox)

        result = train_rl(self._backend, batch, objective, settings, message["learning_rate"], keep)
        self._is_half_trained = False
        self._step, self._version = message["step"], message["version"]
        return {**result, "has_logprobs": has_logprobs}

    def _publish(self, kind: str, target: Path, message: Message) -> dict[str, Any]:
        write = self._backend.save if kind == "checkpoint" else self._backend.export
        facts = {
            "kind": kind,
            "step": message.get("step", self._step),
            "version": message.get("version", self._version),
            "stage": self._stage,
        }
        return {"manifest": publish(target, write, **facts)}


def _failure(message: Message, error: Exception) -> dict[str, Any]:
    """The reply to a request that raised: stage and class of the taxonomy, and a sentence."""
    stage = _STAGES.get(message["type"], FailureStage.TRAIN)
    kind, text = FailureClass.UNKNOWN, str(error) or type(error).__name__
    if isinstance(error, KeyError):
        text = f"the request lacks {error}"
    elif isinstance(error, MemoryError):
        kind, text = FailureClass.OOM, "the trainer is out of memory"
    elif isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        kind, text = FailureClass.DISK_FULL, f"no space left for {error.filename}"
    is_corrupt = isinstance(error, CorruptDirectory)
    if is_corrupt:
        stage = FailureStage.CHECKPOINT
    return {"stage": stage, "failure_class": kind, "message": text, "is_corrupt": is_corrupt}


def _read(channel: Channel, inbox: queue.SimpleQueue[Message]) -> None:
    """Ends the process when its owner is gone or is no longer its owner."""
    expected = 1
    try:
        while (message := channel.receive()) is not None:
            check_seq(message, expected)
            expected += 1
            inbox.put(message)
        print("the owner closed the socket", flush=True)
    except (Refused, OSError) as error:
        print(f"the trainer ends: {error}", flush=True)
    finally:
        os._exit(3)


def _die_with_parent() -> None:
    """A second tie beside the socket: SIGKILL when the thread that started this process ends."""
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(3)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m workers.trainer")
    parser.add_argument("--backend", choices=["torch"], default="torch")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    _die_with_parent()
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.environ[SOCKET_VARIABLE])
    channel = Channel(connection, os.environ.pop(TOKEN_VARIABLE))
    channel.send(0, "hello", {"pid": os.getpid()})
    inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(channel, inbox), daemon=True).start()
    trainer = Trainer(arguments.threads)
    while (message := inbox.get())["type"] != "shutdown":
        seq = message["seq"]
        try:
            fields = trainer.answer(message, partial(channel.send, seq, "progress"))
        except Exception as error:  # noqa: BLE001 - every failure is reported, none ends the process
            traceback.print_exc()
            channel.send(seq, "failed", _failure(message, error))
        else:
            channel.send(seq, "done", fields)


if __name__ == "__main__":
    main()

"""python -m workers.engines.reference --model-path DIR --port 30000: the reference engine."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import socket
import sys
from pathlib import Path

import torch
import uvicorn
from tokenizers import Tokenizer

from workers.engines.reference.app import App, Identity
from workers.engines.reference.cache import Cache
from workers.engines.reference.model import load_model, read_config
from workers.engines.reference.scheduler import Scheduler

# <sys/prctl.h>, <malloc.h>
PR_SET_PDEATHSIG = 1
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8


def parse_arguments() -> argparse.Namespace:
    """SGLang's names where it has the option."""
    parser = argparse.ArgumentParser(
        prog="python -m workers.engines.reference", description=__doc__
    )
    parser.add_argument("--model-path", type=Path, required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--fd", type=int, help="serve on this inherited listening socket")
    parser.add_argument("--weight-version", default="default")
    parser.add_argument("--context-length", type=int, help="default: the model's positions")
    parser.add_argument("--max-running-requests", type=int, default=64)
    parser.add_argument("--max-queued-requests", type=int, default=256)
    parser.add_argument(
        "--max-total-tokens",
        type=int,
        help="cached tokens in all, in whole contexts; default: twice what can run",
    )
    parser.add_argument("--skip-tokenizer-init", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--random-seed", type=int)
    parser.add_argument("--boot-id")
    parser.add_argument("--parent-pid", type=int, help="end when this process is gone")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    libc = ctypes.CDLL(None, use_errno=True)
    keep_freed_memory(libc)
    if arguments.parent_pid is not None:
        die_with(arguments.parent_pid, libc)
    torch.set_num_threads(arguments.threads)
    try:
        app = make_app(arguments)
        listener = open_listener(arguments)
    except (OSError, ValueError, KeyError) as error:
        print(f"cannot serve {arguments.model_path}: {error}", file=sys.stderr)
        return 1
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            http="httptools",
            access_log=False,
            log_level="warning",
            lifespan="on",
            # Clients keep connections for the whole run; a second of silence is no reason to part.
            timeout_keep_alive=600,
            timeout_graceful_shutdown=1,
        )
    )
    server.run(sockets=[listener])
    return 0


def make_app(arguments: argparse.Namespace) -> App:
    """Reads what is small and can be wrong; the weights load in the model's thread."""
    model_dir = arguments.model_path
    config = read_config(model_dir)
    context_length = arguments.context_length or config.max_positions
    if context_length > config.max_positions:
        raise ValueError(f"--context-length {context_length} > {config.max_positions} positions")
    max_running = arguments.max_running_requests
    max_tokens = arguments.max_total_tokens or 2 * max_running * context_length
    num_slots = max_tokens // context_length
    if num_slots < max_running:
        raise ValueError(f"--max-total-tokens {max_tokens} holds {num_slots} contexts: too few")

    def build() -> Scheduler:
        return Scheduler(
            load_model(model_dir),
            Cache(config, num_slots=num_slots, context_length=context_length),
            model_dir=model_dir,
            weight_version=arguments.weight_version,
            max_running=max_running,
            max_queued=arguments.max_queued_requests,
            seed=arguments.random_seed,
        )

    identity = Identity(context_length)
    if arguments.boot_id:
        identity.boot_id = arguments.boot_id
    tokenizer_file = model_dir / "tokenizer.json"
    has_tokenizer = tokenizer_file.is_file() and not arguments.skip_tokenizer_init
    return App(
        build,
        identity,
        model_name=str(model_dir),
        eos_ids=read_eos_ids(model_dir),
        tokenizer=Tokenizer.from_file(str(tokenizer_file)) if has_tokenizer else None,
    )


def read_eos_ids(model_dir: Path) -> frozenset[int]:
    """generation_config.json over config.json, as Hugging Face has it; one id, several or none."""
    for name in ("generation_config.json", "config.json"):
        if (model_dir / name).is_file():
            ids = json.loads((model_dir / name).read_text()).get("eos_token_id")
            if ids is not None:
                return frozenset(ids if isinstance(ids, list) else [ids])
    return frozenset()


def open_listener(arguments: argparse.Namespace) -> socket.socket:
    if arguments.fd is not None:
        return socket.socket(fileno=arguments.fd)
    return socket.create_server((arguments.host, arguments.port), backlog=2048)


def die_with(parent_pid: int, libc: ctypes.CDLL) -> None:
    """Ends this process when its parent is gone, however that ended.

    The kernel signals when the parent's *thread* that started us ends, so the signal is a question,
    not an order.
    """

    def check(*_: object) -> None:
        if os.getppid() != parent_pid:
            os._exit(0)

    signal.signal(signal.SIGUSR1, check)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGUSR1)
    check()


def keep_freed_memory(libc: ctypes.CDLL) -> None:
    """Megabyte-sized tensors come and go with every step: glibc would map and unmap each of them,
    and page faults took two thirds of a decoding step."""
    libc.mallopt(M_ARENA_MAX, 1)
    libc.mallopt(M_MMAP_THRESHOLD, 1 << 30)
    libc.mallopt(M_TRIM_THRESHOLD, 1 << 30)


if __name__ == "__main__":
    sys.exit(main())

"""What the trainer trains on: trajectories from the blob store, traces from a JSONL file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import fsspec
import numpy as np
import torch
from torch import Tensor

from workers.engines.chat import Chat
from workers.rl.arrays import TrajectoryArrays, decode
from workers.rl.packing import Document, document_of


@dataclass(frozen=True)
class Batch:
    """The trajectories of one step; columns [n] run over their trained tokens in document order.

    mu          float32[n]  log-probability by the engine that sampled the token
    lag         int64[n]    weight versions between the trainer and the token, never negative
    is_kept     bool[n]     False: in the denominator and the metrics, but without a gradient
    document    int64[n]    number of the token's trajectory
    advantages  float32[B]  one per trajectory
    """

    documents: list[Document]
    mu: Tensor
    lag: Tensor
    is_kept: Tensor
    document: Tensor
    advantages: Tensor


@dataclass(frozen=True)
class Traces:
    """documents, and float32[n] weights of their trained tokens in document order."""

    documents: list[Document]
    weights: Tensor
    num_truncated: int


def read_batch(
    trajectories: Sequence[Mapping[str, Any]],
    *,
    version: int,
    context_length: int,
    min_token_version: int | None = None,
) -> Batch:
    """Reads {url, advantage, is_masked?} each; urls are fsspec's, all in one store.

    version: the weights the trainer holds. is_masked (a capped trajectory under `mask_tokens`) and
    tokens older than min_token_version lose their gradient and stay in the denominator.
    Raises ValueError for a blob that is corrupt, too long, or newer than the trainer.
    """
    if not trajectories:
        raise ValueError("a step needs at least one trajectory")
    urls = [str(t["url"]) for t in trajectories]
    rows = [
        _checked(*pair, version, context_length) for pair in zip(urls, _fetch(urls), strict=True)
    ]
    documents = [Document.masked(row.tokens, row.mask) for row in rows]
    versions = _column([row.versions[d.positions] for row, d in zip(rows, documents, strict=True)])
    if not len(versions):
        raise ValueError("no trajectory of the step has a trained token")
    document = document_of(documents)
    is_masked = torch.tensor([bool(t.get("is_masked")) for t in trajectories])
    is_kept = ~is_masked[document]
    if min_token_version is not None:
        is_kept &= versions >= min_token_version
    return Batch(
        documents=documents,
        mu=_column([row.logprobs[d.positions] for row, d in zip(rows, documents, strict=True)]),
        lag=version - versions.long(),
        is_kept=is_kept,
        document=document,
        advantages=torch.tensor([float(t["advantage"]) for t in trajectories]),
    )


def write_logprobs(trajectories: Sequence[Mapping[str, Any]], batch: Batch, prox: Tensor) -> bool:
    """The trainer's log-probabilities, float32 one a trained token, to each trajectory's `logprobs` url.

    They are read by people only: a store that does not take them is said, and training goes on.
    """
    urls = [str(t["logprobs"]) for t in trajectories if "logprobs" in t]
    if len(urls) < len(trajectories):
        return False
    store, _ = fsspec.core.url_to_fs(urls[0])
    ends = np.cumsum([len(document.positions) for document in batch.documents])
    parts = np.split(prox.numpy().astype("<f4"), ends[:-1])
    try:
        store.pipe(
            {
                store._strip_protocol(url): part.tobytes()
                for url, part in zip(urls, parts, strict=True)
            }
        )
    except Exception as error:  # noqa: BLE001 - stores raise their own kinds, and no step may fail of it
        print(f"the log-probabilities are not kept: {error}", flush=True)
        return False
    return True


def read_traces(url: str, chat: Chat, *, context_length: int, observation_weight: float) -> Traces:
    """One JSON object a line: {system, instruction, turns: [{action, observation}]}.

    The action tokens weigh 1, all others observation_weight. The last observation may be "": then
    nothing follows the last action. A trace longer than the context is cut at its end.
    Raises ValueError, naming the line.
    """
    documents, weights, num_truncated = [], [], 0
    with fsspec.open(url, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                tokens, weight = _trace(json.loads(line), chat, observation_weight)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ValueError(f"{url}, line {number} is no trace: {error!r}") from error
            num_truncated += len(tokens) > context_length
            weight = weight[:context_length]
            weight[0] = 0.0  # nothing predicts the first token
            documents.append(Document.masked(np.array(tokens[:context_length], np.int32), weight))
            weights.append(weight[documents[-1].positions])
    if not documents:
        raise ValueError(f"{url} holds no traces")
    return Traces(documents, _column(weights), num_truncated)


def _trace(
    trace: Mapping[str, Any], chat: Chat, observation_weight: float
) -> tuple[list[int], np.ndarray[Any, np.dtype[np.float32]]]:
    parts = [(chat.prompt(trace.get("system", ""), trace["instruction"]), observation_weight)]
    for i, turn in enumerate(trace["turns"]):
        parts.append((chat.action(turn["action"]), 1.0))
        if turn["observation"] or i < len(trace["turns"]) - 1:
            parts.append((chat.observation(turn["observation"]), observation_weight))
    tokens = [token for part, _ in parts for token in part]
    lengths, values = [len(part) for part, _ in parts], [weight for _, weight in parts]
    return tokens, np.repeat(np.array(values, np.float32), lengths)


def _fetch(urls: Sequence[str]) -> list[bytes]:
    store, _ = fsspec.core.url_to_fs(urls[0])
    paths = [store._strip_protocol(url) for url in urls]  # as url_to_fs does
    blobs = store.cat(paths)  # all at once where the store can
    return [blobs[path] for path in paths]


def _checked(url: str, blob: bytes, version: int, context_length: int) -> TrajectoryArrays:
    try:
        row = decode(blob)
    except ValueError as error:
        raise ValueError(f"{url}: {error}") from error
    if len(row) > context_length:
        raise ValueError(f"{url}: {len(row)} tokens, the context holds {context_length}")
    newest = int(row.versions[row.mask == 1].max(initial=-1))
    if newest > version:
        raise ValueError(f"{url}: sampled by weights {newest}, newer than the trainer's {version}")
    return row


def _column(parts: Sequence[np.ndarray[Any, np.dtype[Any]]]) -> Tensor:
    return torch.from_numpy(np.concatenate(parts))

"""An attempt as an ATIF 1.7 document (Harbor's Agent Trajectory Interchange Format). Pure.

What the format has no word for (reward, weight versions, loss mask, failures, stage times) is under `extra`.
Prompt ids would repeat the whole context in every step: `metrics.extra.new_prompt_token_ids` has those that
were added since the step before, so ids can be put together again to the token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SCHEMA_VERSION = "ATIF-v1.7"


@dataclass(frozen=True)
class TurnTokens:
    """The tokens of one model call, beside each other by token."""

    new_prompt_ids: list[int]
    output_ids: list[int]
    logprobs: list[float]
    versions: list[int]


def split_turns(
    ids: Sequence[int],
    mask: Sequence[int],
    logprobs: Sequence[float],
    versions: Sequence[int],
) -> list[TurnTokens]:
    """Forced tokens and the sampled ones that follow them are one call; forced ones at the end are none."""
    turns: list[TurnTokens] = []
    forced: list[int] = []
    was_sampled = False
    for token, is_sampled, logprob, version in zip(ids, mask, logprobs, versions, strict=True):
        if not is_sampled:
            forced.append(token)
        else:
            if not was_sampled:
                turns.append(TurnTokens(forced, [], [], []))
                forced = []
            turns[-1].output_ids.append(token)
            turns[-1].logprobs.append(logprob)
            turns[-1].versions.append(version)
        was_sampled = bool(is_sampled)
    return turns


def document(
    trajectory: Mapping[str, Any],
    attempt: Mapping[str, Any],
    turns: Sequence[Mapping[str, Any]],
    tokens: Sequence[TurnTokens],
) -> dict[str, Any]:
    """trajectory: run, model, system, instruction and what it is part of; turns in order, tokens of some."""
    opening = [("system", trajectory["system"]), ("user", trajectory["instruction"])]
    steps: list[dict[str, Any]] = [
        {"source": source, "message": message} for source, message in opening if message
    ]
    for turn in turns:
        own = tokens[turn["index"]] if turn["index"] < len(tokens) else None
        steps.append(_step(turn, trajectory["model"], own))
    return {
        "schema_version": SCHEMA_VERSION,
        "session_id": f"run-{trajectory['run']}",
        "trajectory_id": f"trajectory-{trajectory['id']}-attempt-{attempt['number']}",
        "agent": {"name": "longtail", "version": "1", "model_name": trajectory["model"]},
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
        "final_metrics": {
            "total_prompt_tokens": attempt["prompt_tokens"],
            "total_completion_tokens": attempt["output_tokens"],
            "total_cached_tokens": sum(turn["cached_tokens"] for turn in turns),
            "total_steps": len(steps),
        },
        "extra": {
            **{name: trajectory[name] for name in ("stage", "group", "index", "task", "advantage")},
            **{
                name: attempt[name]
                for name in ("status", "reward", "stop_reason", "failure", "timings", "grade")
            },
            "patch": attempt["patch"],
            "is_patch_cut": attempt["is_patch_cut"],
        },
    }


def _step(turn: Mapping[str, Any], model: str, tokens: TurnTokens | None) -> dict[str, Any]:
    step: dict[str, Any] = {
        "timestamp": turn["started_at"].isoformat(),
        "source": "agent",
        "model_name": model,
        "message": turn["action"],
        "metrics": {
            "prompt_tokens": turn["prompt_tokens"],
            "completion_tokens": turn["output_tokens"],
            "cached_tokens": turn["cached_tokens"],
        },
        "llm_call_count": 1,
        "extra": {
            name: turn[name]
            for name in ("llm_s", "queue_s", "exec_s", "exit_code", "finish_reason", "is_timed_out")
        },
    }
    result = {"content": turn["observation"]}
    if turn["command"]:
        call = f"turn-{turn['index']}"
        arguments = {"command": turn["command"]}
        step["tool_calls"] = [
            {"tool_call_id": call, "function_name": "bash", "arguments": arguments}
        ]
        result = {"source_call_id": call, **result}
    if turn["command"] or turn["observation"]:
        step["observation"] = {"results": [result]}
    if tokens is not None:
        step["metrics"] |= {
            "completion_token_ids": tokens.output_ids,
            "logprobs": tokens.logprobs,
            "extra": {
                "new_prompt_token_ids": tokens.new_prompt_ids,
                "weight_versions": tokens.versions,
            },
        }
    return step

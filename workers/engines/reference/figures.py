"""What /metrics and /v1/loads say, under SGLang's names."""

from __future__ import annotations

import json
import time

from prometheus_client import CollectorRegistry, Histogram, disable_created_metrics, generate_latest

from workers.engines.reference.scheduler import Request, Scheduler

SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Figures:
    """Latencies are booked; gauges and counters are read from the scheduler when asked for."""

    def __init__(self, model_name: str) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._labels = {"model_name": model_name, "engine_type": "unified"}
        self._registry = CollectorRegistry()
        self._first_token, self._between, self._whole, self._queue = (
            Histogram(
                f"sglang:{name}_seconds",
                meaning,
                list(self._labels),
                registry=self._registry,
                buckets=SECONDS,
            ).labels(**self._labels)
            for name, meaning in (
                ("time_to_first_token", "From arrival to the first token."),
                ("inter_token_latency", "Between two tokens, mean of a request."),
                ("e2e_request_latency", "From arrival to the end."),
                ("queue_time", "From arrival to admission."),
            )
        )
        self._read_at, self._read_tokens, self._tokens_per_s = time.perf_counter(), 0, 0.0

    def book(self, request: Request) -> None:
        """A finished request's latencies; one that never ran has none."""
        if request.admitted_at is None or request.finished_at is None:
            return
        self._queue.observe(request.admitted_at - request.arrived_at)
        self._whole.observe(request.finished_at - request.arrived_at)
        if request.first_token_at is not None:
            self._first_token.observe(request.first_token_at - request.arrived_at)
            if len(request.output_ids) > 1:
                between = request.finished_at - request.first_token_at
                self._between.observe(between / (len(request.output_ids) - 1))

    def loads(self, scheduler: Scheduler) -> dict[str, float]:
        """The present in numbers; gen_throughput is over the time since it was last read."""
        s = scheduler
        now, tokens = time.perf_counter(), s.counters.generated_tokens
        if now - self._read_at >= 1:
            self._tokens_per_s = (tokens - self._read_tokens) / (now - self._read_at)
            self._read_at, self._read_tokens = now, tokens
        num_used, num_prompt = s.cache.num_tokens, s.counters.prompt_tokens
        return {
            "num_running_reqs": len(s.running),
            "num_waiting_reqs": len(s.waiting),
            "num_total_reqs": len(s.running) + len(s.waiting),
            "num_used_tokens": num_used,
            "max_total_num_tokens": s.cache.tokens.size,
            "token_usage": num_used / s.cache.tokens.size,
            "cache_hit_rate": s.counters.cached_tokens / num_prompt if num_prompt else 0.0,
            "gen_throughput": self._tokens_per_s,
            "utilization": len(s.running) / s.max_running,
            "max_running_requests": s.max_running,
            "longest_req_tokens": max(
                (len(r.ids) + len(r.output_ids) for r in s.running), default=0
            ),
        }

    def render(self, scheduler: Scheduler) -> bytes:
        """Prometheus text."""
        s, loads = scheduler, self.loads(scheduler)
        loads["num_queue_reqs"] = loads.pop("num_waiting_reqs")
        gauges = loads | {
            "num_paused_reqs": loads["num_total_reqs"] if s.is_paused else 0,
            "num_retracted_reqs": s.counters.retracted,
            "weight_load_duration_seconds": s.load_s,
        }
        counters = {
            "num_requests_total": s.counters.requests,
            "num_aborted_requests_total": s.counters.aborted,
            "prompt_tokens_total": s.counters.prompt_tokens,
            "generation_tokens_total": s.counters.generated_tokens,
            "cached_tokens_total": s.counters.cached_tokens,
        }
        labels = ",".join(f"{name}={json.dumps(value)}" for name, value in self._labels.items())
        lines = [
            f"# TYPE sglang:{name} {kind}\nsglang:{name}{{{labels}}} {value}\n"
            for kind, figures in (("gauge", gauges), ("counter", counters))
            for name, value in figures.items()
        ]
        return generate_latest(self._registry) + "".join(lines).encode()

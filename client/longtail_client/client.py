"""REST calls as functions: rows are dicts as the OpenAPI document names them, lists are iterators over all pages.

Reads are tried again when the server cannot be reached, a launch too: its Idempotency-Key makes the second
request give the run of the first. Other writes are sent once.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any, Self

import httpx

Row = dict[str, Any]

TERMINAL = ("succeeded", "failed", "cancelled")
RETRIES = 3
_AWAY = (502, 503, 504)


class LongtailError(Exception):
    """Whatever a call could not do."""


class Unreachable(LongtailError):
    """No answer, or one that is not Longtail's."""


class Refused(LongtailError):
    """The server said no. `code` is for programs; `errors` has a pointer and a message per wrong field."""

    def __init__(self, status: int, problem: Row) -> None:
        super().__init__(problem["title"])
        self.status = status
        self.code: str = problem["code"]
        self.title: str = problem["title"]
        self.errors: list[Row] = problem.get("errors", [])


class Client:
    """One server, one token. Thread-safe as httpx is; close it, or use it in a `with`."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout_s: float = 30,
        retry_after_s: float = 0.5,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._retry_after_s = retry_after_s
        self._http = httpx.Client(
            base_url=f"{url.rstrip('/')}/api/v1/",
            headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
            timeout=timeout_s,
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # Runs

    def runs(self, **filters: Any) -> Iterator[Row]:
        """Newest first. Filters: status ("running,paused"), name, recipe, project, sort ("-started_at")."""
        return self._pages("runs", filters)

    def run(self, run: int) -> Row:
        """A run with its stages, counts and rates."""
        return self._get(f"runs/{run}")

    def launch(
        self,
        source: str,
        *,
        name: str | None = None,
        project: str | None = None,
        idempotency_key: str | None = None,
        from_run: int | None = None,
        from_checkpoint: int | None = None,
    ) -> Row:
        """Launch a recipe (YAML), from the weights of a checkpoint if one is named.

        Raises Refused with a pointer per wrong field.
        """
        body = _without_none(
            source=source,
            name=name,
            project=project,
            from_run=from_run,
            from_checkpoint=from_checkpoint,
        )
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        try:
            return self._send("POST", "runs", RETRIES, json=body, headers=headers)
        except Refused as error:
            if error.code != "conflict":
                raise
        # The first request is still at work: its answer was lost, its run is there in a moment.
        time.sleep(self._retry_after_s)
        return self._send("POST", "runs", RETRIES, json=body, headers=headers)

    def preflight(self, source: str, *, project: str | None = None) -> Row:
        """{is_launchable, checks}: everything that a launch would check; changes nothing."""
        return self._send(
            "POST", "preflight", RETRIES, json=_without_none(source=source, project=project)
        )

    def pause(self, run: int, reason: str = "") -> Row:
        """No new trajectory, no new step; what is in flight finishes."""
        return self._command(run, "pause", reason)

    def unpause(self, run: int, reason: str = "") -> Row:
        return self._command(run, "unpause", reason)

    def stop(self, run: int, reason: str = "") -> Row:
        """Cancel what is in flight; sandboxes are gone within a minute."""
        return self._command(run, "stop", reason)

    def resume(self, run: int, reason: str = "") -> Row:
        """Queue a failed or cancelled run again, from its last checkpoint."""
        return self._command(run, "resume", reason)

    def checkpoint(self, run: int, reason: str = "") -> Row:
        """A checkpoint at the end of the step in training, or right away between steps."""
        return self._command(run, "checkpoint", reason)

    def recipe(self, run: int) -> Row:
        """{source, recipe}: the text that was launched, and what it means with its defaults."""
        return self._get(f"runs/{run}/recipe")

    def checkpoints(self, run: int) -> Iterator[Row]:
        """Trainer states, newest first."""
        return self._pages(f"runs/{run}/checkpoints", {})

    def watch(self, run: int, *, every_s: float = 2.0, patience_s: float = 60.0) -> Iterator[Row]:
        """The run now, and again whenever it has changed, until it has ended.

        A server that is away for less than `patience_s` is waited for. Raises Unreachable, Refused.
        """
        seen: Row | None = None
        away_since: float | None = None
        while seen is None or seen["status"] not in TERMINAL:
            if seen is not None:
                time.sleep(every_s)
            try:
                found = self.run(run)
                away_since = None
            except Unreachable:
                away_since = away_since or time.monotonic()
                if seen is None or time.monotonic() - away_since > patience_s:
                    raise
                continue
            if found != seen:
                yield found
            seen = found

    # What a run did

    def trajectories(self, run: int | None = None, **filters: Any) -> Iterator[Row]:
        """Newest first. Filters: stage, group, status, task, stop_reason, is_valid, reward ("gte:0.5")."""
        return self._pages("trajectories", {"run": run, **filters})

    def trajectory(self, trajectory: int) -> Row:
        """With its task and every attempt."""
        return self._get(f"trajectories/{trajectory}")

    def turns(self, trajectory: int, *, attempt: int | None = None) -> Iterator[Row]:
        """In order; of the newest attempt unless one is named by its number."""
        return self._pages(f"trajectories/{trajectory}/turns", {"attempt": attempt})

    def metrics(self, run: int, *names: str) -> list[Row]:
        """Curves [{name, unit, points}]; NaN and infinities are words."""
        series: list[Row] = self._get(f"runs/{run}/metrics", name=",".join(names))["series"]
        return series

    def events(self, run: int, **filters: Any) -> Iterator[Row]:
        """Newest first. Filter: level."""
        return self._pages(f"runs/{run}/events", filters)

    def failures(self, **filters: Any) -> Iterator[Row]:
        """Failure groups. Filters: run, stage, kind."""
        return self._pages("failures", filters)

    # The wire

    def _command(self, run: int, command: str, reason: str) -> Row:
        return self._send("POST", f"runs/{run}/{command}", 0, json={"reason": reason})

    def _get(self, path: str, **query: Any) -> Row:
        return self._send("GET", path, RETRIES, params=_without_none(**query))

    def _pages(self, path: str, filters: Row) -> Iterator[Row]:
        query: Row = {"limit": 100, **{k: _word(v) for k, v in filters.items()}}
        while True:
            page = self._get(path, **query)
            yield from page["results"]
            if page["next"] is None:
                return
            query["cursor"] = page["next"]

    def _send(self, method: str, path: str, retries: int, **request: Any) -> Row:
        while True:
            try:
                answer = self._http.request(method, path, **request)
            except httpx.TransportError as error:
                away = f"cannot be reached: {error}"
            else:
                if answer.status_code not in _AWAY:
                    return _read(answer)
                away = f"answered {answer.status_code}"
            if not retries:
                raise Unreachable(f"{self._http.base_url} {away}")
            retries -= 1
            time.sleep(self._retry_after_s)


def _read(answer: httpx.Response) -> Row:
    try:
        body = answer.json()
    except ValueError as error:
        raise Unreachable(f"{answer.url} did not answer JSON ({answer.status_code}).") from error
    if not isinstance(body, dict) or (answer.is_error and not {"code", "title"} <= body.keys()):
        raise Unreachable(f"{answer.url} is not Longtail's API ({answer.status_code}).")
    if answer.is_error:
        raise Refused(answer.status_code, body)
    return body


def _without_none(**values: Any) -> Row:
    return {name: value for name, value in values.items() if value not in (None, "")}


def _word(value: Any) -> Any:
    """A flag as the API writes it."""
    return str(value).lower() if isinstance(value, bool) else value

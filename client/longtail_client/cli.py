"""The `longtail` command.

Exit codes: 0 done; 1 the run failed or was cancelled (or the preflight found an error); 2 wrong usage or
refused; 3 the server cannot be reached. Every command takes --json and then prints JSON only.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from longtail_client.client import TERMINAL, Client, Refused, Row, Unreachable

RUN_FAILED, REFUSED, UNREACHABLE = 1, 2, 3

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
runs_app = typer.Typer(no_args_is_help=True, help="Launch, read and command runs.")
trajectories_app = typer.Typer(no_args_is_help=True, help="Read trajectories.")
failures_app = typer.Typer(no_args_is_help=True, help="What the infrastructure did.")
app.add_typer(runs_app, name="runs")
app.add_typer(trajectories_app, name="trajectories")
app.add_typer(failures_app, name="failures")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON only.")]
RecipeFile = Annotated[
    typer.FileText, typer.Option("--file", "-f", help="The recipe (YAML); - is standard input.")
]
Project = Annotated[str | None, typer.Option(help="Its slug; not needed in one project.")]
Reason = Annotated[str, typer.Option(help="Kept in the run's event feed.")]
RunId = Annotated[int, typer.Argument(metavar="RUN")]
Limit = Annotated[int, typer.Option(min=1, help="At most so many rows.")]


def main() -> None:
    """The entry point: errors of the API become sentences and exit codes."""
    try:
        app()
    except Refused as error:
        _say(f"Refused ({error.code}): {error.title}")
        for field in error.errors:
            _say(f"  {field['pointer']}: {field['message']}")
        sys.exit(REFUSED)
    except Unreachable as error:
        _say(str(error))
        sys.exit(UNREACHABLE)


def _say(text: str) -> None:
    print(plain(text), file=sys.stderr)


def _client() -> Client:
    token = os.environ.get("LONGTAIL_TOKEN", "")
    if not token:
        _fail_usage(
            "LONGTAIL_TOKEN is not set: make a token in the dashboard under Settings > Tokens."
        )
    return Client(os.environ.get("LONGTAIL_URL", "http://127.0.0.1:8000"), token)


def _fail_usage(sentence: str) -> NoReturn:
    _say(sentence)
    raise typer.Exit(REFUSED)


def plain(text: str) -> str:
    """Text of a model or a sandbox, safe for a terminal: control characters become their pictures."""
    return "".join(
        character
        if character in "\n\t" or unicodedata.category(character)[0] != "C"
        else _picture(character)
        for character in text
    )


def _picture(character: str) -> str:
    return chr(0x2400 + ord(character)) if ord(character) < 0x20 else "\N{REPLACEMENT CHARACTER}"


def _print_json(value: Any) -> None:
    print(json.dumps(value), flush=True)


def _print_table(rows: Iterable[Row], **columns: str) -> None:
    """columns: heading = path of the field, as task.key."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in columns:
        table.add_column(heading.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(row, path)) for path in columns.values()))
    Console(soft_wrap=False).print(table)


def _cell(row: Row, path: str) -> str:
    value: Any = row
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else plain(str(value))


# Recipes and runs


@app.command()
def preflight(file: RecipeFile, project: Project = None, *, as_json: AsJson = False) -> None:
    """Check a recipe against this installation; launches nothing."""
    with _client() as client:
        found = client.preflight(file.read(), project=project)
    if as_json:
        _print_json(found)
    else:
        _print_table(
            found["checks"],
            level="level",
            check="name",
            finding="sentence",
            configured="configured",
            measured="measured",
        )
    if not found["is_launchable"]:
        raise typer.Exit(RUN_FAILED)


@runs_app.command()
def launch(
    file: RecipeFile,
    name: Annotated[str | None, typer.Option(help="The recipe's own name by default.")] = None,
    project: Project = None,
    key: Annotated[
        str | None, typer.Option(help="Idempotency key: the same one never launches twice.")
    ] = None,
    from_run: Annotated[
        int | None, typer.Option(min=1, help="The run that this one is cloned from.")
    ] = None,
    from_checkpoint: Annotated[
        int | None, typer.Option(min=1, help="Start from the weights of this checkpoint.")
    ] = None,
    *,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Follow it to its end.")] = False,
    as_json: AsJson = False,
) -> None:
    """Launch a run of a recipe."""
    with _client() as client:
        run = client.launch(
            file.read(),
            name=name,
            project=project,
            idempotency_key=key,
            from_run=from_run,
            from_checkpoint=from_checkpoint,
        )
        if watch:
            _watch(client, run["id"], as_json=as_json)
        elif as_json:
            _print_json(run)
        else:
            print(f"Run {run['id']} ({plain(run['name'])}) is {run['status']}.")


def _watch(client: Client, run_id: int, *, as_json: bool) -> None:
    """Print every change until the run has ended; exits with its result."""
    said = ""
    for run in client.watch(run_id):
        if as_json:
            _print_json(run)
        elif (line := _progress_line(run)) != said:
            print(line, flush=True)
            said = line
        if run["status"] in TERMINAL and run["status"] != "succeeded":
            raise typer.Exit(RUN_FAILED)


def _progress_line(run: Row) -> str:
    current = next((stage for stage in run["stages"] if stage["status"] == "running"), None)
    parts = [f"run {run['id']}", run["status"]]
    if current is not None:
        total = current["num_total"] if current["num_total"] is not None else "?"
        parts.append(f"{current['name']} {current['num_done']}/{total}")
    counts = run["counts"]
    parts.append(f"{counts['completed']} trajectories, {counts['in_flight']} in flight")
    if counts["infra_failures"]:
        parts.append(f"{counts['infra_failures']} infrastructure failures")
    parts.append(run["stop_reason"] if run["status"] in TERMINAL else run["wait_sentence"])
    return plain(" | ".join(part for part in parts if part))


@runs_app.command("ls")
def list_runs(
    status: Annotated[str | None, typer.Option(help="One, or several with commas.")] = None,
    name: Annotated[str | None, typer.Option(help="A part of the name.")] = None,
    recipe: Annotated[str | None, typer.Option(help="One, or several with commas.")] = None,
    project: Project = None,
    sort: Annotated[str | None, typer.Option(help="A field; -field is descending.")] = None,
    limit: Limit = 20,
    *,
    as_json: AsJson = False,
) -> None:
    """Runs, newest first."""
    filters = {"status": status, "name": name, "recipe": recipe, "project": project, "sort": sort}
    with _client() as client:
        rows = _first(client.runs(**filters), limit)
    if as_json:
        _print_json(rows)
    else:
        _print_table(
            rows,
            run="id",
            name="name",
            status="status",
            created="created_at",
            waits_for="wait_sentence",
        )


def _first(rows: Iterator[Row], limit: int) -> list[Row]:
    return list(itertools.islice(rows, limit))


@runs_app.command("get")
def get_run(run: RunId, *, as_json: AsJson = False) -> None:
    """A run with its stages and counts."""
    with _client() as client:
        _show_run(client.run(run), as_json=as_json)


def _show_run(run: Row, *, as_json: bool) -> None:
    if as_json:
        _print_json(run)
        return
    print(_progress_line(run))
    _print_table(
        run["stages"],
        stage="name",
        kind="kind",
        status="status",
        done="num_done",
        of="num_total",
        pass_at_1="result.pass_at_1",  # noqa: S106
        low="result.low",
        high="result.high",
    )


@runs_app.command()
def watch(run: RunId, *, as_json: AsJson = False) -> None:
    """Follow a run to its end."""
    with _client() as client:
        _watch(client, run, as_json=as_json)


@runs_app.command()
def pause(run: RunId, reason: Reason = "", *, as_json: AsJson = False) -> None:
    """No new trajectory, no new step; what is in flight finishes."""
    with _client() as client:
        _show_run(client.pause(run, reason), as_json=as_json)


@runs_app.command()
def unpause(run: RunId, reason: Reason = "", *, as_json: AsJson = False) -> None:
    """Go on from a pause."""
    with _client() as client:
        _show_run(client.unpause(run, reason), as_json=as_json)


@runs_app.command()
def stop(run: RunId, reason: Reason = "", *, as_json: AsJson = False) -> None:
    """Cancel what is in flight; a stopped run can be resumed."""
    with _client() as client:
        _show_run(client.stop(run, reason), as_json=as_json)


@runs_app.command()
def resume(run: RunId, reason: Reason = "", *, as_json: AsJson = False) -> None:
    """Queue a failed or cancelled run again, from its last checkpoint."""
    with _client() as client:
        _show_run(client.resume(run, reason), as_json=as_json)


@runs_app.command()
def checkpoint(run: RunId, reason: Reason = "", *, as_json: AsJson = False) -> None:
    """Ask for a checkpoint at the end of the step in training, or right away between steps."""
    with _client() as client:
        _show_run(client.checkpoint(run, reason), as_json=as_json)


@runs_app.command()
def checkpoints(run: RunId, limit: Limit = 20, *, as_json: AsJson = False) -> None:
    """What a run can go on from, newest first."""
    with _client() as client:
        rows = _first(client.checkpoints(run), limit)
    if as_json:
        _print_json(rows)
    else:
        _print_table(
            rows,
            checkpoint="id",
            stage="stage",
            step="step",
            resume="resume",
            weights="weight_version",
            status="status",
            reward_10="reward_mean_10",
            written="created_at",
        )


@runs_app.command()
def recipe(run: RunId, *, as_json: AsJson = False) -> None:
    """The recipe that a run was launched with."""
    with _client() as client:
        found = client.recipe(run)
    if as_json:
        _print_json(found)
    else:
        print(plain(found["source"]))


# Trajectories and failures


@trajectories_app.command("ls")
def list_trajectories(
    run: Annotated[int | None, typer.Option(help="Of one run.")] = None,
    stage: Annotated[str | None, typer.Option(help="The stage's name.")] = None,
    status: Annotated[str | None, typer.Option(help="One, or several with commas.")] = None,
    task: Annotated[str | None, typer.Option(help="The task's key.")] = None,
    stop_reason: Annotated[str | None, typer.Option(help="One, or several with commas.")] = None,
    reward: Annotated[str | None, typer.Option(help="0.5, gte:0.5, lt:1 ...")] = None,
    limit: Limit = 20,
    *,
    valid: Annotated[
        bool | None, typer.Option("--valid/--invalid", help="With or without a reward to trust.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Trajectories, newest first."""
    filters = {"stage": stage, "status": status, "task": task, "stop_reason": stop_reason}
    with _client() as client:
        found = client.trajectories(run, **filters, reward=reward, is_valid=valid)
        rows = _first(found, limit)
    if as_json:
        _print_json(rows)
    else:
        _print_table(
            rows,
            trajectory="id",
            run="run",
            stage="stage",
            task="task.key",
            status="status",
            reward="reward",
            stopped_by="stop_reason",
            turns="num_turns",
            failure="failure.kind",
        )


@trajectories_app.command("get")
def get_trajectory(
    trajectory: Annotated[int, typer.Argument()],
    attempt: Annotated[int | None, typer.Option(min=1, help="The newest by default.")] = None,
    *,
    turns: Annotated[
        bool, typer.Option("--turns", help="With every command and its output.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """One trajectory with its attempts, and with --turns what the agent did."""
    with _client() as client:
        found = client.trajectory(trajectory)
        said = list(client.turns(trajectory, attempt=attempt)) if turns else None
    if as_json:
        _print_json(found if said is None else {**found, "turns": said})
        return
    print(plain(f"{found['task']['key']} of {found['task']['repository']}: {found['status']}"))
    _print_table(
        found["attempts"],
        attempt="number",
        status="status",
        reward="reward",
        stopped_by="stop_reason",
        turns="num_turns",
        failure="failure.message",
    )
    for turn in said or []:
        print(plain(f"\n[{turn['index']}] $ {turn['command'] or turn['action']}"))
        print(plain(turn["observation"]))


@failures_app.command("top")
def top_failures(
    run: Annotated[int | None, typer.Option(help="Of one run.")] = None,
    stage: Annotated[str | None, typer.Option(help="One, or several with commas.")] = None,
    kind: Annotated[str | None, typer.Option(help="One, or several with commas.")] = None,
    limit: Limit = 20,
    *,
    as_json: AsJson = False,
) -> None:
    """Failures by fingerprint, the most frequent first."""
    with _client() as client:
        rows = list(client.failures(run=run, stage=stage, kind=kind))
    rows = sorted(rows, key=lambda row: -row["num_failures"])[:limit]
    if as_json:
        _print_json(rows)
    else:
        _print_table(
            rows,
            count="num_failures",
            stage="stage",
            kind="kind",
            message="message",
            last="last_at",
        )

"""From the model's text to a command, and from a command's result to the text the model sees. Pure
functions.

Both sides are untrusted. A command is run by the sandbox's shell and nowhere else; an output is
only ever text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from sandboxes.drivers.base import ExecResult
from workers.agent import prompts
from workers.agent.errors import FormatError

ActionFormat = Literal["raw", "bash_block"]

# CSI (colours, cursor), OSC (titles, links; ended by BEL or ST), and the two-character escapes
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tab and newline


@dataclass(frozen=True)
class ObservationPolicy:
    """How a command's result becomes the text of an observation."""

    max_bytes: int = 10_000
    """UTF-8 bytes of output the model sees; more is cut in the middle, with a count."""
    log_bytes: int = 16_384
    """Bytes of output the sandbox keeps: what the log of a turn can show."""
    shows_exit_code: bool = False
    """raw: a last line `[exit code 1]` when it is not 0. bash_block always shows it."""
    no_output: str = prompts.NO_OUTPUT


def parse_action(action_format: ActionFormat, text: str) -> str:
    """The one shell command in the model's text. Raises FormatError with what to tell the model."""
    command = text.strip() if action_format == "raw" else _only_block(text)
    if not command:
        raise FormatError(prompts.NO_COMMAND)
    if _CONTROL.search(command):
        raise FormatError(prompts.CONTROL_CHARACTERS)
    return command


def _only_block(text: str) -> str:
    """The content of the only ```bash block, read line by line: linear in the text, whatever the
    text.
    """
    blocks: list[list[str]] = []
    lines: list[str] | None = None
    for line in text.splitlines():
        if lines is None:
            if line.strip() == "```bash":
                lines = []
        elif line.strip() == "```":
            blocks.append(lines)
            lines = None
        else:
            lines.append(line)
    if len(blocks) != 1 or lines is not None:
        raise FormatError(prompts.BLOCK_COUNT.format(count=len(blocks) + (lines is not None)))
    return "\n".join(blocks[0]).strip()


def is_submission(action_format: ActionFormat, command: str, result: ExecResult | None) -> bool:
    """raw: decided by the command, before it runs (result None). bash_block: by what it printed."""
    if action_format == "raw":
        return command == prompts.SUBMIT_COMMAND
    if result is None or result.exit_code != 0 or result.timed_out:
        return False
    return result.output.lstrip().partition("\n")[0].strip() == prompts.SUBMIT_SENTINEL


def observation_text(
    action_format: ActionFormat, result: ExecResult, policy: ObservationPolicy
) -> tuple[str, int]:
    """What the model reads of a result, and how many bytes of the output it does not see.

    That a command was stopped, or its shell ended, is said by the sandbox at the end of the output.
    """
    output, num_cut = cut_middle(plain(result.output).strip("\n"), policy.max_bytes)
    output = output or policy.no_output
    if action_format == "bash_block":
        output = f"<returncode>{result.exit_code}</returncode>\n<output>\n{output}\n</output>"
    elif policy.shows_exit_code and result.exit_code != 0 and not result.timed_out:
        output = f"{output}\n{prompts.EXIT_CODE.format(code=result.exit_code)}"
    return output, num_cut + result.truncated_bytes


def plain(text: str) -> str:
    """Text as a terminal would leave it: no escape sequences, overwritten parts of a line gone, no
    control characters.
    """
    if text.isprintable():
        return text
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _CONTROL.sub("", text)


def storable(text: str) -> str:
    """Text as PostgreSQL can hold it: NUL shown as its picture, lone surrogates replaced; all else
    kept.
    """
    if "\x00" in text:
        text = text.replace("\x00", "\u2400")
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def cut_middle(text: str, max_bytes: int) -> tuple[str, int]:
    """Head and tail of a text, each of half the bytes, whole characters only; and the bytes cut
    between them.
    """
    if len(text) * 4 <= max_bytes:
        return text, 0
    raw = text.encode("utf-8", "replace")
    if len(raw) <= max_bytes:
        return text, 0
    half = max_bytes // 2
    head = raw[:half].decode("utf-8", "ignore")
    tail = raw[len(raw) - half :].decode("utf-8", "ignore")
    num_cut = len(raw) - len(head.encode()) - len(tail.encode())
    return f"{head}\n{prompts.CUT_OUTPUT.format(count=num_cut)}\n{tail}", num_cut

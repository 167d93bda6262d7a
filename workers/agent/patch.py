"""What the agent changed, as a unified diff against the task's files: for people, never for the grade.

    Sandbox.changes (tar of the overlay) ─► files before and after ─► hunks, or a sentence instead

Names and contents are the agent's: they are only compared and quoted, never opened, run or followed.
A link of the template is not followed either. Work is bounded: a file whose changed part is long is
shown as removed and added as a whole, and what does not fit the cap is cut at the end of a line.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

MAX_BYTES = 262_144
MAX_FILE_BYTES = 2**20
MAX_CELLS = 1_000_000
"""Lines before times lines after that are compared line by line."""
MAX_COMPARED = 20_000
"""Changed lines of one attempt that are compared line by line; after them, files are shown whole."""
CONTEXT = 3
_LINK = 0o120000


@dataclass(frozen=True)
class Patch:
    text: str
    """UTF-8 without NUL. A line that begins with `#` before the first file is a note."""
    is_cut: bool = False


@dataclass(frozen=True)
class _File:
    mode: int
    content: bytes


def note(sentence: str) -> Patch:
    """Instead of a patch: why there is none."""
    return Patch(f"# {sentence}\n")


def patch_of(changes: bytes | None, base: Path) -> Patch:
    """The diff from `base` to what `Sandbox.changes` saved; None: it was too large to save."""
    if changes is None:
        return note("The changes are too large to be kept: there is no patch.")
    base = base.resolve()
    parts: list[str] = []
    size, num_compared = 0, 0
    for path, before, after in _pairs(changes, base):
        if before == after:
            continue
        text, num_lines = _file_diff(path, before, after, MAX_COMPARED - num_compared)
        num_compared += num_lines
        size += len(text.encode())
        parts.append(text)
        if size > MAX_BYTES:
            break
    whole = "".join(parts)
    if size <= MAX_BYTES:
        return Patch(whole)
    head = whole.encode()[:MAX_BYTES].decode("utf-8", "ignore")
    return Patch(head[: head.rfind("\n") + 1] or head, is_cut=True)


def _pairs(changes: bytes, base: Path) -> Iterator[tuple[str, _File | None, _File | None]]:
    """Path, file before, file after: of everything that the overlay's layer writes or hides."""
    with tarfile.open(fileobj=io.BytesIO(changes)) as tar:
        members = {member.name: member for member in tar.getmembers()}
        hidden = {path for name in members for path in _hidden(name, base)}
        written = {name for name, member in members.items() if member.isreg() or member.issym()}
        written = {name for name in written if not name.rpartition("/")[2].startswith(".wh.")}
        for path in sorted(written | hidden):
            after = _after(tar, members[path]) if path in written else None
            yield path, _before(base, path), after


def _hidden(name: str, base: Path) -> Iterator[str]:
    """The template's files that a whiteout hides: one file, or all below a directory."""
    folder, _, last = name.rpartition("/")
    if not last.startswith(".wh."):
        return
    path = folder if last == ".wh..wh..opq" else f"{folder}/{last[4:]}".lstrip("/")
    place = _inside(base, path)
    if place is None:
        return
    if place.is_symlink() or not place.is_dir():
        yield path
        return
    for directory, _, names in os.walk(place):
        for each in names:
            yield os.path.relpath(f"{directory}/{each}", base)


def _inside(base: Path, path: str) -> Path | None:
    """Where the template has it; None if it has not, or only behind a link."""
    place = base / path
    return place if os.path.lexists(place) and place.parent.resolve() == place.parent else None


def _before(base: Path, path: str) -> _File | None:
    place = _inside(base, path)
    if place is None:
        return None
    if place.is_symlink():
        return _File(_LINK, os.fsencode(place.readlink()))
    if not place.is_file():
        return None
    return _File(_mode(place.stat().st_mode), place.read_bytes())


def _after(tar: tarfile.TarFile, member: tarfile.TarInfo) -> _File:
    if member.issym():
        return _File(_LINK, os.fsencode(member.linkname))
    handle = tar.extractfile(member)
    assert handle is not None
    return _File(_mode(member.mode), handle.read())


def _mode(mode: int) -> int:
    return 0o100755 if mode & 0o100 else 0o100644


def _file_diff(
    path: str, before: _File | None, after: _File | None, budget: int
) -> tuple[str, int]:
    """The diff of one file, and how many lines were compared for it."""
    names = [_quoted(f"{side}/{path}") for side in "ab"]
    head = [f"diff --git {names[0]} {names[1]}\n"]
    if before is None and after is not None:
        head.append(f"new file mode {after.mode:o}\n")
        names[0] = "/dev/null"
    elif after is None and before is not None:
        head.append(f"deleted file mode {before.mode:o}\n")
        names[1] = "/dev/null"
    elif before is not None and after is not None and before.mode != after.mode:
        head += [f"old mode {before.mode:o}\n", f"new mode {after.mode:o}\n"]
    old, new = (b"" if file is None else file.content for file in (before, after))
    if old == new:
        return "".join(head), 0
    if max(len(old), len(new)) > MAX_FILE_BYTES:
        said = f"# {len(old)} bytes before, {len(new)} after: too large to compare\n"
        return "".join([*head, said]), 0
    lines = _lines(old), _lines(new)
    if lines[0] is None or lines[1] is None:
        said = f"Binary files {names[0]} and {names[1]} differ\n"
        return "".join([*head, said]), 0
    hunks, num_compared = _hunks(lines[0], lines[1], budget)
    return "".join([*head, f"--- {names[0]}\n", f"+++ {names[1]}\n", *hunks]), num_compared


def _quoted(name: str) -> str:
    """A name on one line: as it is, or between quotes with escapes where it holds anything unusual."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if text.isprintable() and '"' not in text and "\\" not in text:
        return text
    return '"' + text.encode("unicode_escape").decode().replace('"', '\\"') + '"'


def _lines(content: bytes) -> list[str] | None:
    """Lines with their ends, split at newlines only; None for what is no text."""
    if b"\0" in content:
        return None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _hunks(old: list[str], new: list[str], budget: int) -> tuple[list[str], int]:
    """difflib over the part between the common head and tail: its time grows with the square."""
    first = 0
    shorter = min(len(old), len(new))
    while first < shorter and old[first] == new[first]:
        first += 1
    last = 0
    while last < shorter - first and old[-1 - last] == new[-1 - last]:
        last += 1
    middle = old[first : len(old) - last], new[first : len(new) - last]
    matcher = SequenceMatcher(None, *middle)
    num_lines = len(middle[0]) + len(middle[1])
    if len(middle[0]) * len(middle[1]) > MAX_CELLS or num_lines > budget:
        codes = [("replace", 0, len(middle[0]), 0, len(middle[1]))]
        num_lines = 0
    else:
        codes = [(*code,) for code in matcher.get_opcodes()]
    shifted = [(tag, a + first, b + first, c + first, d + first) for tag, a, b, c, d in codes]
    # difflib groups what it finds here: the common head and tail are its context
    matcher.opcodes = [  # type: ignore[attr-defined]
        ("equal", 0, first, 0, first),
        *shifted,
        ("equal", len(old) - last, len(old), len(new) - last, len(new)),
    ]
    out: list[str] = []
    for group in matcher.get_grouped_opcodes(CONTEXT):
        out.append(_header(group[0], group[-1]))
        for tag, a, b, c, d in group:
            if tag == "equal":
                out += [_line(" ", line) for line in old[a:b]]
                continue
            out += [_line("-", line) for line in old[a:b]]
            out += [_line("+", line) for line in new[c:d]]
    return out, num_lines


def _header(head: tuple[str, int, int, int, int], tail: tuple[str, int, int, int, int]) -> str:
    sides = [(head[1], tail[2] - head[1]), (head[3], tail[4] - head[3])]
    old, new = (f"{start + bool(length)},{length}" for start, length in sides)
    return f"@@ -{old} +{new} @@\n"


def _line(sign: str, line: str) -> str:
    if line.endswith("\n"):
        return sign + line
    return f"{sign}{line}\n\\ No newline at end of file\n"

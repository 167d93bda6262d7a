from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from workers.trainer.directories import CorruptDirectory, publish, verify


def write_two(directory: Path) -> None:
    (directory / "a.bin").write_bytes(b"alpha" * 100)
    (directory / "part").mkdir()
    (directory / "part" / "b.bin").write_bytes(b"beta")


def test_a_published_directory_verifies_and_names_its_facts(tmp_path: Path) -> None:
    written = publish(tmp_path / "step-1", write_two, kind="checkpoint", step=1)
    assert verify(tmp_path / "step-1") == written
    assert (written["step"], sorted(written["files"])) == (1, ["a.bin", "part/b.bin"])
    assert written["files"]["part/b.bin"]["bytes"] == 4
    assert [entry.name for entry in tmp_path.iterdir()] == ["step-1"]


def test_publishing_again_replaces_the_older_one(tmp_path: Path) -> None:
    publish(tmp_path / "d", write_two, step=1)
    publish(tmp_path / "d", lambda d: None, step=2)
    assert verify(tmp_path / "d") == {"step": 2, "files": {}}
    assert [entry.name for entry in tmp_path.iterdir()] == ["d"]


def test_a_write_that_fails_leaves_the_older_one_and_nothing_else(tmp_path: Path) -> None:
    publish(tmp_path / "d", write_two, step=1)

    def fail(directory: Path) -> None:
        (directory / "a.bin").write_bytes(b"half")
        raise OSError(errno.ENOSPC, "disk full")

    with pytest.raises(OSError, match="disk full"):
        publish(tmp_path / "d", fail, step=2)
    assert verify(tmp_path / "d")["step"] == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["d"]


KILLED_HALF_WAY = """
import os, signal, sys
from pathlib import Path
from workers.trainer.directories import publish
def write(directory):
    (directory / "a.bin").write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
publish(Path(sys.argv[1]), write, step=2)
"""


@pytest.mark.parametrize("has_older", [False, True])
def test_kill_9_while_writing_leaves_no_half_valid_directory(
    has_older: bool, tmp_path: Path
) -> None:
    target = tmp_path / "d"
    if has_older:
        publish(target, write_two, step=1)
    ended = subprocess.run([sys.executable, "-c", KILLED_HALF_WAY, str(target)], check=False)
    assert ended.returncode == -9
    if has_older:
        assert verify(target)["step"] == 1
    else:
        assert not target.exists()
    assert (tmp_path / ".d.partial").exists()  # what the kill left, and the next try removes
    publish(target, write_two, step=3)
    assert verify(target)["step"] == 3
    assert [entry.name for entry in tmp_path.iterdir()] == ["d"]


def test_every_kind_of_damage_is_refused_with_a_sentence(tmp_path: Path) -> None:
    directory = tmp_path / "d"
    with pytest.raises(CorruptDirectory, match=r"d is not complete: it has no manifest\.json"):
        verify(directory)
    publish(directory, write_two)
    whole = (directory / "a.bin").read_bytes()
    (directory / "a.bin").write_bytes(b"X" + whole[1:])
    with pytest.raises(CorruptDirectory, match=r"the content of a\.bin has changed"):
        verify(directory)
    (directory / "a.bin").write_bytes(whole[:-1])
    with pytest.raises(CorruptDirectory, match=r"a\.bin has 499 bytes, its manifest says 500"):
        verify(directory)
    (directory / "a.bin").unlink()
    with pytest.raises(CorruptDirectory, match=r"a\.bin is missing"):
        verify(directory)
    (directory / "manifest.json").write_text('{"files": [1')
    with pytest.raises(CorruptDirectory, match=r"manifest\.json cannot be read"):
        verify(directory)

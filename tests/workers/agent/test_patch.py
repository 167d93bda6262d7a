"""The diff of what the agent left: what real boxes change, and what hostile names and contents do to it."""

from __future__ import annotations

import io
import random
import subprocess
import tarfile
from pathlib import Path

import pytest

from sandboxes.drivers.base import Sandbox
from workers.agent.patch import MAX_BYTES, Patch, patch_of


def layer(**members: bytes | None) -> bytes:
    """A layer's tar: name to content; None is a file that the layer hides."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in members.items():
            folder, slash, last = name.rpartition("/")
            entry = tarfile.TarInfo(name if content is not None else f"{folder}{slash}.wh.{last}")
            entry.size = len(content or b"")
            tar.addfile(entry, io.BytesIO(content or b""))
    return buffer.getvalue()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "base"
    (folder / "package").mkdir(parents=True)
    (folder / "package" / "module.py").write_text("value = 1\n")
    return folder


def applied(patch: Patch, base: Path) -> dict[str, bytes]:
    """What git makes of it, so that the format is not only ours."""
    run = ["git", "apply", "--unsafe-paths", "--whitespace=nowarn", "-"]
    subprocess.run(run, input=patch.text.encode(), cwd=base, check=True, capture_output=True)
    return {str(p.relative_to(base)): p.read_bytes() for p in base.rglob("*") if p.is_file()}


def test_a_real_box_leaves_what_it_wrote_removed_and_replaced(
    sandbox: Sandbox, template: Path
) -> None:
    sandbox.exec("echo 'value = 3' > package/module.py; rm README", timeout_s=10)
    sandbox.exec("rm -r package/inner; mkdir package/inner; touch package/same", timeout_s=10)
    sandbox.exec("cp package/module.py new.py; chmod +x new.py; touch README.md", timeout_s=10)
    sandbox.kill_processes()
    text = patch_of(sandbox.changes(max_bytes=2**20), template).text

    assert (
        "--- a/package/module.py\n+++ b/package/module.py\n@@ -1,1 +1,1 @@\n-value = 1\n+value = 3\n"
        in text
    )
    assert (
        "deleted file mode 100644\n--- a/README\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-read me\n" in text
    )
    assert "--- a/package/inner/deep.py\n+++ /dev/null\n" in text
    assert (
        "new file mode 100755\n--- /dev/null\n+++ b/new.py\n@@ -0,0 +1,1 @@\n+value = 3\n" in text
    )


def test_a_file_that_was_only_touched_is_no_change(sandbox: Sandbox, template: Path) -> None:
    sandbox.exec("touch package/module.py; cat README > x; cat x > README; rm x", timeout_s=10)
    sandbox.kill_processes()

    assert patch_of(sandbox.changes(max_bytes=2**20), template) == Patch("")


def test_git_applies_it_to_the_base(base: Path) -> None:
    rng = random.Random(5)
    for _ in range(30):
        old = [f"{rng.randrange(6)}\n" for _ in range(rng.randrange(1, 40))]
        new = [line for line in old if rng.random() < 0.8]
        new[len(new) // 2 : len(new) // 2] = ["x\n"] * rng.randrange(3)
        before, after = "".join(old), "".join(new).removesuffix("\n" * rng.randrange(2))
        (base / "package" / "module.py").write_text(before)
        patch = patch_of(layer(**{"package/module.py": after.encode()}), base)

        if before != after and after:
            assert applied(patch, base)["package/module.py"].decode() == after


def test_what_is_no_text_is_named_and_not_shown(base: Path) -> None:
    text = patch_of(layer(**{"a.bin": b"\0\1", "b.txt": b"\xff\n"}), base).text

    assert "Binary files /dev/null and b/a.bin differ\n" in text
    assert "Binary files /dev/null and b/b.txt differ\n" in text
    assert "\0" not in text


def test_a_name_cannot_add_a_line_or_end_its_quotes(base: Path) -> None:
    text = patch_of(layer(**{'x\n+++ b/"forged\x1b[31m': b"y\n"}), base).text

    assert text.splitlines()[3] == '+++ "b/x\\n+++ b/\\"forged\\x1b[31m"'
    assert "\x1b" not in text


def test_a_link_of_the_template_is_not_followed(base: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("hunter2")
    (base / "out").symlink_to(tmp_path / "secret")
    text = patch_of(layer(**{"out/key": b"mine\n", "out/.wh..wh..opq": b""}), base).text

    assert "hunter2" not in text
    assert "new file mode 100644\n--- /dev/null\n+++ b/out/key\n" in text


def test_a_huge_patch_is_cut_at_the_end_of_a_line_and_says_so(base: Path) -> None:
    patch = patch_of(layer(big=b"a line of text\n" * 40_000), base)

    assert patch.is_cut
    assert len(patch.text) <= MAX_BYTES
    assert patch.text.endswith("+a line of text\n")


def test_a_huge_file_is_counted_and_not_compared(base: Path) -> None:
    text = patch_of(layer(big=b"x" * 2_000_000), base).text

    assert "# 0 bytes before, 2000000 after: too large to compare\n" in text


def test_changes_that_were_not_kept_leave_a_note(base: Path) -> None:
    assert patch_of(None, base).text.startswith("# The changes are too large")


def test_a_long_change_is_shown_as_removed_and_added_and_not_searched(base: Path) -> None:
    sides = [[f"{i * step % 5000}\n" for i in range(5000)] for step in (7919, 104729)]
    (base / "slow").write_text("a\n" + "".join(sides[0]) + "b\n")
    text = patch_of(layer(slow=("a\n" + "".join(sides[1]) + "b\n").encode()), base).text

    num_removed = sum(line.startswith("-") for line in text.splitlines())
    assert num_removed == 5000 - 1 + 1  # line 0 is common, the header is one more
    assert text.endswith("\n b\n")

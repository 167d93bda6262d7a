"""Where the services live: what the unprivileged account can reach, and what moves because of it."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.up import places
from controlplane.up.environment import ROOT
from controlplane.up.errors import CannotStart
from controlplane.up.places import NOBODY, blocked_by, open_home, reachable
from controlplane.up.tether import Account

ACCOUNT = Account(NOBODY, NOBODY)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="drops privileges: needs root")


def forget(var: Path) -> None:
    subprocess.run(["make", "-C", ROOT, "clean-data", f"VAR={var}"], check=True)


@pytest.fixture
def closed(entered_by_all: Path) -> Iterator[Path]:
    """A var/ inside a home directory that only root can enter."""
    home = entered_by_all / "root"
    home.mkdir(mode=0o700)
    yield (var := home / "longtail" / "var")
    forget(var)


@needs_root
def test_data_of_a_closed_checkout_moves_to_where_the_account_can_enter(closed: Path) -> None:
    home = open_home(closed, ACCOUNT)
    assert (closed / "services").is_symlink()
    assert blocked_by(home.path, ACCOUNT) is None
    assert open_home(closed, ACCOUNT) == home, "the second start finds the same place"
    forget(closed)
    assert not home.path.exists(), "and make clean forgets it"


@needs_root
def test_an_open_checkout_keeps_its_data_inside(entered_by_all: Path) -> None:
    home = open_home(entered_by_all / "var", ACCOUNT)
    assert home.path == entered_by_all / "var" / "services"
    assert stat.S_IMODE(home.sockets.stat().st_mode) == 0o700
    assert home.sockets.stat().st_uid == NOBODY


@needs_root
def test_data_that_the_account_can_no_longer_enter_is_named_with_what_to_do(
    entered_by_all: Path,
) -> None:
    var = entered_by_all / "var"
    open_home(var, ACCOUNT)
    entered_by_all.chmod(0o700)
    with pytest.raises(CannotStart, match=rf"cannot enter {entered_by_all}\. Run `chmod o\+x"):
        open_home(var, ACCOUNT)


@needs_root
def test_binaries_of_a_closed_checkout_are_copied(closed: Path) -> None:
    server, library = closed / "venv/server/bin/server", closed / "venv/library"
    server.parent.mkdir(parents=True)
    library.write_text("id -u\n")
    server.write_text('#!/bin/sh\n. "$(dirname "$0")/../../library"\n')
    server.chmod(0o755)
    home = open_home(closed, ACCOUNT)
    copy = reachable(server, [server.parent.parent, library], home, "server-1")
    done = subprocess.run([copy], user=NOBODY, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(NOBODY)


def test_sockets_move_when_their_path_would_be_too_long(tmp_path: Path) -> None:
    var = tmp_path / ("long" * 25)
    home = open_home(var, None)
    assert len(str(home.sockets / places.LONGEST_SOCKET)) <= places.MAX_SOCKET_PATH
    assert home.path.is_relative_to(var), "only the sockets moved"
    assert open_home(var, None) == home
    forget(var)
    assert not home.sockets.exists()


def test_a_full_disk_is_named_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "MIN_FREE_BYTES", 2**60)
    with pytest.raises(CannotStart, match=r"The disk of .* is full: \d+ MB are free"):
        open_home(tmp_path, None)

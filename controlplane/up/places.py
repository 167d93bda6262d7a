"""Where the embedded services keep their data and sockets, and which account may enter.

var/services            a directory, or a symlink to one that the account can reach
    postgres/ valkey/   data, 0700, owned by the account
    bin/                copies of binaries that the account cannot reach where they are
    run/                sockets, 0700; a symlink to a short path when this one is too long
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from controlplane.up.errors import CannotStart
from controlplane.up.tether import Account

NOBODY = 65534
MAX_SOCKET_PATH = 99  # bytes; sockaddr_un takes 107, PostgreSQL a little less with its lock file
LONGEST_SOCKET = ".s.PGSQL.5432.lock"
MIN_FREE_BYTES = 256 * 2**20  # a fresh PostgreSQL 18 cluster takes 58 MB, its first WAL 16 MB more


@dataclass(frozen=True)
class Home:
    """The directories of the embedded services of one var/; `account` is None unless root."""

    path: Path
    sockets: Path
    account: Account | None

    def private_directory(self, name: str) -> Path:
        """`name` below the home, mode 0700, owned by the account."""
        directory = self.path / name
        directory.mkdir(mode=0o700, exist_ok=True)
        _own(directory, self.account)
        return directory


def service_account() -> Account | None:
    """The account of the services: ours, or an unprivileged one when we are root.

    LONGTAIL_SERVICE_UID names another uid than 65534; no user needs to exist for it.
    """
    if os.geteuid() != 0:
        return None
    uid = int(os.environ.get("LONGTAIL_SERVICE_UID") or NOBODY)
    if uid == 0:
        raise CannotStart("LONGTAIL_SERVICE_UID is 0, but PostgreSQL refuses to run as root.")
    return Account(uid, uid)


def blocked_by(path: Path, account: Account | None) -> Path | None:
    """The first directory on the way to `path` (itself included) that the account cannot enter."""
    if account is None:
        return None
    path = path.absolute()
    for directory in [*reversed(path.parents), path]:
        if not directory.is_dir():
            continue
        status = directory.stat()
        if status.st_uid == account.uid:
            bit = stat.S_IXUSR
        elif status.st_gid == account.gid:
            bit = stat.S_IXGRP
        else:
            bit = stat.S_IXOTH
        if not status.st_mode & bit:
            return directory
    return None


def open_home(var: Path, account: Account | None) -> Home:
    """Find or make the services' directories of `var`.

    Raises CannotStart: the account cannot reach existing data, or the disk is full.
    """
    var.mkdir(parents=True, exist_ok=True)
    link = var / "services"
    home = link.resolve()
    if not home.is_dir():
        home = _new_home(link, account)
    if blocker := blocked_by(home, account):
        raise CannotStart(
            f"{home} holds the database, but uid {account.uid if account else os.geteuid()}, which "
            f"runs it, cannot enter {blocker}. Run `chmod o+x {blocker}`, move the checkout, set "
            "LONGTAIL_VAR to a directory elsewhere, or forget the data with `make clean`."
        )
    if (free := shutil.disk_usage(home).free) < MIN_FREE_BYTES:
        raise CannotStart(
            f"The disk of {home} is full: {free // 2**20} MB are free, the services need "
            f"{MIN_FREE_BYTES // 2**20} MB. Free some, or set LONGTAIL_VAR to another disk."
        )
    return Home(home, _open_sockets(home / "run", account), account)


def service_environment() -> dict[str, str]:
    """What a service may know of our environment: no secret, no PGDATA or PGPORT."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def reachable(program: Path, parts: Sequence[Path], home: Home, name: str) -> Path:
    """`program`, or its copy in bin/ when the account cannot reach it where it is.

    `parts` are the files and trees it consists of, `program` in one of them; the copies keep their
    places relative to each other, since programs find their libraries and data that way.
    """
    if blocked_by(program.parent, home.account) is None:
        return program
    base = Path(os.path.commonpath([part.parent for part in parts]))
    copy = home.path / "bin" / name
    if not copy.exists():
        copy.parent.mkdir(exist_ok=True, mode=0o755)
        with tempfile.TemporaryDirectory(dir=copy.parent) as scratch:
            half = Path(scratch) / name
            for part in parts:
                target = half / part.relative_to(base)
                target.parent.mkdir(parents=True, exist_ok=True)
                if part.is_dir():
                    shutil.copytree(part, target, symlinks=True)
                else:
                    shutil.copy2(part, target)
            half.rename(copy)
    return copy / program.relative_to(base)


def _new_home(link: Path, account: Account | None) -> Path:
    """Below var/ when the account can enter that, else elsewhere behind a symlink."""
    link.unlink(missing_ok=True)  # it may dangle
    if blocked_by(link.parent.resolve(), account) is None:
        link.mkdir(mode=0o711)
        return link.resolve()
    home = _directory_elsewhere(Path("/var/lib/longtail"))
    home.chmod(0o711)
    (home / "belongs_to").write_text(f"{link.parent.resolve()}\n")  # for whoever cleans up by hand
    link.symlink_to(home)
    return home


def _open_sockets(run: Path, account: Account | None) -> Path:
    """A 0700 directory whose socket paths fit into sockaddr_un."""
    sockets = run.resolve()
    if not sockets.is_dir():
        run.unlink(missing_ok=True)
        if len(os.fsencode(run / LONGEST_SOCKET)) <= MAX_SOCKET_PATH:
            run.mkdir(mode=0o700)
        else:
            run.symlink_to(_directory_elsewhere(Path("/run/longtail")))
        sockets = run.resolve()
    _own(sockets, account)
    return sockets


def _directory_elsewhere(base: Path) -> Path:
    """A new directory with an unguessable name under `base`, or where temporary files go."""
    try:
        base.mkdir(mode=0o711, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="longtail-", dir=base))
    except OSError:
        return Path(tempfile.mkdtemp(prefix="longtail-"))


def _own(directory: Path, account: Account | None) -> None:
    """Make the account the only one that may enter."""
    if account is not None:
        os.chown(directory, account.uid, account.gid)
    directory.chmod(0o700)

"""Run a command that drops its privileges and dies with the process that started it.

    supervisor ──fork, exec──► this file: drop uid, ask for the death signal ──exec──► the command

The death signal (PR_SET_PDEATHSIG) is asked for after the fork, the exec and the change of uid:
credentials that change clear it, and code between fork and exec may deadlock in a threaded process.
The kernel sends it when the *thread* that forked ends, so start commands from the main thread.

Standard library only; runs as a script under `python -I -S` (12 ms of CPU).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from typing import NamedTuple

PR_SET_PDEATHSIG = 1


class Account(NamedTuple):
    """Who a service runs as when the supervisor is root."""

    uid: int
    gid: int


def tethered(
    command: Sequence[str],
    *,
    account: Account | None = None,
    death_signal: signal.Signals = signal.SIGKILL,
) -> list[str]:
    """The command line that runs `command` as `account`, tied to the life of this process."""
    owner = f"{account.uid}:{account.gid}" if account else ""
    flags = [str(os.getpid()), str(int(death_signal)), owner]
    return [sys.executable, "-I", "-S", __file__, *flags, *command]


def main(argv: Sequence[str]) -> None:
    """Arguments: parent's pid, death signal, uid:gid or "", command. Does not return."""
    parent, death_signal, owner, *command = argv
    if owner:
        uid, gid = map(int, owner.split(":"))
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0) != 0:
        sys.exit(f"prctl(PR_SET_PDEATHSIG): {os.strerror(ctypes.get_errno())}")
    if os.getppid() != int(parent):  # it died before the call above
        sys.exit(1)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])

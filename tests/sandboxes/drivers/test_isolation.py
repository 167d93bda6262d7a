"""What a hostile command finds. Each of these was once a hole, or would be one without an option of ours."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import pytest

from sandboxes.drivers.box import LocalSandbox
from sandboxes.drivers.local import UID
from tests.sandboxes.drivers.conftest import SECRET, Start, processes_below

PYTHON = "/usr/bin/python3"
needs_python = pytest.mark.skipif(
    not Path(PYTHON).exists(), reason=f"{PYTHON} is not on this machine"
)


def run(sandbox: LocalSandbox, command: str, timeout_s: float = 60.0) -> str:
    return sandbox.exec(command, timeout_s=timeout_s).output


def test_no_secret_of_the_worker_is_in_any_environment_or_command_line(
    sandbox: LocalSandbox,
) -> None:
    assert SECRET in os.environ.values()
    run(sandbox, "sleep 1000 &")
    assert (
        run(sandbox, f"cat /proc/*/environ /proc/*/cmdline | grep -c {SECRET[:-1]}[{SECRET[-1]}]")
        == "0\n"
    )
    assert "1/environ" in run(sandbox, "ls -d /proc/*/environ")
    for pid in processes_below(os.getpid()):  # on this machine, too
        assert SECRET.encode() not in Path(f"/proc/{pid}/environ").read_bytes()


def test_no_descriptor_of_ours_enters_a_box(sandbox: LocalSandbox) -> None:
    listing = run(
        sandbox, "ls -l /proc/self/fd /proc/1/fd | sed -n 's/.*-> //p' | sed 's/[:0-9].*//'"
    )
    assert set(listing.split()) == {"/dev/null", "pipe", "/proc/"}
    assert set(run(sandbox, "ls /proc/self/fd").split()) == {"0", "1", "2", "3"}


def test_no_process_of_a_box_is_this_machines_root(sandbox: LocalSandbox) -> None:
    run(sandbox, "sleep 1000 &")
    expected = str(UID if os.geteuid() == 0 else os.geteuid())
    for pid in processes_below(os.getpid()):
        status = Path(f"/proc/{pid}/status").read_text()
        uids = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:]
        assert uids == [expected] * 4, status


def test_files_of_this_machine_are_not_there(sandbox: LocalSandbox) -> None:
    assert (
        run(sandbox, "cat /etc/shadow /proc/1/root/etc/shadow 2>&1 | grep -c 'No such file'")
        == "2\n"
    )
    expected = "bin dev etc home lib lib32 lib64 libx32 logs proc run sbin tests tmp usr workspace"
    assert set(run(sandbox, "ls /").split()) <= set(expected.split())
    assert run(sandbox, "cat /etc/passwd | cut -d: -f1") == "root\nagent\n"
    assert run(sandbox, "ls /home /run") == "/home:\nagent\n\n/run:\nsandbox\n"


@pytest.mark.parametrize(
    "place", ["/", "/etc", "/usr", "/dev", "/run/sandbox", "/home", "/tests", "/logs", "/proc"]
)
def test_nothing_outside_its_own_directories_can_be_written(
    sandbox: LocalSandbox, place: str
) -> None:
    result = sandbox.exec(f"echo x > {place}/new", timeout_s=5)
    assert result.exit_code != 0, result
    assert sandbox.exec(
        f"mount -o remount,rw {place}; chmod 777 {place} && touch {place}/new", timeout_s=5
    ).exit_code


def test_the_commands_file_cannot_be_made_to_grow(sandbox: LocalSandbox) -> None:
    assert sandbox.exec("echo x >> /run/sandbox/command", timeout_s=5).exit_code != 0
    assert sandbox.exec("rm /run/sandbox/command", timeout_s=5).exit_code != 0


def test_the_disk_ends_at_its_limit_wherever_one_writes(start: Start) -> None:
    sandbox = start(disk_bytes=2 * 2**20)
    assert "No space left" in run(sandbox, "head -c 9000000 /dev/zero > /workspace/big")
    assert int(run(sandbox, "stat -c %s /workspace/big")) <= 2 * 2**20
    for place in ("/tmp", "/home/agent", "/dev/shm"):
        output = run(
            sandbox,
            f"for i in 1 2 3; do head -c 60000000 /dev/zero > {place}/$i; done; rm {place}/*",
        )
        assert "No space left" in output or "File size limit" in output


def test_the_number_of_files_ends_at_its_limit_wherever_one_writes(start: Start) -> None:
    sandbox = start(max_files=200)
    command = "i=0; while : > {}/$i; do i=$((i+1)); done 2>/dev/null; echo $i"
    assert 100 < int(run(sandbox, command.format("/workspace"))) < 200
    assert 100 < int(run(sandbox, command.format("/dev/shm"))) < 20_000


def test_a_fork_bomb_is_limited_in_each_sandbox_by_itself(start: Start) -> None:
    first, second = start(max_processes=30), start(max_processes=30)
    bomb = "sh -c 'while :; do sleep 1000 >/dev/null 2>&1 & done' 2>error; read -r line <error; echo $line"
    for number, sandbox in enumerate(
        (first, second), 1
    ):  # sh gives up; bash would wait for a place
        assert "Cannot fork" in run(sandbox, bomb)
        assert 20 * number <= count_sleeping() < 30 * number
    assert first.exec(":(){ :|:& };:", timeout_s=0.5).timed_out
    assert 20 <= count_sleeping() < 30


def count_sleeping() -> int:
    """Processes called sleep below this one; a child that has not yet become one is waited for."""
    deadline = time.monotonic() + 10
    names = ["sh\n"]
    while names.count("sh\n") > 0 and time.monotonic() < deadline:
        names = [Path(f"/proc/{pid}/comm").read_text() for pid in processes_below(os.getpid())]
    return names.count("sleep\n")


@needs_python
def test_memory_ends_at_its_limit(start: Start) -> None:
    sandbox = start(memory_bytes=100 * 2**20)
    assert "MemoryError" in run(sandbox, f"{PYTHON} -c 'x = bytearray(200 << 20)'")
    assert run(sandbox, f"{PYTHON} -c 'x = bytearray(20 << 20); print(len(x))'") == "20971520\n"


def test_a_box_has_no_network(sandbox: LocalSandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert sandbox.exec(f"exec 3<>/dev/tcp/127.0.0.1/{port}", timeout_s=5).exit_code != 0
    assert sandbox.exec("exec 3<>/dev/tcp/1.1.1.1/53", timeout_s=5).exit_code != 0
    assert run(sandbox, "tail -n +3 /proc/net/dev | cut -d: -f1").split() == ["lo"]


@needs_python
def test_a_box_has_a_loopback_of_its_own(sandbox: LocalSandbox) -> None:
    listen = (
        "import socket, time; s = socket.create_server(('127.0.0.1', 18734)); "
        "print('up', flush=True); time.sleep(999)"
    )
    wait = "while [ ! -s /tmp/out ]; do sleep 0.02; done"
    run(sandbox, f'{PYTHON} -c "{listen}" >/tmp/out 2>&1 & {wait}; cat /tmp/out')
    assert run(sandbox, "cat /tmp/out; exec 3<>/dev/tcp/127.0.0.1/18734; echo $?") == "up\n0\n"
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", 18734), timeout=1).close()


@needs_python
def test_sandboxes_do_not_meet_in_shared_memory_or_abstract_sockets(start: Start) -> None:
    first, second = start(), start()
    listen = (
        "import socket, time; s = socket.socket(socket.AF_UNIX); s.bind('\\0name'); s.listen(); "
        "print('up', flush=True); time.sleep(99)"
    )
    run(first, f'{PYTHON} -c "{listen}" > /tmp/out & while [ ! -s /tmp/out ]; do sleep 0.02; done')
    connect = "import socket; socket.socket(socket.AF_UNIX).connect('\\0name')"
    assert first.exec(f'{PYTHON} -c "{connect}"', timeout_s=5).exit_code == 0
    assert "ConnectionRefused" in run(second, f'{PYTHON} -c "{connect}"')
    run(first, "echo x > /dev/shm/x; echo x > /tmp/x")
    assert run(second, "ls /dev/shm /tmp") == "/dev/shm:\n\n/tmp:\n"


def test_user_namespaces_mounts_and_other_processes_are_refused(sandbox: LocalSandbox) -> None:
    for command in (
        "unshare -U true",
        "unshare -r true",
        "mount -t tmpfs none /tmp",
        "umount /workspace",
        "nsenter -t 1 -m true",
        "chroot / true",
        "mknod device c 1 1",
        "dmesg",
        "hostname other",
        "sysctl -w kernel.hostname=other",
    ):
        assert sandbox.exec(command, timeout_s=5).exit_code != 0, command
    assert run(sandbox, f"kill -9 {os.getpid()} 2>&1 | grep -c 'No such process'") == "1\n"
    status = run(sandbox, "cat /proc/self/status")
    for line in (
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
    ):
        assert line in status


@needs_python
@pytest.mark.parametrize(
    ("number", "name"), [(250, "keyctl"), (425, "io_uring_setup"), (321, "bpf"), (165, "mount")]
)
def test_kernel_surfaces_that_no_build_needs_are_refused(
    sandbox: LocalSandbox, number: int, name: str
) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("call numbers of x86-64")
    code = (
        "import ctypes; c = ctypes.CDLL(None, use_errno=True); "
        f"print(c.syscall({number}, 0, 0, 0, 0, 0), ctypes.get_errno())"
    )
    assert run(sandbox, f'{PYTHON} -c "{code}"') == "-1 1\n", name


@needs_python
def test_terminals_and_locks_work(sandbox: LocalSandbox) -> None:
    code = "import multiprocessing, pty, os; multiprocessing.Lock(); os.ttyname(pty.openpty()[1]); print('work')"
    assert run(sandbox, f'{PYTHON} -c "{code}"') == "work\n"


def test_the_template_is_never_touched(start: Start, template: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in template.rglob("*")}
    first, second = start(), start()
    run(
        first,
        "echo changed > package/module.py; rm -r package/inner README; mkdir README; chmod 700 .; touch new",
    )
    assert run(first, "cat package/module.py; ls") == "changed\nREADME\nnew\npackage\n"
    assert (
        run(second, "cat package/module.py package/inner/deep.py README")
        == "value = 1\nvalue = 2\nread me\n"
    )
    assert {path: path.stat().st_mtime_ns for path in template.rglob("*")} == before


def test_boxes_outlive_the_thread_that_started_them(start: Start) -> None:
    started: list[LocalSandbox] = []
    thread = threading.Thread(target=lambda: started.append(start()))
    thread.start()
    thread.join()
    assert run(started[0], "sleep 0.2; echo alive") == "alive\n"

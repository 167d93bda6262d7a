from __future__ import annotations

import io
import os
import tarfile
import threading
import time
from pathlib import Path

import pytest

from sandboxes.drivers.box import LocalSandbox
from sandboxes.drivers.local import LocalDriver
from sandboxes.failures import Failure, FailureClass, FailureStage
from tests.sandboxes.drivers.conftest import Start, is_alive, is_spawner, processes_below


def run(sandbox: LocalSandbox, command: str, timeout_s: float = 60.0) -> str:
    return sandbox.exec(command, timeout_s=timeout_s).output


# --- one command after another


def test_directory_variables_and_functions_persist_between_commands(sandbox: LocalSandbox) -> None:
    run(
        sandbox,
        "cd package; x='a b'; declare -A map=([key]=value); f() { echo \"f $1\"; }; export y=1",
    )
    assert run(sandbox, "echo $x ${map[key]} $PWD; f 2; env | grep ^y=") == (
        "a b value /workspace/package\nf 2\ny=1\n"
    )


def test_stdout_and_stderr_are_merged_in_the_order_of_the_writes(sandbox: LocalSandbox) -> None:
    output = run(sandbox, "for i in 1 2 3; do echo out $i; echo err $i >&2; ls /no$i; done")
    words = [line.split()[0] for line in output.splitlines()]
    assert words == ["out", "err", "ls:"] * 3


@pytest.mark.parametrize(
    ("command", "exit_code"),
    [("true", 0), ("false", 1), ("sh -c 'exit 7'", 7), ("no-such-program", 127), ("return 9", 9)],
)
def test_the_exit_code_is_the_commands(sandbox: LocalSandbox, command: str, exit_code: int) -> None:
    assert sandbox.exec(command, timeout_s=60).exit_code == exit_code


def test_a_command_sees_the_exit_code_of_its_own_last_command_only(sandbox: LocalSandbox) -> None:
    assert sandbox.exec("false; echo $?", timeout_s=60).output == "1\n"
    assert sandbox.exec("", timeout_s=60).exit_code == 0


def test_long_output_keeps_its_head_and_tail_and_says_what_was_dropped(
    sandbox: LocalSandbox,
) -> None:
    result = sandbox.exec(
        "printf START; head -c 300000 /dev/zero | tr '\\0' x; printf END",
        timeout_s=60,
        max_output_bytes=1000,
    )
    assert result.truncated_bytes == 300_008 - 1000
    assert result.output.startswith(
        "START" + "x" * 495 + "\n[... 299008 bytes of output dropped ...]\n"
    )
    assert result.output.endswith("x" * 497 + "END")


def test_output_at_the_cap_is_whole(sandbox: LocalSandbox) -> None:
    result = sandbox.exec("printf 0123456789", timeout_s=60, max_output_bytes=10)
    assert (result.output, result.truncated_bytes) == ("0123456789", 0)


def test_invalid_utf8_is_replaced(sandbox: LocalSandbox) -> None:
    assert run(sandbox, r"printf '\377ok\n'; echo käse") == "\ufffdok\nkäse\n"


def test_a_nul_byte_or_a_lone_surrogate_is_an_observation(sandbox: LocalSandbox) -> None:
    result = sandbox.exec("echo a\0b", timeout_s=60)
    assert (result.exit_code, "NUL" in result.output) == (126, True)
    assert run(sandbox, "echo 'a\udc80b'") == "a?b\n"


@pytest.mark.parametrize(
    "text",
    [
        'echo "open',
        "echo 'open",
        "cat <<EOF\nno end",
        "if true; then",
        "echo $((1+",
        "(",
        "}",
        "`",
        "echo \\",
    ],
)
def test_unfinished_or_wrong_syntax_is_an_observation_and_the_shell_goes_on(
    sandbox: LocalSandbox, text: str
) -> None:
    run(sandbox, "x=kept")
    assert not sandbox.exec(text, timeout_s=60).timed_out
    assert run(sandbox, "echo $x") == "kept\n"


def test_a_long_command_arrives_whole(sandbox: LocalSandbox) -> None:
    content = "".join(f"line {i} of a file\n" for i in range(20_000))
    run(sandbox, f"cat > big <<'EOF'\n{content}EOF\n")
    sandbox.kill_processes()
    assert sandbox.read_file("/workspace/big", max_bytes=10**6) == content.encode()


def test_a_command_that_reads_its_input_gets_its_end(sandbox: LocalSandbox) -> None:
    assert run(sandbox, "cat; read x; echo got $? && sh; exec <README") == "got 1\n"
    assert run(sandbox, "cat") == ""


@pytest.mark.parametrize(
    "attack",
    [
        "exec >/dev/null 2>&1",
        "exec 1>&- 2>&- 0<&-",
        "exec 7>&- 8>&- 9>&-",
        "printf() { echo no; }; echo() { :; }; eval() { :; }; source() { :; }",
        "set -x",
        "set -u; IFS=x; PATH=/nowhere",
        "trap 'true' DEBUG; shopt -s extdebug; set -o noclobber; set -f",
        "readonly nonce=1; umask 777; ulimit -n 20",
        "echo 'x 0 /' >&9; echo 'x 0 /' >/proc/1/fd/9",
        "kill -9 1; kill -9 $$; kill -TERM 1; kill 0",
        "break; continue; return 3",
        "exec -a other /nowhere/program",
    ],
)
def test_what_a_command_does_to_its_shell_does_not_break_the_next(
    start: Start, attack: str
) -> None:
    sandbox = start()
    assert not sandbox.exec(attack, timeout_s=60).timed_out
    result = sandbox.exec("builtin echo still here; builtin cd /; builtin pwd", timeout_s=60)
    lines = [line for line in result.output.splitlines() if not line.startswith("+")]
    assert (lines, result.timed_out) == (["still here", "/"], False)


def test_a_forged_report_does_not_end_the_command(sandbox: LocalSandbox) -> None:
    result = sandbox.exec(
        "printf 'f00d 0 /x\\0' > /proc/1/fd/14; sleep 0.2; echo end; false", timeout_s=5
    )
    assert result.output.splitlines()[-1] == "end"
    assert result.exit_code == 1


def test_exit_ends_the_shell_and_the_next_command_gets_a_new_one_in_its_place(
    sandbox: LocalSandbox,
) -> None:
    run(sandbox, "cd package; x=old; echo kept > /tmp/file; sleep 1000 &")
    result = sandbox.exec("echo bye; exit 3", timeout_s=60)
    assert result.output.startswith("bye\n[the shell ended with exit code 3; ")
    assert "new shell in /workspace/package" in result.output
    assert result.exit_code == 3
    assert (
        run(sandbox, 'echo "$x" $PWD; cat /tmp/file; pgrep sleep') == " /workspace/package\nkept\n"
    )


@pytest.mark.parametrize("code", [0, 1, 137, 143])
def test_no_exit_code_of_the_agent_looks_like_a_lost_box(sandbox: LocalSandbox, code: int) -> None:
    assert sandbox.exec(f"exit {code}", timeout_s=60).exit_code == code
    assert run(sandbox, "set -e; false").startswith("[the shell ended with exit code 1")
    assert run(sandbox, "exec sh -c 'kill -9 $$; echo immune'").startswith(
        "immune\n[the shell ended"
    )


def test_background_processes_that_hold_the_output_do_not_hold_the_call(
    sandbox: LocalSandbox,
) -> None:
    result = sandbox.exec("(sleep 2; echo late) & sleep 1000 & echo started", timeout_s=60)
    assert (result.output, result.timed_out) == ("started\n", False)
    assert run(sandbox, "wait %1; echo now") == "late\nnow\n"
    assert "Running" in run(sandbox, "jobs; kill %2")


def test_a_background_flood_does_not_hold_the_call(sandbox: LocalSandbox) -> None:
    result = sandbox.exec("yes & sleep 0.1; echo done", timeout_s=20, max_output_bytes=100)
    assert not result.timed_out
    assert not sandbox.exec("kill %1; wait", timeout_s=20).timed_out


# --- commands that do not end


@pytest.mark.parametrize(
    "command",
    [
        "sleep 1000",
        "while :; do :; done",
        "f() { while :; do sleep 0.01; done; }; trap '' TERM INT HUP; f",
        "bash -c 'trap \"\" TERM; setsid nohup sleep 1000 & sleep 1000'",
        "sleep 1000 | cat",
        "(setsid sleep 1000 >/dev/null 2>&1 </dev/null &); sleep 1000",
    ],
)
def test_a_timeout_kills_the_whole_tree(driver: LocalDriver, start: Start, command: str) -> None:
    sandbox = start()
    run(sandbox, "cd package; echo kept > /tmp/file")
    before = set(processes_below(os.getpid()))
    result = sandbox.exec(f"echo begun; {command}", timeout_s=0.8)
    assert (result.timed_out, result.exit_code) == (True, 124)
    assert result.output.startswith("begun\n[stopped after 0.8 s: all processes were killed; ")
    assert not set(processes_below(os.getpid())) - before
    assert (
        run(sandbox, "echo $PWD; cat /tmp/file; ps -e | grep -c sleep")
        == "/workspace/package\nkept\n0\n"
    )


def test_a_flood_of_output_is_stopped_before_its_time(sandbox: LocalSandbox) -> None:
    result = sandbox.exec("yes", timeout_s=60)
    assert (result.timed_out, result.exit_code) == (False, 137)
    assert result.output.startswith("y\ny\n")
    assert "[stopped: too much output" in result.output
    assert result.truncated_bytes > 60 * 2**20


def test_closing_from_another_thread_ends_the_command_that_runs(sandbox: LocalSandbox) -> None:
    threading.Timer(0.3, sandbox.close).start()
    with pytest.raises(Failure) as caught:
        sandbox.exec("sleep 1000", timeout_s=60)
    assert (caught.value.stage, caught.value.kind) == (FailureStage.EXEC, FailureClass.LOST)
    assert not caught.value.by_policy
    with pytest.raises(Failure):
        sandbox.exec("true", timeout_s=1)
    sandbox.close()


# --- the end of the agent


def test_killing_processes_leaves_only_the_workdir(sandbox: LocalSandbox) -> None:
    run(
        sandbox,
        "cd package; echo new > added; rm ../README; x=1; f() { echo f; }; echo a > /tmp/a; echo a > ~/.bashrc;"
        "echo a > /dev/shm/a; (setsid nohup sh -c 'while :; do echo a >> /workspace/still; sleep 0.01; done' &)",
    )
    assert len(processes_below(os.getpid())) >= 4
    sandbox.kill_processes()
    assert all(is_spawner(pid) for pid in processes_below(os.getpid()))
    size = sandbox.read_file("/workspace/still", max_bytes=10**6)
    assert run(
        sandbox, 'echo "$x" $PWD; f; ls -A /tmp ~ /dev/shm; cat package/added; ls README'
    ) == (
        " /workspace\n/run/sandbox/command: line 1: f: command not found\n/dev/shm:\n\n/home/agent:\n\n/tmp:\nnew\n"
        "ls: cannot access 'README': No such file or directory\n"
    )
    assert sandbox.read_file("/workspace/still", max_bytes=10**6) == size


def test_killing_processes_twice_or_after_an_exit_is_harmless(sandbox: LocalSandbox) -> None:
    sandbox.kill_processes()
    sandbox.kill_processes()
    sandbox.exec("exit 1", timeout_s=60)
    sandbox.kill_processes()
    assert run(sandbox, "echo fine") == "fine\n"


def test_grading_directories_are_hidden_until_they_are_written(sandbox: LocalSandbox) -> None:
    assert run(
        sandbox, "ls -A /tests /logs; touch /tests/conftest.py /logs/x 2>&1 | grep -c Read-only"
    ) == ("/logs:\n\n/tests:\n2\n")
    assert sandbox.read_file("/logs/verifier/reward.json", max_bytes=100) is None
    run(sandbox, "sleep 1000 & touch /tmp/trap")
    sandbox.write_files({}, root="/logs/verifier")
    sandbox.write_files({"test.sh": b"id -u; echo 1 > /logs/verifier/reward.txt\n"}, root="/tests")
    assert run(sandbox, "pgrep sleep; ls /tmp; bash /tests/test.sh") == "1000\n"
    sandbox.kill_processes()
    assert sandbox.read_file("/logs/verifier/reward.txt", max_bytes=100) == b"1\n"
    assert run(sandbox, "cat /logs/verifier/reward.txt") == "1\n"


def test_grading_has_room_when_the_agent_has_filled_its_disk(start: Start) -> None:
    sandbox = start(disk_bytes=2**20, max_files=100)
    assert "No space left" in run(
        sandbox, "head -c 9000000 /dev/zero > big; head -c 99000000 /dev/zero > /tmp/big"
    )
    sandbox.write_files({"test.sh": b"echo 1 > /logs/verifier/reward.txt"}, root="/tests")
    run(sandbox, "bash /tests/test.sh")
    assert sandbox.read_file("/logs/verifier/reward.txt", max_bytes=10) == b"1\n"


def test_written_files_replace_what_was_there(sandbox: LocalSandbox) -> None:
    for root in (
        "/tests",
        "/logs/verifier",
        "/workspace/package",
        "/workspace/new/directory",
        "/tmp/x",
    ):
        sandbox.write_files({"old": b"", ".hidden": b"", "sub/old": b""}, root=root)
        run(sandbox, f"mkdir -p {root}/a/b/c; touch {root}/a/b/.c")
        files = {"binary": bytes(range(256)) * 500, "-odd 'name'/$x": b"text", "empty": b""}
        sandbox.write_files(files, root=root, executable=True)
        listing = run(
            sandbox, f"cd {root}; find . -type f -printf '%p %s %m\\n' | sort; cksum < binary"
        ).splitlines()
        assert listing[:3] == ["./-odd 'name'/$x 4 755", "./binary 128000 755", "./empty 0 755"]
        assert len(listing) == 4
        sandbox.write_files({}, root=root)
        assert run(sandbox, f"ls -A {root}") == ""


def test_nothing_of_the_grading_files_stays_where_the_graded_code_could_look(
    sandbox: LocalSandbox,
) -> None:
    sandbox.write_files({"expected": b"hidden-value"}, root="/tests")
    assert run(sandbox, "cat /tests/expected") == "hidden-value"
    look = "rm /tests/expected; ls -s /run/sandbox; cat /run/sandbox/payload | wc -c; "
    look += "grep -c hidden-valu[e] /run/sandbox/command"
    assert run(sandbox, look).split()[-2:] == ["0", "0"]


def test_a_link_or_a_denied_directory_in_place_of_the_root_is_replaced(
    sandbox: LocalSandbox,
) -> None:
    run(sandbox, "rm -r package; ln -s /home/agent package; echo mine > ~/file")
    sandbox.write_files({"module.py": b"restored"}, root="/workspace/package")
    assert (
        run(sandbox, "cat package/module.py; [ -L package ] || echo no link; ls ~")
        == "restoredno link\nfile\n"
    )
    run(
        sandbox,
        "mkdir -p package/a/b other; touch package/a/b/c; chmod 000 package/a/b package/a package other .",
    )
    sandbox.kill_processes()
    sandbox.write_files({"module.py": b"again"}, root="/workspace/package")
    assert (
        run(sandbox, "cd /workspace; ls package; stat -c %a other; cat package/module.py")
        == "module.py\n0\nagain"
    )
    run(sandbox, "rm -r package; touch package")
    sandbox.write_files({"a": b""}, root="/workspace/package")
    assert run(sandbox, "ls package") == "a\n"


@pytest.mark.parametrize("path", ["relative", "/workspace/../etc", "/workspace/a\0b"])
def test_paths_with_dots_are_refused(sandbox: LocalSandbox, path: str) -> None:
    with pytest.raises(ValueError, match="not an absolute path"):
        sandbox.write_files({"a": b""}, root=path)
    with pytest.raises(ValueError, match="not an absolute path"):
        sandbox.read_file(path, max_bytes=1)
    for name in ("/absolute", "../up", "a/../../b", ""):
        with pytest.raises(ValueError, match="not a relative path"):
            sandbox.write_files({name: b""}, root="/workspace/package")


def test_a_full_disk_is_the_policys_doing(start: Start) -> None:
    sandbox = start(disk_bytes=2**20, max_files=100)
    run(sandbox, "head -c 9000000 /dev/zero > big")
    with pytest.raises(Failure) as caught:
        sandbox.write_files({"test.py": bytes(100_000)}, root="/workspace/tests")
    assert (caught.value.kind, caught.value.by_policy) == (FailureClass.DISK_FULL, True)
    assert run(sandbox, "rm big; echo room > small; cat small") == "room\n"


def test_only_regular_files_are_read(sandbox: LocalSandbox) -> None:
    run(
        sandbox,
        "echo text > plain; mkdir -p d/e; echo inner > d/e/f; ln -s plain link; ln -s d dlink; mkfifo fifo;"
        "ln -s /etc/passwd passwd; ln -s / up; echo secret > denied; chmod 000 denied; chmod 111 d",
    )
    sandbox.kill_processes()

    def read(path: str) -> bytes | None:
        return sandbox.read_file(f"/workspace/{path}", max_bytes=100)

    assert (read("plain"), read("d/e/f"), read("denied")) == (b"text\n", b"inner\n", b"secret\n")
    assert read("README") == b"read me\n"
    for path in (
        "link",
        "dlink/e/f",
        "fifo",
        "passwd",
        "up/etc/passwd",
        "d",
        "none",
        "plain/x",
        "none/x",
    ):
        assert read(path) is None, path
    with pytest.raises(ValueError, match="is in none of"):
        sandbox.read_file("/etc/passwd", max_bytes=100)


def test_a_file_larger_than_asked_for_is_a_failure(sandbox: LocalSandbox) -> None:
    run(sandbox, "truncate -s 1G sparse 2>/dev/null || truncate -s 1M sparse")
    with pytest.raises(Failure) as caught:
        sandbox.read_file("/workspace/sparse", max_bytes=1000)
    assert (caught.value.stage, caught.value.by_policy) == (FailureStage.COLLECT, True)
    assert sandbox.changes(max_bytes=10_000) is None


def test_changes_hold_what_differs_from_the_template(sandbox: LocalSandbox) -> None:
    assert sandbox.changes(max_bytes=20_000) is not None
    run(
        sandbox,
        "echo 'value = 3' > package/module.py; rm README; rm -r package/inner; mkdir package/inner;"
        "echo x > package/inner/x; ln -s /etc/passwd link;"
        "echo '#!/bin/sh' > run; chmod 711 run; mkdir -m 000 denied",
    )
    sandbox.kill_processes()
    data = sandbox.changes(max_bytes=100_000)
    assert data is not None
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        found = {entry.name: entry for entry in tar}
        module = tar.extractfile("package/module.py")
        assert module is not None
        assert module.read() == b"value = 3\n"
    assert set(found) == {
        ".wh.README",
        "denied",
        "link",
        "package",
        "package/inner",
        "package/inner/.wh..wh..opq",
        "package/inner/x",
        "package/module.py",
        "run",
    }
    assert (found["link"].type, found["link"].linkname) == (tarfile.SYMTYPE, "/etc/passwd")
    assert (found["run"].mode, found["denied"].mode) == (0o711, 0)
    assert sandbox.changes(max_bytes=1000) is None


def test_a_maze_of_directories_has_no_changes_to_save(sandbox: LocalSandbox) -> None:
    run(sandbox, "for i in $(seq 70); do mkdir d; cd d; done")
    assert sandbox.changes(max_bytes=10**6) is None


# --- ends that nobody wanted


def box_of(sandbox: LocalSandbox) -> tuple[int, int]:
    """bwrap and the shell of a box, found by the directory that the shell is in."""
    marker = f"/workspace/{sandbox.id}"
    run(sandbox, f"mkdir -p {marker}; cd {marker}")
    for pid in processes_below(os.getpid()):
        try:
            if Path(f"/proc/{pid}/cwd").readlink() == Path(marker):
                parent = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
                return parent, pid
        except OSError:
            continue
    raise AssertionError("no such box")


def test_a_box_killed_from_outside_is_lost_and_nobodys_fault(sandbox: LocalSandbox) -> None:
    bwrap, shell = box_of(sandbox)
    assert "bwrap" in Path(f"/proc/{bwrap}/comm").read_text()
    threading.Timer(0.3, os.kill, (bwrap, 9)).start()
    with pytest.raises(Failure) as caught:
        sandbox.exec("sleep 1000", timeout_s=30)
    assert (caught.value.stage, caught.value.kind) == (FailureStage.EXEC, FailureClass.LOST)
    assert not caught.value.by_policy
    deadline = time.monotonic() + 5
    while is_alive(shell) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_alive(shell)


def test_a_box_killed_between_two_commands_is_lost(sandbox: LocalSandbox) -> None:
    bwrap, _ = box_of(sandbox)
    os.kill(bwrap, 9)
    time.sleep(0.2)
    with pytest.raises(Failure) as caught:
        sandbox.exec("true", timeout_s=30)
    assert caught.value.kind is FailureClass.LOST


def test_a_box_that_outlives_its_lifetime_is_lost_with_the_reason(start: Start) -> None:
    sandbox = start(lifetime_s=0.5)
    with pytest.raises(Failure, match="outlived its lifetime") as caught:
        sandbox.exec("sleep 1000", timeout_s=30)
    assert caught.value.kind is FailureClass.LOST
    with pytest.raises(Failure):
        sandbox.exec("true", timeout_s=60)


def test_a_stopped_box_ends_by_its_timeout(sandbox: LocalSandbox) -> None:
    _, shell = box_of(sandbox)
    os.kill(shell, 19)
    result = sandbox.exec("echo hi", timeout_s=0.5)
    assert result.timed_out
    assert run(sandbox, "echo back") == "back\n"


def test_closing_leaves_no_process_no_mount_and_no_descriptor(
    driver: LocalDriver, start: Start
) -> None:
    before = processes_below(os.getpid())
    spawner = next(pid for pid in before if b"spawner" in Path(f"/proc/{pid}/cmdline").read_bytes())
    descriptors = [Path("/proc/self/fd"), Path(f"/proc/{spawner}/fd")]
    num_fds = [len(list(path.iterdir())) for path in descriptors]
    for _ in range(3):
        sandbox = start()
        run(sandbox, "(setsid sleep 1000 &); (setsid sleep 1000 &)")
        sandbox.exec("exit 1", timeout_s=60)
        sandbox.exec("sleep 1000", timeout_s=0.1)
        sandbox.write_files({"a": b""}, root="/tests")
        sandbox.close()
        sandbox.close()
        assert processes_below(os.getpid()) == before
        with pytest.raises(Failure):
            sandbox.exec("true", timeout_s=1)
    deadline = time.monotonic() + 10  # the spawner learns of an end by its own descriptors
    while [len(list(path.iterdir())) for path in descriptors] != num_fds:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert " overlay " not in Path("/proc/self/mounts").read_text()

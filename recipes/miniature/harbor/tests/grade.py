"""Grades m.py of the working directory: all calls must give the values of the original module.

    grader: takes calls.txt and expected.txt ── fork ──► child: seccomp, then m.py and the calls
            hashes the bytes that come back   ◄── pipe ──┘
            writes reward.json once the child is dead

What a hostile module meets (it has the same user id as the grader):
- Hidden values are nowhere: expected.txt holds the SHA-256 over all values, so reading it, or the
  grader's memory, tells nothing, and printing helps nobody who does not know every value.
- Before the module runs, a seccomp filter leaves the child memory, clocks, reading files and
  writing to its pipe. No fork, exec, kill, ptrace, socket, rename, unlink, or opening for writing:
  it can neither touch the grader nor leave a process or a reward behind.
- CPU, wall clock, memory and output are limited; the filter keeps the limits in place.
If the filter cannot be installed, nothing is run and no reward is written: a failure of the
infrastructure. Runs on any Python >= 3.8.
"""
# ruff: noqa: PTH100, PTH103, PTH104, PTH108, PTH118, PTH120, PTH123
# ruff: noqa: UP031, UP037, S102, S307, BLE001, B905

import ctypes
import os
import resource
import stat
import struct
import sys
from _signal import ITIMER_REAL, setitimer  # type: ignore[import-not-found]
from hashlib import sha256

TESTS = os.path.dirname(os.path.abspath(__file__))
VERIFIER = "/logs/verifier"
SEPARATOR = b"\0"
MAX_SOURCE_BYTES = 1 << 16
MAX_OUTPUT_BYTES = 1 << 20
CPU_LIMIT_S = 1
WALL_LIMIT_S = 10
MEMORY_BYTES = 1 << 29
CONFINED = b"+"  # the first byte of the child: the filter is in place

# Linux audit architecture and syscall numbers of what the child may do; openat only for reading
SYSCALLS = {
    "x86_64": (
        0xC000003E,
        257,
        # read write close stat fstat lstat lseek mmap mprotect munmap brk rt_sigreturn pread64
        # mremap madvise getpid exit readlink gettid futex getdents64 clock_gettime exit_group
        # newfstatat readlinkat getrandom statx
        (
            0,
            1,
            3,
            4,
            5,
            6,
            8,
            9,
            10,
            11,
            12,
            15,
            17,
            25,
            28,
            39,
            60,
            89,
            186,
            202,
            217,
            228,
            231,
            262,
            267,
            318,
            332,
        ),
    ),
    "aarch64": (
        0xC00000B7,
        56,
        (
            63,
            64,
            57,
            80,
            62,
            222,
            226,
            215,
            214,
            139,
            67,
            216,
            233,
            172,
            93,
            178,
            98,
            61,
            113,
            94,
            79,
            78,
            278,
            291,
        ),
    ),
}
WRITING = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def confine() -> None:
    """Install the seccomp filter (man 2 seccomp): all but SYSCALLS fails with EPERM, for good."""
    architecture, openat, allowed = SYSCALLS[os.uname().machine]
    load, jump_equal, jump_set, answer = 0x20, 0x15, 0x45, 0x06
    allow, refuse = 0x7FFF0000, 0x00050000 | 1

    program = [
        (load, 0, 0, 4),
        (jump_equal, 1, 0, architecture),
        (answer, 0, 0, refuse),
        (load, 0, 0, 0),
    ]
    for number in allowed:
        program += [(jump_equal, 0, 1, number), (answer, 0, 0, allow)]
    # the flags of openat are its third argument
    program += [
        (jump_equal, 0, 3, openat),
        (load, 0, 0, 32),
        (jump_set, 1, 0, WRITING),
        (answer, 0, 0, allow),
    ]
    program += [(answer, 0, 0, refuse)]
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in program)

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]

    libc = ctypes.CDLL(None, use_errno=True)
    arguments = Program(len(program), code)
    no_new_privileges, set_seccomp, filter_mode = 38, 22, 2
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) or libc.prctl(
        set_seccomp, filter_mode, ctypes.byref(arguments)
    ):
        raise OSError(ctypes.get_errno(), "seccomp")


def read_module() -> "str | None":
    """m.py if it is a small regular file (never a link's target, never a FIFO that blocks)."""
    try:
        file = os.open("m.py", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return None
        data = os.read(file, MAX_SOURCE_BYTES + 1)
        return data.decode() if len(data) <= MAX_SOURCE_BYTES else None
    except (OSError, ValueError):
        return None


def run_child(source: str, calls: "list[str]", pipe: int) -> None:
    """Confined: evaluate the calls and write their values to the pipe. Never returns."""
    try:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(pipe, 1)
        os.dup2(null, 2)
        os.closerange(3, 4096)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S))
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        memory = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(hard, MEMORY_BYTES)
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        setitimer(ITIMER_REAL, WALL_LIMIT_S)
        confine()
        os.write(1, CONFINED)
        namespace: "dict[str, object]" = {}
        values = []
        exec(compile(source, "m.py", "exec"), namespace)
        for call in calls:
            try:
                values.append(repr(eval(call, namespace)))
            except Exception as error:
                values.append(type(error).__name__)
        data = SEPARATOR.join(value.encode() for value in values)
        while data:
            data = data[os.write(1, data) :]
    finally:
        os._exit(0)


def collect(source: str, calls: "list[str]") -> bytes:
    """What the child wrote; the child is dead when this returns."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        run_child(source, calls, writer)
    os.close(writer)
    output = b""
    while len(output) <= MAX_OUTPUT_BYTES:
        chunk = os.read(reader, 1 << 16)
        if not chunk:
            break
        output += chunk
    os.close(reader)
    os.kill(child, 9)
    os.waitpid(child, 0)
    if not output.startswith(CONFINED):
        sys.exit("the module cannot be confined on this machine: not graded")
    return output[len(CONFINED) :]


def take(name: str) -> "list[str]":
    """The lines of a file of the tests, which is gone afterwards."""
    path = os.path.join(TESTS, name)
    with open(path) as file:
        lines = file.read().splitlines()
    os.unlink(path)
    return lines


def main() -> None:
    calls = take("calls.txt")
    digest, *visible = take("expected.txt")
    source = read_module()
    output = collect(source, calls) if source is not None else b""
    values = output.split(SEPARATOR)
    passed = sum(got == want.encode() for got, want in zip(values, visible))
    reward = int(sha256(output).hexdigest() == digest)

    os.makedirs(VERIFIER, exist_ok=True)
    text = '{"reward": %d, "visible_passed": %d, "visible_tests": %d, "hidden_tests": %d}\n' % (
        reward,
        passed,
        len(visible),
        len(calls) - len(visible),
    )
    draft = os.path.join(VERIFIER, ".reward.json")
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    os.write(file, text.encode())
    os.close(file)
    os.rename(draft, os.path.join(VERIFIER, "reward.json"))
    print(text, end="")


if __name__ == "__main__":
    main()

"""The seccomp filter of local boxes, assembled by hand: libseccomp is not needed.

Denied are kernel surfaces that no build or test needs: keyrings (the kernel shares them between all boxes of
a uid), bpf, perf, userfaultfd, io_uring, kexec, modules, file handles, mounts, setns. They answer EPERM.
"""

from __future__ import annotations

import errno
import struct

_MOUNT_API = (*range(428, 434), 442)  # open_tree ... fspick, mount_setattr
_IO_URING = (425, 426, 427)
# add_key request_key keyctl bpf perf_event_open userfaultfd kexec_load kexec_file_load init_module
# finit_module delete_module open_by_handle_at mount umount2 pivot_root setns
_X86_64 = (248, 249, 250, 321, 298, 323, 246, 320, 175, 313, 176, 304, 165, 166, 155, 308)
_AARCH64 = (217, 218, 219, 280, 241, 282, 104, 294, 105, 273, 106, 265, 40, 39, 41, 268)
_DENIED = {"x86_64": _X86_64, "aarch64": _AARCH64}
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_ALLOW, _ERRNO = 0x7FFF0000, 0x50000


def seccomp_program(machine: str) -> bytes | None:
    """A classic BPF program for `bwrap --seccomp`; None for a machine whose call numbers we do not know.

    Source: Documentation/userspace-api/seccomp_filter.rst and include/uapi/linux/bpf_common.h of Linux.
    """
    if machine not in _DENIED:
        return None
    load, jump_equal, jump_at_least, give = 0x20, 0x15, 0x35, 0x06
    denied = (*_DENIED[machine], *_IO_URING, *_MOUNT_API)
    code = [
        (load, 0, 0, 4),  # seccomp_data.arch
        (jump_equal, 1, 0, _AUDIT_ARCH[machine]),
        (give, 0, 0, _ERRNO | errno.ENOSYS),
        (load, 0, 0, 0),  # seccomp_data.nr
        (jump_at_least, len(denied) + 1, 0, 0x40000000),  # the x32 calls of x86-64
        *((jump_equal, len(denied) - i, 0, number) for i, number in enumerate(denied)),
        (give, 0, 0, _ALLOW),
        (give, 0, 0, _ERRNO | errno.EPERM),
    ]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)

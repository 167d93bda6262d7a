"""Read what an agent left in a directory that belongs to it, without following it anywhere else.

Every step goes through a directory descriptor with O_NOFOLLOW, so a link, a FIFO or `..` cannot lead out of the
directory; only regular files are opened for reading. The processes of the sandbox have been ended before.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager

MAX_DEPTH = 64
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class TooLarge(Exception):
    """More bytes, or deeper directories, than the reader asked for."""


@contextmanager
def _opened(name: str, directory: int, flags: int = 0) -> Iterator[int]:
    """Open an entry for reading. Its owner may have taken its own right to read it: that is put back meanwhile."""
    try:
        fd = os.open(name, _READ | flags, dir_fd=directory)
    except PermissionError:
        mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise
        os.chmod(name, stat.S_IMODE(mode) | 0o500, dir_fd=directory)
        try:
            fd = os.open(name, _READ | flags, dir_fd=directory)
        finally:
            os.chmod(name, stat.S_IMODE(mode), dir_fd=directory)
    try:
        yield fd
    finally:
        os.close(fd)


def read_regular(directory: int, parts: list[str], max_bytes: int) -> bytes | None:
    """The regular file at `parts` below the directory; None if there is none. Raises TooLarge."""
    try:
        if len(parts) > 1:
            with _opened(parts[0], directory, os.O_DIRECTORY) as child:
                return read_regular(child, parts[1:], max_bytes)
        with _opened(parts[0], directory) as fd:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return None
            return _read(fd, max_bytes)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO):
            return None
        raise


def _read(fd: int, max_bytes: int) -> bytes:
    if os.fstat(fd).st_size > max_bytes:
        raise TooLarge(f"more than {max_bytes} bytes")
    chunks = []
    while chunk := os.read(fd, 1 << 20):
        chunks.append(chunk)
    return b"".join(chunks)


def find_changes(upper: int, max_bytes: int) -> bytes | None:
    """A tar of an overlay's upper layer; None if it is larger than max_bytes or deeper than MAX_DEPTH.

    What the layer hides is marked as in the OCI image specification (layer.md): an empty file `.wh.NAME`, and
    `.wh..wh..opq` in a directory that hides the lower one's entries. Owners are left out, times and modes kept.
    """
    buffer = io.BytesIO()
    try:
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
            _add_directory(tar, buffer, upper, "", max_bytes)
    except TooLarge:
        return None
    return buffer.getvalue() if buffer.tell() <= max_bytes else None


def _add_directory(
    tar: tarfile.TarFile, buffer: io.BytesIO, fd: int, path: str, max_bytes: int
) -> None:
    if path.count("/") > MAX_DEPTH:
        raise TooLarge(f"deeper than {MAX_DEPTH} directories")
    for name in sorted(os.listdir(fd)):
        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        entry = tarfile.TarInfo(path + name)
        entry.mode, entry.mtime = stat.S_IMODE(status.st_mode), int(status.st_mtime)
        if buffer.tell() + status.st_size * stat.S_ISREG(status.st_mode) > max_bytes:
            raise TooLarge(f"more than {max_bytes} bytes")
        if stat.S_ISDIR(status.st_mode):
            entry.type = tarfile.DIRTYPE
            tar.addfile(entry)
            with _opened(name, fd, os.O_DIRECTORY) as child:
                if _is_opaque(child):
                    tar.addfile(tarfile.TarInfo(f"{path}{name}/.wh..wh..opq"))
                _add_directory(tar, buffer, child, f"{path}{name}/", max_bytes)
        elif stat.S_ISREG(status.st_mode):
            with _opened(name, fd) as file:
                content = _read(file, max_bytes)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        elif stat.S_ISLNK(status.st_mode):
            entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(name, dir_fd=fd)
            tar.addfile(entry)
        elif stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
            tar.addfile(tarfile.TarInfo(f"{path}.wh.{name}"))
        elif stat.S_ISFIFO(status.st_mode):
            entry.type = tarfile.FIFOTYPE
            tar.addfile(entry)


def _is_opaque(directory: int) -> bool:
    try:
        return os.getxattr(directory, "user.overlay.opaque") == b"y"
    except OSError:
        return False

"""The disk: fsync of one file or folder, syncfs for many, and disk errors as Fairlead's errors."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from fairlead.errors import DataError, DiskFull, ReadOnlyData

_SLOW_SECONDS = 0.05
_SLOW_SECONDS_EACH = 0.005
_BATCHES_APART = 50


def fsync_path(path: Path) -> None:
    """Make a file's bytes, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Flusher:
    """Makes many new files durable by one syncfs of their file system.

    syncfs waits for everything that is being written there. If it takes longer than one fsync per
    file would, the next batches use fsync.
    """

    def __init__(self) -> None:
        self._apart = 0

    def is_worth_it(self) -> bool:
        self._apart = max(0, self._apart - 1)
        return self._apart == 0 and _syncfs_reports_errors(os.uname().release)

    def flush(self, folder: Path, files: int) -> None:
        began = time.monotonic()
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if _libc().syncfs(descriptor) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), str(folder))
        finally:
            os.close(descriptor)
        if time.monotonic() - began > _SLOW_SECONDS + files * _SLOW_SECONDS_EACH:
            self._apart = _BATCHES_APART


@cache
def _syncfs_reports_errors(release: str) -> bool:
    """Whether syncfs reports failed writes, as Linux does since 5.8."""
    version = [int(number) for number in re.findall(r"\d+", release)[:2]]
    return sys.platform == "linux" and version >= [5, 8]


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@contextmanager
def our_errors(folder: Path) -> Iterator[None]:
    """Turns an OSError about a folder of the installation into an error of Fairlead."""
    try:
        yield
    except OSError as error:
        raise translated(error, folder) from error


def is_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def translated(error: OSError, folder: Path) -> DataError:
    if is_full(error):
        return DiskFull(
            f"the disk of {folder} is full and nothing was written; free some space, then try again"
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return ReadOnlyData(
            f"{folder} cannot be written; give this user write permission on it, "
            "or choose another folder with --data"
        )
    return DataError(
        f"{folder} cannot be used ({error.strerror or error}); repair it, "
        "or choose another folder with --data"
    )

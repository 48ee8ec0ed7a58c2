"""Waiting for the disk: for one file or folder, or once for many."""

from __future__ import annotations

import ctypes
import os
import re
import sys
import time
from functools import cache
from pathlib import Path

_SLOW_SECONDS = 0.05
_SLOW_SECONDS_EACH = 0.005
_BATCHES_APART = 50


def fsync_path(path: Path) -> None:
    """Make a file's bytes, or the names in a folder, safe."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Flusher:
    """Makes many new files safe by one flush of their file system.

    That flush waits for whatever else is being written there. Where it takes longer than the files
    would have taken one by one, it is left alone for a while.
    """

    def __init__(self) -> None:
        self._apart = 0

    def is_worth_it(self) -> bool:
        """Whether to flush everything rather than file by file."""
        self._apart = max(0, self._apart - 1)
        return self._apart == 0 and _tells_of_errors(os.uname().release)

    def flush(self, folder: Path, files: int) -> None:
        """Flush the file system of this folder."""
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
def _tells_of_errors(release: str) -> bool:
    """Whether this Linux reports what could not be written: before 5.8, that flush kept it secret.

    A flush that fails in silence would break the promise, so files are then flushed by themselves.
    """
    numbers = [int(each) for each in re.findall(r"\d+", release)[:2]]
    return sys.platform == "linux" and numbers >= [5, 8]


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)

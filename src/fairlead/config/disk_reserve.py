"""A reserve on the disk, for what makes room there or has to be done all the same.

A database writes before it removes anything: on a disk without a byte left nothing could be
deleted, nor even opened to be read. So a file keeps some room, which is given up portion by portion
to who needs it. Nobody else asks for it: uploads are refused as before.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from fairlead.errors import DiskFull

T = TypeVar("T")

SIZE = 4 << 20
PORTION = SIZE // 8
"""Several times what a deletion writes, as others may be quicker to take some of it."""
MUCH_ROOM = 4 * SIZE
"""A disk that has less left needs it for other things."""


class Reserve:
    """A file of which nothing matters but its length. Several processes may share it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def lay(self) -> None:
        """Keep the whole of it, or what was given up, where there is much room again."""
        with suppress(OSError):  # all goes on without it
            disk = os.statvfs(self._path.parent)
            if disk.f_bavail * disk.f_frsize >= MUCH_ROOM and self._left() < SIZE:
                file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                try:
                    os.posix_fallocate(file, 0, SIZE)
                finally:
                    os.close(file)

    def use(self, action: Callable[[], T]) -> T:
        """Do this, and where the disk is full, again with more and more of the reserve."""
        while True:
            try:
                return action()
            except DiskFull:
                if not self._give():
                    raise

    def _give(self) -> bool:
        """Give up a portion; False: there is none left."""
        with suppress(OSError):
            if left := self._left():
                os.truncate(self._path, max(0, left - PORTION))
                return True
        return False

    def _left(self) -> int:
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0

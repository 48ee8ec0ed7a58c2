"""A reserve on the disk, for deletions and other work that a full disk must not prevent.

A database has to write before it can delete or even open: a full disk would prevent both. So a file
occupies some space, which is released in portions. Uploads do not use it: they fail.
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
"""Several times the bytes of a deletion, as other processes may use some of them."""
MUCH_ROOM = 4 * SIZE
"""With less free space, no reserve is taken."""


class Reserve:
    """A file whose length is the reserve; processes share it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def fill(self) -> None:
        """Allocate the reserve, or what was released of it, if the disk has enough room."""
        with suppress(OSError):  # everything works without it
            disk = os.statvfs(self._path.parent)
            if disk.f_bavail * disk.f_frsize >= MUCH_ROOM and self._left() < SIZE:
                file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                try:
                    os.posix_fallocate(file, 0, SIZE)
                finally:
                    os.close(file)

    def use(self, action: Callable[[], T]) -> T:
        """Run the action; while the disk is full, release a portion and repeat it."""
        while True:
            try:
                return action()
            except DiskFull:
                if not self._release():
                    raise

    def _release(self) -> bool:
        """Release a portion; False: nothing is left."""
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

"""The high-water mark: the number of the last durable event, in a file beside the database.

SQLite reads a damaged WAL up to its first wrong frame: later commits are lost without an error. The
mark shows that they existed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

LAST_EVENT = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'events'"


class HighWaterMark:
    """Written after each durable commit, without fsync: it may lag behind, but is never ahead."""

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(f"{database.name}-mark")
        self._file = -1
        with suppress(OSError):  # the store works without a mark
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, event: int) -> None:
        if self._file >= 0:
            with suppress(OSError):
                os.pwrite(self._file, b"%020d" % event, 0)

    def close(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)


def read_mark(database: Path) -> int:
    """The number of the last durable event; 0 if it is unknown."""
    try:
        return int(database.with_name(f"{database.name}-mark").read_bytes())
    except (OSError, ValueError):
        return 0


def remove_mark(database: Path) -> None:
    """Delete the mark of an earlier database: a new one has no events."""
    with suppress(OSError):
        database.with_name(f"{database.name}-mark").unlink()

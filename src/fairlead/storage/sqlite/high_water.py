"""The number of the last durable event, in a file beside the database.

A damaged WAL ends, for SQLite, before its first wrong frame: the commits after it are gone without
an error. The mark tells that they were there.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

LAST_EVENT = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'events'"


class HighWaterMark:
    """Written after each durable commit, without fsync: it may be behind, and is never ahead."""

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(f"{database.name}-mark")
        self._file = -1
        with suppress(OSError):  # everything else works without it
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
    """The last event that was durable; 0 where that is unknown."""
    try:
        return int(database.with_name(f"{database.name}-mark").read_bytes())
    except (OSError, ValueError):
        return 0


def remove_mark(database: Path) -> None:
    """The database is new."""
    with suppress(OSError):
        database.with_name(f"{database.name}-mark").unlink()

"""The version of the change feed for SQLite: polled often, so it must cost next to nothing.

Asking SQLite takes the interpreter's lock a dozen times, which is slow in a busy server. But a
commit writes to the WAL: while that file is unchanged, SQLite need not be asked.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from time import monotonic, time_ns

from fairlead.storage.sqlite.connection import connect, our_errors

SETTLED_NANOSECONDS = 1_000_000_000
"""The age from which a file's time can be trusted.

Two writes within one tick leave the same time, and a commit counts only once the disk has it.
"""
ASK_ANYWAY_SECONDS = 1.0

Stamp = tuple[int, int, int]


class ChangeWatcher:
    """Has a number that changes with every commit of any process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = path.with_name(f"{path.name}-wal")
        self._connection = connect(path)
        self._lock = Lock()
        self._stamp: Stamp | None = None
        self._version = 0
        self._ask_at = 0.0

    def close(self) -> None:
        self._connection.close()

    def version(self) -> int:
        with self._lock:
            stamp = self._settled_stamp()
            if stamp is None or stamp != self._stamp or monotonic() >= self._ask_at:
                self._version = self._asked()
                self._stamp, self._ask_at = stamp, monotonic() + ASK_ANYWAY_SECONDS
            return self._version

    def _settled_stamp(self) -> Stamp | None:
        """What changes when the WAL is written; None: a write might leave it unchanged."""
        try:
            stat = self._log.stat()
        except OSError:
            return None
        is_settled = time_ns() - stat.st_mtime_ns >= SETTLED_NANOSECONDS
        return (stat.st_ino, stat.st_mtime_ns, stat.st_size) if is_settled else None

    def _asked(self) -> int:
        with our_errors(self._path):
            return int(self._connection.pragma("data_version"))

"""The version of the change feed for SQLite. It is polled often, so it must cost almost nothing.

A query takes the interpreter's lock a dozen times, which is slow in a busy server. But a commit
writes to the WAL: while that file is unchanged, no query is needed.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from time import monotonic, time_ns

from fairlead.storage.sqlite.connection import connect, our_errors
from fairlead.storage.sqlite.wal_locks import WalLocks

SETTLED_NANOSECONDS = 1_000_000_000
"""The age from which a file's modification time is reliable.

Two writes within one clock tick have the same time, and a commit counts only once it is on disk.
"""
QUERY_ANYWAY_SECONDS = 1.0

Stamp = tuple[int, int, int]


class ChangeWatcher:
    """Provides a number that changes with every commit of any process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._wal = path.with_name(f"{path.name}-wal")
        self._connection = connect(path)
        self._locks = WalLocks(path)
        self._lock = Lock()
        self._stamp: Stamp | None = None
        self._version = 0
        self._query_at = 0.0

    def close(self) -> None:
        self._connection.close()
        self._locks.close()

    def version(self) -> int:
        with self._lock:
            stamp = self._settled_stamp()
            if stamp is None or stamp != self._stamp or monotonic() >= self._query_at:
                self._version = self._query_version()
                self._stamp, self._query_at = stamp, monotonic() + QUERY_ANYWAY_SECONDS
            return self._version

    def _settled_stamp(self) -> Stamp | None:
        """A value that changes when the WAL is written; None: a write might not change it."""
        try:
            stat = self._wal.stat()
        except OSError:
            return None
        is_settled = time_ns() - stat.st_mtime_ns >= SETTLED_NANOSECONDS
        return (stat.st_ino, stat.st_mtime_ns, stat.st_size) if is_settled else None

    def _query_version(self) -> int:
        with our_errors(self._path):
            self._locks.begin_read()
            try:
                return int(self._connection.pragma("data_version"))
            finally:
                self._locks.end_read()

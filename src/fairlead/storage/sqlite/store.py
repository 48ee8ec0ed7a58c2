"""The embedded store: the truth in one SQLite file that several processes may hold open."""

from __future__ import annotations

import fcntl
import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from fairlead.change_feed import ChangeFeed
from fairlead.policy.rules import Rules
from fairlead.storage.sql.connection import Connection
from fairlead.storage.sql.store import Store
from fairlead.storage.sqlite.change_watch import ChangeWatcher
from fairlead.storage.sqlite.connection import connect, our_words, prepare
from fairlead.storage.sqlite.export import SqliteTables
from fairlead.storage.sqlite.writer import SqliteWriter

POLL_SECONDS = 0.02
"""SQLite announces no commits, so waiting threads poll."""


class SqliteStore(Store):
    """A store in one file. All methods may be called from any thread."""

    _writer: SqliteWriter

    def __init__(
        self, path: Path, *, rules: Callable[[], Rules], clock: Callable[[], float]
    ) -> None:
        prepare(path)
        super().__init__(SqliteWriter(path, clock), rules=rules)
        self._clock = clock
        self._path = path
        self._readers: deque[apsw.Connection] = deque()
        self._watcher = ChangeWatcher(path)
        self.changes = ChangeFeed(self._watcher.version, POLL_SECONDS)

    def close(self) -> None:
        """Close all connections."""
        self._writer.close()
        self._watcher.close()
        while self._readers:
            self._readers.pop().close()

    def hurry(self) -> None:
        """Wait for others only for a moment from now on."""
        self._writer.hurry()

    def now(self) -> float:
        """The time by the machine's clock."""
        return self._clock()

    @contextmanager
    def only_one(self, duty: str) -> Iterator[bool]:
        """Whether this process may do what one process at a time should do."""
        lock = os.open(self._path.with_name(f"{duty}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            yield _is_locked(lock)
        finally:
            os.close(lock)

    @contextmanager
    def held_still(self) -> Iterator[SqliteTables]:
        """All rows; nobody writes meanwhile."""
        with our_words(self._path):
            connection = connect(self._path)
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield SqliteTables(connection)
            finally:
                connection.close()

    @contextmanager
    def _reading(self, *, whole: bool = False) -> Iterator[apsw.Connection]:  # noqa: ARG002
        with our_words(self._path):
            try:
                connection = self._readers.pop()
            except IndexError:
                connection = connect(self._path)
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                self._readers.append(connection)

    def _now(self, connection: Connection) -> float:  # noqa: ARG002 (the machine's clock)
        return self._clock()

    def _damage(self, connection: Connection) -> list[str]:
        found = [row[0] for row in connection.execute("PRAGMA quick_check(10)")]
        return [each for each in found if each != "ok"]


def _is_locked(lock: int) -> bool:
    """Whether the lock is ours now; it is let go when it is closed."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

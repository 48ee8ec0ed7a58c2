"""The embedded store: the truth in one SQLite file that several processes may hold open."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import apsw

from fairlead.core.rules import Rules
from fairlead.stores.sql.connection import Connection
from fairlead.stores.sql.store import SqlStore
from fairlead.stores.sqlite.database import connect, our_words, prepare
from fairlead.stores.sqlite.transactions import SqliteWriter


class SqliteStore(SqlStore):
    """A store in one file. All methods may be called from any thread."""

    _writer: SqliteWriter

    def __init__(
        self, path: Path, *, rules: Callable[[], Rules], clock: Callable[[], float]
    ) -> None:
        prepare(path)
        super().__init__(SqliteWriter(path), rules=rules, clock=clock)
        self._path = path
        self._readers: deque[apsw.Connection] = deque()
        self._watcher = connect(path)
        self._watching = Lock()

    def close(self) -> None:
        """Close all connections."""
        self._writer.close()
        self._watcher.close()
        while self._readers:
            self._readers.pop().close()

    def version(self) -> int:
        """A number that changes when anything was committed, by any process."""
        with self._watching:
            return int(self._watcher.pragma("data_version"))

    @contextmanager
    def _reading(self) -> Iterator[apsw.Connection]:
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

    def _damage(self, connection: Connection) -> list[str]:
        found = [row[0] for row in connection.execute("PRAGMA quick_check(10)")]
        return [each for each in found if each != "ok"]

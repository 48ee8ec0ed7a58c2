"""The embedded store: one SQLite file that several processes may hold open."""

from __future__ import annotations

import fcntl
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path

import apsw

from fairlead.model.documents import DocumentCheck
from fairlead.policy.rules import Rules
from fairlead.storage.sql.group_commit import GroupCommitWriter
from fairlead.storage.sql.queries import SCHEMA_NUMBER, Connection
from fairlead.storage.sql.rows import NUMBERED, Row
from fairlead.storage.sql.store import Store
from fairlead.storage.sqlite.change_watch import ChangeWatcher
from fairlead.storage.sqlite.checkpoint import Checkpointer, Purger, Truncation, refuse_growth
from fairlead.storage.sqlite.connection import (
    WRITER_CACHE,
    SqliteConnection,
    check_schema,
    connect,
    our_errors,
)
from fairlead.storage.sqlite.high_water import LAST_EVENT, HighWaterMark, read_mark
from fairlead.storage.sqlite.inotify import InotifyFeed
from fairlead.storage.sqlite.lock_wait import LockWait
from fairlead.storage.sqlite.wal_locks import Presence, WalLocks

PAGE_BYTES = 4096
VACUUM_PAGES = 128
"""Moved in one transaction: on a full disk the WAL has hardly more room than that."""


class SqliteWriter(GroupCommitWriter):
    """One process writes at a time; the others wait for the lock before they begin.

    `on_commit` is called after each commit that changed something.
    """

    def __init__(
        self, path: Path, clock: Callable[[], float], on_commit: Callable[[], None]
    ) -> None:
        super().__init__(clock)
        self._path = path
        self._on_commit = on_commit
        self._changed_rows = 0  # since the connection was opened
        self._has_news = False
        self._pages = 0  # of the database when the transaction began
        self._connection = connect(path, WRITER_CACHE)
        self._lock_wait = LockWait()
        self._connection.set_busy_handler(self._lock_wait)
        self._locks = WalLocks(path)
        self._checkpointer = Checkpointer(self._connection, partial(connect, path))
        self._is_durable = True
        self._mark = HighWaterMark(path)
        self._last_event = 0
        self.hurry = self._lock_wait.hurry

    def close(self) -> None:
        with self._lock:
            self._checkpointer.close()
            self._connection.close()
            self._locks.close()
            self._mark.close()

    def vacuum(self, pages: int) -> None:
        """Take so many free pages off the end of the file."""
        with self._lock, self._our_errors():
            self._locks.begin_write(self._lock_wait)
            try:
                self._connection.execute(f"PRAGMA incremental_vacuum({pages})").fetchall()
            finally:
                self._locks.end_write()

    def _our_errors(self) -> AbstractContextManager[None]:
        return our_errors(self._path)

    def _begin(self, *, durable: bool) -> SqliteConnection:
        if durable != self._is_durable:
            level = "FULL" if durable else "NORMAL"
            self._connection.execute(f"PRAGMA synchronous = {level}")
            self._is_durable = durable
        try:
            self._locks.begin_write(self._lock_wait)
            self._connection.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            self._lock_wait.is_vain = True
            raise
        self._lock_wait.is_vain = False
        self._pages = self._page_count()
        if self._connection.execute("PRAGMA user_version").get != SCHEMA_NUMBER:
            check_schema(self._connection, self._path)  # a newer process has migrated it
        return self._connection

    def _end(self) -> None:
        refuse_growth(self._path, self._page_count() - self._pages)
        self._last_event = self._connection.execute(LAST_EVENT).get
        self._connection.execute("COMMIT")
        self._locks.end_write()
        changed_rows = self._connection.total_changes()
        self._has_news = changed_rows != self._changed_rows  # else it was a claim in vain
        self._changed_rows = changed_rows

    def _page_count(self) -> int:
        count: int = self._connection.execute("PRAGMA page_count").get
        return count

    def _after(self) -> None:
        if self._has_news:
            self._has_news = False
            if self._is_durable:
                self._mark.write(self._last_event)
            self._on_commit()
        self._checkpointer.after_commit()

    def _is_in_transaction(self) -> bool:
        return self._connection.in_transaction

    def _roll_back(self) -> None:
        with suppress(apsw.ConnectionClosedError):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        self._locks.end_write()


class SqliteStore(Store):
    """A store in one file."""

    _writer: SqliteWriter

    def __init__(
        self, path: Path, *, rules: Callable[[], Rules], clock: Callable[[], float]
    ) -> None:
        self._presence = Presence(path)
        self._watcher = ChangeWatcher(path)
        self._feed = InotifyFeed(path.with_name(f"{path.name}-commits"), self._watcher.version)
        super().__init__(SqliteWriter(path, clock, self._feed.committed), rules=rules)
        self._clock = clock
        self._path = path
        self._readers: deque[tuple[SqliteConnection, WalLocks]] = deque()
        self._truncation = Truncation(path)
        self._purger = Purger(self._truncate_wal, path.with_name(f"{path.name}-purge"))
        self.changes = self._feed

    def close(self) -> None:
        self._purger.close()
        self._writer.close()
        self._feed.close()
        self._watcher.close()
        self._truncation.close()
        while self._readers:
            for part in self._readers.pop():
                part.close()
        self._presence.close()

    def hurry(self) -> None:
        self._writer.hurry()

    def delete(
        self, id_: str, *, by: str | None = None, check: DocumentCheck | None = None
    ) -> list[str]:
        keys = super().delete(id_, by=by, check=check)
        self._purger.note_deletion()
        return keys

    def free_bytes(self) -> int:
        with self._reading() as connection:
            pages: int = connection.execute("PRAGMA freelist_count").get
        return pages * PAGE_BYTES

    def shrink(self, is_enough: Callable[[], bool]) -> None:
        self._truncate_wal()
        while not is_enough() and (free := self.free_bytes()):
            self._writer.vacuum(VACUUM_PAGES)
            if not self._truncate_wal() or self.free_bytes() >= free:
                return  # somebody reads; the next deletion tries again

    def _truncate_wal(self) -> bool:
        with our_errors(self._path):
            return self._truncation.run()

    def now(self) -> float:
        return self._clock()

    @contextmanager
    def only_one(self, duty: str) -> Iterator[bool]:
        lock = os.open(self._path.with_name(f"{duty}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            yield _is_locked(lock)
        finally:
            os.close(lock)  # which unlocks it

    @contextmanager
    def held_still(self) -> Iterator[SqliteTables]:
        """All rows; nobody writes meanwhile."""
        with our_errors(self._path):
            connection, locks = self._new_reader()
            try:
                locks.begin_write(LockWait())
                connection.execute("BEGIN IMMEDIATE")
                yield SqliteTables(connection)
            finally:
                connection.close()
                locks.close()

    @contextmanager
    def _reading(self, *, whole: bool = False) -> Iterator[SqliteConnection]:  # noqa: ARG002
        with our_errors(self._path):
            try:
                connection, locks = self._readers.pop()
            except IndexError:
                connection, locks = self._new_reader()
            try:
                locks.begin_read()
                connection.execute("BEGIN")
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                locks.end_read()
                self._readers.append((connection, locks))

    def _new_reader(self) -> tuple[SqliteConnection, WalLocks]:
        return connect(self._path), WalLocks(self._path)

    def _now(self, connection: Connection) -> float:  # noqa: ARG002 (the machine's clock)
        return self._clock()

    def _damage(self, connection: Connection) -> list[str]:
        mark = read_mark(self._path)  # before the snapshot begins, which must not be older
        rows = connection.execute("PRAGMA integrity_check(10)").fetchall()
        damage = [message for (message,) in rows if message != "ok"]
        lost = mark - connection.execute(LAST_EVENT).get
        if lost > 0:
            damage.append(
                f"the last {lost:,} events are missing from the database: its WAL was damaged or "
                "deleted, or an older copy was put in its place; restore a backup"
            )
        return damage


class SqliteTables:
    """All rows of the file for another store, read in one transaction (see `TableCopy`)."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[Row]:
        names = ", ".join(f'"{column}"' for column in columns)
        return iter(self._connection.execute(f'SELECT {names} FROM "{table}"'))  # noqa: S608 (ours)

    def last_number(self, table: str) -> int:
        query = "SELECT seq FROM sqlite_sequence WHERE name = ?"
        last = self._connection.execute(query, (table,)).get or 0
        highest = f'SELECT max("{NUMBERED[table]}") FROM "{table}"'  # noqa: S608 (ours)
        return max(last, self._connection.execute(highest).get or 0)


def _is_locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

"""Transactions of the one SQLite connection of a process that writes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path

import apsw

from fairlead.storage.sql.group_commit import Writer
from fairlead.storage.sqlite.checkpoint import Checkpointer
from fairlead.storage.sqlite.connection import connect, known_version, our_words
from fairlead.storage.sqlite.lock_wait import LockWait


class SqliteWriter(Writer):
    """SQLite lets one process write at a time: the others wait where a transaction begins."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self._path = path
        self._connection = connect(path)
        self._waiting = LockWait()
        self._connection.set_busy_handler(self._waiting)
        self._homing = Checkpointer(self._connection, partial(connect, path))
        self._is_durable = True

    def close(self) -> None:
        """Close the connection; what was committed stays."""
        with self._lock:
            self._homing.close()
            self._connection.close()

    def hurry(self) -> None:
        """Wait for others only for a moment from now on."""
        self._waiting.hurry()

    def _our_words(self) -> AbstractContextManager[None]:
        return our_words(self._path)

    def _begin(self, *, durable: bool) -> apsw.Connection:
        if durable != self._is_durable:
            level = "FULL" if durable else "NORMAL"
            self._connection.execute(f"PRAGMA synchronous = {level}")
            self._is_durable = durable
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            self._waiting.is_vain = True
            raise
        self._waiting.is_vain = False
        known_version(self._connection, self._path)  # a newer process may have changed the rules
        return self._connection

    def _end(self, *, durable: bool) -> None:  # noqa: ARG002 (it was begun so)
        self._connection.execute("COMMIT")

    def _after(self) -> None:
        self._homing.look()

    def _is_in_transaction(self) -> bool:
        return self._connection.in_transaction

    def _roll_back(self) -> None:
        with suppress(apsw.ConnectionClosedError):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

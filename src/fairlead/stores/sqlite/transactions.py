"""Transactions of the one SQLite connection of a process that writes."""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path

import apsw

from fairlead.stores.sql.writer import Writer
from fairlead.stores.sqlite.database import (
    BUSY_MILLISECONDS,
    STILL_BUSY_MILLISECONDS,
    connect,
    our_words,
)
from fairlead.stores.sqlite.homing import Homing


class SqliteWriter(Writer):
    """SQLite lets one process write at a time: the others wait where a transaction begins."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._connection = connect(path)
        self._homing = Homing(self._connection, partial(connect, path))
        self._is_durable = True
        self._was_busy = False

    def close(self) -> None:
        """Close the connection; what was committed stays."""
        with self._lock:
            self._homing.close()
            self._connection.close()

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
            self._set_busy(busy=True)
            raise
        self._set_busy(busy=False)
        return self._connection

    def _set_busy(self, *, busy: bool) -> None:
        """While another process keeps its lock, nobody here is to wait long for it again."""
        if busy != self._was_busy:
            wait = STILL_BUSY_MILLISECONDS if busy else BUSY_MILLISECONDS
            self._connection.set_busy_timeout(wait)
            self._was_busy = busy

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

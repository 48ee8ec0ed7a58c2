"""Counters in a SQLite file, for processes of one machine."""

from __future__ import annotations

import time
from urllib.parse import unquote

import apsw

from fairlead.errors import CounterUnavailable, InvalidSetting
from fairlead.integrations.counters.counter_store import micros, statements
from fairlead.integrations.counters.process_connection import ProcessConnection

_PREFIX = "sqlite:///"


class SqliteCounters:
    """One row per customer. A check is one transaction that begins as a writer."""

    def __init__(self, path: str, *, name: str, timeout: float) -> None:
        self._path = path
        self._name = name
        self._timeout = timeout
        self._connections = ProcessConnection(self._connect, timeout)
        self.close = self._connections.close

    def check(self, customer: str, interval: float, *, now: float | None = None) -> int:
        try:
            with self._connections.connection() as connection:
                connection.execute("BEGIN IMMEDIATE")
                checked_at = micros(time.time() if now is None else now)
                values = (self._name, customer, micros(interval), checked_at)
                count = connection.execute(statements("sqlite.sql")["check"], values).get
                connection.execute("COMMIT")
                return int(count)
        except (apsw.Error, OSError) as error:
            raise CounterUnavailable(f"SQLite, {self._path}: {error}") from error

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(self._path)
        connection.set_busy_timeout(int(self._timeout * 1_000))
        # A power cut may lose the last counts, but never damages the file.
        connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")
        connection.execute(statements("sqlite.sql")["create_table"])
        return connection


def open_at(url: str, *, name: str, timeout: float) -> SqliteCounters:
    path = unquote(url.removeprefix(_PREFIX))
    if not url.startswith(_PREFIX) or not path:
        raise InvalidSetting(
            "counters must be sqlite:/// and the path of a file, such as sqlite:///counters.db or "
            f"sqlite:////var/lib/app/counters.db; got {url!r}"
        )
    return SqliteCounters(path, name=name, timeout=timeout)

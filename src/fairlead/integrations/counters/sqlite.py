"""The ledger in a SQLite file, for processes of one machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import unquote

import apsw

from fairlead.errors import CounterUnavailable, InvalidSetting
from fairlead.integrations.counters.base import micros
from fairlead.integrations.counters.process_connection import ProcessConnection
from fairlead.integrations.counters.statements import statements

_PREFIX = "sqlite:///"


class SqliteCounters:
    """One row for each customer. A check is one transaction that begins as a writer."""

    def __init__(
        self, path: str, *, name: str, timeout: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._path = path
        self._name = name
        self._timeout = timeout
        self._clock = clock
        self._held = ProcessConnection(self._connect, timeout)

    def check(self, customer: str, interval: float, *, now: float | None = None) -> int:
        """See `CounterStore.check`. All users of the file share the clock of this machine."""
        try:
            with self._held.connection() as connection:
                connection.execute("BEGIN IMMEDIATE")
                moment = micros(self._clock() if now is None else now)
                row = (self._name, customer, micros(interval), moment)
                count = connection.execute(statements("sqlite.sql")["check"], row).get
                connection.execute("COMMIT")
                return int(count)
        except (apsw.Error, OSError) as error:
            raise CounterUnavailable(f"SQLite, {self._path}: {error}") from error

    def close(self) -> None:
        """See `CounterStore.close`."""
        self._held.close()

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(self._path)
        connection.set_busy_timeout(int(self._timeout * 1_000))
        # A power cut may forget the last counts, but never breaks the file.
        connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")
        connection.execute(statements("sqlite.sql")["make"])
        return connection


def open_at(url: str, *, name: str, timeout: float) -> SqliteCounters:
    """The ledger in the file that the address names: three slashes and a path."""
    path = unquote(url.removeprefix(_PREFIX))
    if not url.startswith(_PREFIX) or not path:
        raise InvalidSetting(
            "ledger must be sqlite:/// and the path of a file, such as sqlite:///ledger.db or "
            f"sqlite:////var/lib/app/ledger.db; got {url!r}"
        )
    return SqliteCounters(path, name=name, timeout=timeout)

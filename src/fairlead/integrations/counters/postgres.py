"""The ledger in PostgreSQL: a check is one statement."""

from __future__ import annotations

import select
import time
from collections.abc import Sequence

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

from fairlead.errors import CounterUnavailable, InvalidSetting
from fairlead.integrations.counters.base import micros
from fairlead.integrations.counters.process_connection import ProcessConnection
from fairlead.integrations.counters.statements import statements

_CONNECT_SECONDS = 2  # libpq takes no less


class PostgresConnection:
    """A connection on which no question waits longer than it may, even if the server is frozen."""

    def __init__(self, url: str, timeout: float) -> None:
        self._connection = psycopg.connect(url, autocommit=True, connect_timeout=_CONNECT_SECONDS)
        self._timeout = timeout

    def ask(self, name: str, values: Sequence[str | int | None] = ()) -> str | None:
        """Run the statement of this name; the first value of its answer, if it has any."""
        asked = [None if value is None else str(value).encode() for value in values]
        sql = statements("postgres.sql")[name].encode()
        self._connection.pgconn.send_query_params(sql, asked)
        result = self._result()
        if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            raise CounterUnavailable(f"PostgreSQL: {result.error_message.decode(errors='replace')}")
        value = result.get_value(0, 0) if result.ntuples else None
        return None if value is None else value.decode()

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def _result(self) -> pq.abc.PGresult:
        """The one result of the statement that was sent."""
        line = self._connection.pgconn
        deadline = time.monotonic() + self._timeout
        while line.flush():
            self._wait(select.POLLIN | select.POLLOUT, deadline)
        result = None
        while True:
            while line.is_busy():
                self._wait(select.POLLIN, deadline)
            if (found := line.get_result()) is None:
                break
            result = found
        if result is None:
            raise CounterUnavailable("PostgreSQL: the answer was empty")
        return result

    def _wait(self, what: int, deadline: float) -> None:
        line = self._connection.pgconn
        poll = select.poll()
        poll.register(line.socket, what)
        found = poll.poll(max(0.0, deadline - time.monotonic()) * 1_000)
        if not found:
            raise CounterUnavailable(f"PostgreSQL: no answer within {self._timeout} seconds")
        if found[0][1] != select.POLLOUT:
            line.consume_input()


class PostgresCounters:
    """One row for each customer, in the table fairlead_ledger."""

    def __init__(self, url: str, *, name: str, timeout: float) -> None:
        self._url = url
        self._name = name
        self._timeout = timeout
        self._held = ProcessConnection(self._connect, timeout)

    def check(self, customer: str, interval: float, *, now: float | None = None) -> int:
        """See `CounterStore.check`."""
        moment = None if now is None else micros(now)
        try:
            with self._held.connection() as line:
                return int(line.ask("check", [self._name, customer, micros(interval), moment]) or 0)
        except (psycopg.Error, OSError) as error:
            raise CounterUnavailable(f"PostgreSQL: {error}") from error

    def close(self) -> None:
        """See `CounterStore.close`."""
        self._held.close()

    def _connect(self) -> PostgresConnection:
        line = PostgresConnection(self._url, self._timeout)
        try:
            line.ask("hasty")
            if line.ask("is_there") != "t":
                line.ask("lock")  # two that make one table at once would meet an error
                line.ask("make")
                line.ask("unlock")
        except BaseException:
            line.close()
            raise
        return line


def open_at(url: str, *, name: str, timeout: float) -> PostgresCounters:
    """The ledger in the database that the address names."""
    try:
        conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise InvalidSetting(
            "ledger must be an address such as postgresql://user@localhost/database; "
            f"PostgreSQL says: {str(error).splitlines()[0]}"
        ) from None
    return PostgresCounters(url, name=name, timeout=timeout)

"""Counters in PostgreSQL: a check is one statement."""

from __future__ import annotations

import select
import time
from collections.abc import Sequence

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

from fairlead.errors import CounterUnavailable, InvalidSetting
from fairlead.integrations.counters.counter_store import micros, statements
from fairlead.integrations.counters.process_connection import ProcessConnection

_CONNECT_SECONDS = 2  # the least that libpq accepts


class PostgresConnection:
    """A connection on which every query has a deadline, even if the server is frozen."""

    def __init__(self, url: str, timeout: float) -> None:
        self._connection = psycopg.connect(url, autocommit=True, connect_timeout=_CONNECT_SECONDS)
        self._pgconn = self._connection.pgconn
        self._timeout = timeout
        self.close = self._connection.close

    def query(self, name: str, values: Sequence[str | int | None] = ()) -> str | None:
        """Run the statement of this name; return the first value of its result, if there is one."""
        parameters = [None if value is None else str(value).encode() for value in values]
        sql = statements("postgres.sql")[name].encode()
        self._pgconn.send_query_params(sql, parameters)
        result = self._result()
        if result is None:
            raise CounterUnavailable("PostgreSQL: the answer was empty")
        if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            raise CounterUnavailable(f"PostgreSQL: {result.error_message.decode(errors='replace')}")
        value = result.get_value(0, 0) if result.ntuples else None
        return None if value is None else value.decode()

    def _result(self) -> pq.abc.PGresult | None:
        deadline = time.monotonic() + self._timeout
        while self._pgconn.flush():
            self._wait(select.POLLIN | select.POLLOUT, deadline)
        result = None
        while True:
            while self._pgconn.is_busy():
                self._wait(select.POLLIN, deadline)
            if (last := self._pgconn.get_result()) is None:
                return result
            result = last

    def _wait(self, events: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(self._pgconn.socket, events)
        ready = poll.poll(max(0.0, deadline - time.monotonic()) * 1_000)
        if not ready:
            raise CounterUnavailable(f"PostgreSQL: no answer within {self._timeout} seconds")
        if ready[0][1] != select.POLLOUT:
            self._pgconn.consume_input()


class PostgresCounters:
    """One row per customer, in the table fairlead_counters."""

    def __init__(self, url: str, *, name: str, timeout: float) -> None:
        self._url = url
        self._name = name
        self._timeout = timeout
        self._connections = ProcessConnection(self._connect, timeout)
        self.close = self._connections.close

    def check(self, customer: str, interval: float, *, now: float | None = None) -> int:
        checked_at = None if now is None else micros(now)
        values = (self._name, customer, micros(interval), checked_at)
        try:
            with self._connections.connection() as connection:
                return int(connection.query("check", values) or 0)
        except (psycopg.Error, OSError) as error:
            raise CounterUnavailable(f"PostgreSQL: {error}") from error

    def _connect(self) -> PostgresConnection:
        connection = PostgresConnection(self._url, self._timeout)
        try:
            connection.query("set_asynchronous_commit")
            if connection.query("table_exists") != "t":
                connection.query("lock")  # CREATE TABLE fails if two processes run it at once
                connection.query("create_table")
                connection.query("unlock")
        except BaseException:
            connection.close()
            raise
        return connection


def open_at(url: str, *, name: str, timeout: float) -> PostgresCounters:
    try:
        conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise InvalidSetting(
            "counters must be a URL such as postgresql://user@localhost/database; "
            f"PostgreSQL says: {str(error).splitlines()[0]}"
        ) from None
    return PostgresCounters(url, name=name, timeout=timeout)

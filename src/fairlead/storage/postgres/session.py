"""A connection to PostgreSQL that runs the shared statements."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import compress
from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.pq import TransactionStatus

from fairlead.storage.postgres.dialect import encoded, repeated, takes_columns
from fairlead.storage.postgres.pipeline import PipelineCursor, StatementPipeline

_UNDER_WAY = (TransactionStatus.INTRANS, TransactionStatus.INERROR)
_TIME_AND_POLICY = (
    "SELECT extract(epoch FROM clock_timestamp())::float8, (SELECT policy FROM queue_state)"
)
AT_ONCE = (50, 10)
"""How many rows one statement inserts, the largest number that fits first."""
_WRITES = ("INSERT", "UPDATE", "DELETE")


class _IntegerSum(Loader):
    """Loads sums of integers, which PostgreSQL returns as `numeric`."""

    def load(self, data: Buffer) -> int:
        return int(bytes(data))


def _array(values: Sequence[Any]) -> str:
    """An array in PostgreSQL's syntax; psycopg would adapt each value by itself."""
    types = set(map(type, values))
    if types == {int}:
        return "{" + ",".join(map(str, values)) + "}"
    if types == {float}:
        return "{" + ",".join(map(repr, values)) + "}"
    return "{" + ",".join(map(_element, values)) + "}"


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\")
        return '"' + escaped.replace('"', '\\"') + '"'
    return repr(value)


def configure(connection: psycopg.Connection[tuple[Any, ...]], options: dict[str, str]) -> None:
    """Set the options of a new connection."""
    connection.adapters.register_loader("numeric", _IntegerSum)
    calls = (f"set_config('{name}', '{value}', FALSE)" for name, value in options.items())
    connection.execute(f"SELECT {', '.join(calls)}".encode())
    connection.commit()
    connection.autocommit = True


class Session:
    """One connection, which one thread uses for one transaction after another.

    Statements are sent when a result is read. So an error of a statement is raised when a later
    result is read, or at the commit; a transaction with an error is rolled back in any case.
    """

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self.connection = connection
        self._pipeline = StatementPipeline(connection)
        self._time_and_policy: PipelineCursor | None = None
        """The server's time and the policy at the begin of the transaction, until they are read."""
        self._server_time = (0.0, 0.0)
        """The server's time, and the monotonic time at which it was read."""
        self._policy = ""
        self.has_written = False
        self._constant: dict[str, tuple[bool, ...]] = {}
        """Columns of each statement in which all rows had the same value so far."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, failed or not."""
        return self.connection.info.transaction_status in _UNDER_WAY

    @property
    def is_broken(self) -> bool:
        return self.connection.closed or self.connection.broken

    @property
    def is_remote(self) -> bool:
        """Whether a result costs a round trip, so that it pays to query early."""
        return True

    def begin(self, *statements: str, behind: str | None = None) -> None:
        """Begin a transaction with these statements, which are sent with its first own statement.

        `behind` takes a session lock first; after `lock_timeout` the transaction begins without it.
        A connection that the server has closed raises an error here.
        """
        if self._pipeline.is_awaited:  # the end of a transaction that only read
            self._pipeline.receive()
        has_input = self._pipeline.has_input()
        self.has_written = False
        if behind is not None:
            self._pipeline.send(behind.encode(), (), may_fail=pg.LockNotAvailable)
            self._pipeline.synchronise()
        for statement in statements:
            self._send(statement.encode(), ())
        self._time_and_policy = self._send(_TIME_AND_POLICY.encode(), ())
        if has_input:
            self._read_time_and_policy()

    def _read_time_and_policy(self) -> None:
        if self._time_and_policy is not None:
            [(now, self._policy)] = self._time_and_policy.fetchall()
            self._server_time = (now, time.monotonic())
            self._time_and_policy = None

    @property
    def policy(self) -> str:
        """The policy in force when the transaction began."""
        self._read_time_and_policy()
        return self._policy

    def pause(self) -> None:
        """Wait for all statements so far; raise the first error."""
        self._pipeline.receive()

    def commit(self, *statements: str) -> None:
        """Commit the transaction, and run these statements after it.

        An error of any of its statements is raised, and the transaction is rolled back.
        """
        for statement in ("COMMIT", *statements):
            self._send(statement.encode(), ())
        self._pipeline.receive()

    def end_reading(self) -> None:
        """Commit a transaction that only read, without waiting for it."""
        self._send(b"COMMIT", ())
        self._pipeline.send_now()

    def roll_back(self) -> None:
        """Roll back the transaction, if one is open."""
        with suppress(psycopg.Error):  # the error was raised before
            self._pipeline.receive()
        if self.in_transaction:
            self._pipeline.run("ROLLBACK")

    def now(self) -> float:
        self._read_time_and_policy()
        server_time, read_at = self._server_time
        return server_time + time.monotonic() - read_at

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> PipelineCursor:
        self.has_written |= statement.startswith(_WRITES)
        return self._send(encoded(statement), values)

    def array(self, values: Sequence[int] | Sequence[str]) -> str:
        return _array(values)

    def query_many(
        self, statement: str, rows: Sequence[Sequence[Any]], /
    ) -> Iterable[tuple[Any, ...]]:
        self.has_written |= statement.startswith(_WRITES)
        return self._execute_columns(statement, rows) if rows else ()

    def _execute_columns(self, statement: str, rows: Sequence[Sequence[Any]]) -> PipelineCursor:
        columns = [_array(column) for column in zip(*rows, strict=True)]
        return self._send(encoded(statement), columns)

    def executemany(self, statement: str, rows: Sequence[Sequence[Any]], /) -> object:
        self.has_written |= bool(rows)
        if rows and takes_columns(statement):
            self._execute_columns(statement, rows)
            return None
        if len(rows) >= AT_ONCE[-1]:
            rows = self._insert(statement, rows)
        for row in rows:
            self._send(encoded(statement), row)
        return None

    def _insert(self, statement: str, rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        """Insert rows by statements of many rows; return the rest."""
        constant = self._constant.get(statement) or (True,) * len(rows[0])
        columns = zip(*rows, strict=True)
        constant = tuple(
            [
                was_constant and column.count(column[0]) == len(rows)
                for was_constant, column in zip(constant, columns, strict=True)
            ]
        )
        self._constant[statement] = constant
        varying = [not is_constant for is_constant in constant]
        for many in AT_ONCE:
            text = repeated(statement, many, constant)
            while text is not None and len(rows) >= many:
                values = list(compress(rows[0], constant))
                values += [value for row in rows[:many] for value in compress(row, varying)]
                self._send(text, values)
                rows = rows[many:]
        return rows

    def _send(self, text: bytes, values: Sequence[Any]) -> PipelineCursor:
        return self._pipeline.send(text, values)

    def command(self, statements: str) -> None:
        """Run statements at once, without their results."""
        self._pipeline.run(statements)

    def close(self) -> None:
        self.connection.close()

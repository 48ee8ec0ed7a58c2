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
"""Rows that one statement inserts, where there are so many."""
_WRITES = ("INSERT", "UPDATE", "DELETE")


class _WholeSum(Loader):
    """Sums of whole numbers come as `numeric`, and are whole."""

    def load(self, data: Buffer) -> int:
        return int(bytes(data))


def _array(values: Sequence[Any]) -> str:
    """An array as PostgreSQL writes it; psycopg would look at each value by itself."""
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


def make_ready(connection: psycopg.Connection[tuple[Any, ...]], options: dict[str, str]) -> None:
    """Set what holds for as long as the connection lasts."""
    connection.adapters.register_loader("numeric", _WholeSum)
    calls = (f"set_config('{name}', '{value}', FALSE)" for name, value in options.items())
    connection.execute(f"SELECT {', '.join(calls)}".encode())
    connection.commit()
    connection.autocommit = True


class Session:
    """One connection while one thread uses it for one transaction after another.

    Statements whose results nobody asks for wait for the next one that is asked for, and travel
    with it. So their errors come with that one, or at the end; a transaction with an error ends
    as undone in any case.
    """

    __slots__ = (
        "_begun",
        "_constant",
        "_heard",
        "_pipeline",
        "_policy",
        "connection",
        "has_written",
    )

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self.connection = connection
        self._pipeline = StatementPipeline(connection)
        self._begun: PipelineCursor | None = None
        """The answer to the beginning of a transaction, until it is needed."""
        self._heard = (0.0, 0.0)
        self._policy = ""
        self.has_written = False
        self._constant: dict[str, tuple[bool, ...]] = {}
        """Columns of each statement in which all rows had the same value so far."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is under way, failed or not."""
        return self.connection.info.transaction_status in _UNDER_WAY

    @property
    def is_broken(self) -> bool:
        return self.connection.closed or self.connection.broken

    @property
    def is_remote(self) -> bool:
        """An answer costs a round trip: it pays to ask for what may be needed."""
        return True

    def begin(self, *statements: str, behind: str | None = None) -> None:
        """Begin a transaction with these statements, which leave with the first one of its own.

        `behind` takes a lock of the session before; after `lock_timeout` it begins without it.
        A server that has closed the connection is noticed here.
        """
        has_input = self._pipeline.has_input()
        self.has_written = False
        if behind is not None:
            self._pipeline.send(behind.encode(), (), may_fail=pg.LockNotAvailable)
            self._pipeline.synchronise()
        for statement in statements:
            self._send(statement.encode(), ())
        self._begun = self._send(_TIME_AND_POLICY.encode(), ())
        if has_input:
            self._hear()

    def _hear(self) -> None:
        """Learn the server's time and the policy in force."""
        if self._begun is not None:
            [(now, self._policy)] = self._begun.fetchall()
            self._heard = (now, time.monotonic())
            self._begun = None

    @property
    def policy(self) -> str:
        self._hear()
        return self._policy

    def pause(self) -> None:
        """Hear of every statement so far."""
        self._pipeline.receive()

    def commit(self, *statements: str) -> None:
        """End the transaction, and run these statements after it.

        An error of any of its statements is raised, and all is undone.
        """
        for statement in ("COMMIT", *statements):
            self._send(statement.encode(), ())
        self._pipeline.receive()

    def roll_back(self) -> None:
        """Undo the transaction, if one is under way."""
        with suppress(psycopg.Error):  # what was wrong has been told
            self._pipeline.receive()
        if self.in_transaction:
            self._pipeline.run("ROLLBACK")

    def now(self) -> float:
        self._hear()
        told, at = self._heard
        return told + time.monotonic() - at

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

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> object:
        left = list(rows)
        self.has_written |= bool(left)
        if left and takes_columns(statement):
            self._execute_columns(statement, left)
            return None
        if len(left) >= AT_ONCE[-1]:
            left = self._insert(statement, left)
        for row in left:
            self._send(encoded(statement), row)
        return None

    def _insert(self, statement: str, rows: list[Sequence[Any]]) -> list[Sequence[Any]]:
        """Insert many rows by one statement; return those that are left."""
        constant = self._constant.get(statement) or (True,) * len(rows[0])
        columns = zip(*rows, strict=True)
        constant = tuple(
            [
                was_constant and column.count(column[0]) == len(rows)
                for was_constant, column in zip(constant, columns, strict=True)
            ]
        )
        self._constant[statement] = constant
        varying = [not each for each in constant]
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
        """Run statements at once, whose results nobody needs."""
        self._pipeline.run(statements)

    def close(self) -> None:
        self.connection.close()

"""Prepared statements in libpq's pipeline mode: sent together, their results read when needed.

Most statements of a write are queued before any result is needed. They wait in libpq's buffer and
are sent together; psycopg's own pipeline would send each by itself. psycopg makes the connection
and converts the values of rows to Python objects.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from types import NoneType
from typing import Any

import psycopg
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format, PipelineStatus
from psycopg.pq.abc import PGresult

MOST_PREPARED = 1000
"""Per connection. Beyond that all are deallocated: listings have many different statements."""
NO_SUCH_CHARACTER = "\N{REPLACEMENT CHARACTER}"
_GOOD = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK, ExecStatus.EMPTY_QUERY)
_TEXT, _BINARY = Format.TEXT, Format.BINARY


class PipelineCursor:
    """The result of a statement. The first access waits for all statements sent so far."""

    __slots__ = ("_pipeline", "error", "may_fail", "prepares", "result")

    def __init__(
        self,
        pipeline: StatementPipeline,
        prepares: bytes | None = None,
        may_fail: type[psycopg.Error] | None = None,
    ) -> None:
        self._pipeline = pipeline
        self.prepares = prepares
        """The statement that it prepares; None: it executes one."""
        self.may_fail = may_fail
        """An error that only this cursor raises, and `receive` does not."""
        self.result: PGresult | None = None
        self.error: psycopg.Error | None = None

    def fetchall(self) -> list[tuple[Any, ...]]:
        if self.result is None and self.error is None:
            self._pipeline.receive()
        if self.error is not None:
            raise self.error
        assert self.result is not None  # noqa: S101 (it was received)
        return self._pipeline.rows(self.result)

    def fetchone(self) -> tuple[Any, ...] | None:
        """The first row."""
        return next(iter(self.fetchall()), None)

    @property
    def get(self) -> Any:
        row = self.fetchone()
        return row[0] if row is not None and len(row) == 1 else row

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.fetchall())


class StatementPipeline:
    """The statements of one connection that were sent and whose results were not read yet."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self._pgconn = connection.pgconn
        self._transformer = Transformer(connection)
        self._sent: list[PipelineCursor | None] = []
        """None stands for a synchronisation."""
        self._prepared: dict[bytes, bytes] = {}
        self._names = count()

    def has_input(self) -> bool:
        """Whether the server sent something unrequested, such as the end of the connection."""
        return bool(self._poll(select.POLLIN, 0))

    def send(
        self, text: bytes, values: Sequence[Any], may_fail: type[psycopg.Error] | None = None
    ) -> PipelineCursor:
        """Send a statement with a value for each `$1`; errors are raised with the results."""
        pgconn = self._pgconn
        if pgconn.pipeline_status == PipelineStatus.OFF:
            pgconn.enter_pipeline_mode()
        name = self._prepared.get(text) or self._prepare(text)
        formats = [_BINARY if type(value) is bytes else _TEXT for value in values]
        pgconn.send_query_prepared(name, encoded_values(values), formats)
        cursor = PipelineCursor(self, may_fail=may_fail)
        self._sent.append(cursor)
        return cursor

    def synchronise(self) -> None:
        """End the implicit transaction: later statements run even if an earlier one failed."""
        self._pgconn.pipeline_sync()
        self._sent.append(None)

    @property
    def is_awaited(self) -> bool:
        """Whether results of statements were not read yet."""
        return bool(self._sent)

    def send_now(self) -> None:
        """Send all statements so far, and read their results with the next ones."""
        self.synchronise()
        with self._closed_on_error():
            pass

    def _prepare(self, text: bytes) -> bytes:
        if len(self._prepared) == MOST_PREPARED:
            self._prepared.clear()
            self._pgconn.send_query_params(b"DEALLOCATE ALL", None)
            self._sent.append(PipelineCursor(self))
        name = self._prepared[text] = b"fairlead_%d" % next(self._names)
        self._pgconn.send_prepare(name, text)
        self._sent.append(PipelineCursor(self, text))
        return name

    def receive(self) -> None:
        """Read the results of all statements so far; raise the error of the first that failed."""
        if not self._sent:
            return
        if self._sent[-1] is not None:
            self.synchronise()
        sent, self._sent = self._sent, []
        first: psycopg.Error | None = None
        error: psycopg.Error | None = None
        with self._closed_on_error():
            for cursor in sent:
                result = self._next_result()
                if cursor is None:
                    error = None
                    continue
                self._next_result()  # None: the end of the statement
                error = self._settle(cursor, result, error)
                if cursor.may_fail is None or not isinstance(error, cursor.may_fail):
                    first = first or error
            self._pgconn.exit_pipeline_mode()
        if first is not None:
            raise first

    def _settle(
        self, cursor: PipelineCursor, result: PGresult | None, error: psycopg.Error | None
    ) -> psycopg.Error | None:
        """Give a cursor its result or error; return the error: statements after it did not run."""
        if result is None:
            raise psycopg.OperationalError("the connection was lost")
        if result.status in _GOOD:
            cursor.result = result
            return None
        cursor.error = error or error_from_result(result)
        if cursor.prepares is not None:
            self._prepared.pop(cursor.prepares, None)
        return cursor.error

    def run(self, statements: str) -> list[tuple[Any, ...]]:
        """Run statements without values, in one message; return the rows of the last one."""
        self.receive()
        self._pgconn.send_query(statements.encode())
        last: PGresult | None = None
        error: psycopg.Error | None = None
        with self._closed_on_error():
            while (result := self._next_result()) is not None:
                if result.status not in _GOOD:
                    error = error or error_from_result(result)
                last = result
        if error is not None:
            raise error
        return [] if last is None else self.rows(last)

    @contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        """Send what is buffered; close the connection if not all of its results are read."""
        try:
            while self._pgconn.flush():
                self._wait(select.POLLIN | select.POLLOUT)
            yield
        except BaseException:
            self._pgconn.finish()
            raise

    def rows(self, result: PGresult) -> list[tuple[Any, ...]]:
        self._transformer.set_pgresult(result)
        return self._transformer.load_rows(0, result.ntuples, tuple)

    def _next_result(self) -> PGresult | None:
        while self._pgconn.is_busy():
            self._wait(select.POLLIN)
        return self._pgconn.get_result()

    def _wait(self, events: int) -> None:
        if any(ready & ~select.POLLOUT for _, ready in self._poll(events)):
            self._pgconn.consume_input()

    def _poll(self, events: int, milliseconds: int | None = None) -> list[tuple[int, int]]:
        poll = select.poll()
        poll.register(self._pgconn.socket, events)
        return poll.poll(milliseconds)


def _text(value: str) -> bytes:
    """PostgreSQL's texts cannot contain NUL, which hostile results and names may."""
    return value.replace("\0", NO_SUCH_CHARACTER).encode()


def _unchanged(value: bytes | None) -> bytes | None:
    return value


_ENCODERS: dict[type, Callable[[Any], bytes | None]] = {
    NoneType: _unchanged,
    bytes: _unchanged,
    bool: lambda value: b"t" if value else b"f",
    int: lambda value: b"%d" % value,
    float: lambda value: repr(value).encode(),
    str: _text,
}


def encoded_values(values: Sequence[Any]) -> list[bytes | None]:
    """Values in PostgreSQL's format: bytes unchanged, all others as text."""
    try:
        return [_ENCODERS[type(value)](value) for value in values]
    except KeyError:  # a subclass, such as an enumeration
        return [_encoder(type(value))(value) for value in values]


def _encoder(type_: type) -> Callable[[Any], bytes | None]:
    return next(_ENCODERS[base] for base in type_.__mro__ if base in _ENCODERS)

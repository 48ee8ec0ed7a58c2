"""A connection to PostgreSQL that runs the shared statements."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, nullcontext, suppress
from itertools import compress
from typing import Any

import psycopg
from psycopg import RawCursor
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.pq import ExecStatus, PipelineStatus, TransactionStatus
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import StrDumperUnknown

from fairlead.storage.postgres.dialect import encoded, repeated, takes_columns

_UNDER_WAY = (TransactionStatus.INTRANS, TransactionStatus.INERROR)
_TIME_AND_POLICY = (
    "SELECT extract(epoch FROM clock_timestamp())::float8, (SELECT policy FROM queue_state)"
)
AT_ONCE = (50, 10)
"""Rows that one statement inserts, where there are so many."""
_COMMANDS = ("ROLLBACK", "ALTER")
_WRITES = ("INSERT", "UPDATE", "DELETE")
NO_SUCH_CHARACTER = "\N{REPLACEMENT CHARACTER}"


class Cursor(RawCursor[tuple[Any, ...]]):
    """What a statement came to."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]:  # type: ignore[override]
        """All rows at once: one by one, each would be asked for and checked by itself."""
        return iter(self.fetchall())

    @property
    def get(self) -> Any:
        row = self.fetchone()
        return row[0] if row is not None and len(row) == 1 else row


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
        escaped = value.replace("\0", NO_SUCH_CHARACTER).replace("\\", "\\\\")
        return '"' + escaped.replace('"', '\\"') + '"'
    return repr(value)


def _without_nul(value: Any) -> Any:
    """PostgreSQL's texts cannot have this character, which hostile answers and names may."""
    return value.replace("\0", NO_SUCH_CHARACTER) if isinstance(value, str) else value


def make_ready(connection: psycopg.Connection[tuple[Any, ...]], options: dict[str, str]) -> None:
    """Set what holds for as long as the connection lasts."""
    connection.prepare_threshold = 0
    connection.adapters.register_dumper(int, Int8Dumper)  # one type, so one plan for each
    connection.adapters.register_dumper(str, StrDumperUnknown)
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

    __slots__ = ("_constant", "_gathering", "_heard", "connection", "has_written", "policy")

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self.connection = connection
        self._heard: tuple[float, float] | None = None
        self.policy = ""
        self.has_written = False
        self._gathering: ExitStack | None = None
        self._constant: dict[str, tuple[bool, ...]] = {}
        """Columns of each statement in which all rows had the same value so far."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is under way, failed or not."""
        is_open = self._gathering is not None and not self.is_broken
        return is_open or self.connection.info.transaction_status in _UNDER_WAY

    @property
    def is_broken(self) -> bool:
        return self.connection.closed or self.connection.broken

    def begin(self, *statements: str) -> None:
        """Begin a transaction with these statements, in one message.

        Learn the server's time and the policy in force.
        """
        self.has_written = False
        text = ";".join((*statements, _TIME_AND_POLICY))
        cursor = self.connection.execute(text.encode(), prepare=False)
        while cursor.nextset():
            """The last one has the time."""
        self._hear(cursor.fetchone())
        self._gather()

    def pause(self) -> None:
        """Hear of every statement so far, and gather no more in this transaction."""
        self._catch_up()

    def commit(self) -> None:
        """End the transaction; an error of any of its statements is raised, and all is undone."""
        self.execute("COMMIT")
        self._catch_up()

    def roll_back(self) -> None:
        """Undo the transaction, if one is under way."""
        with suppress(psycopg.Error):  # what was wrong has been told
            self._catch_up()
        if self.connection.info.transaction_status in _UNDER_WAY:
            self._run("ROLLBACK")

    def now(self) -> float:
        assert self._heard is not None  # noqa: S101 (it was heard at the beginning)
        told, at = self._heard
        return told + time.monotonic() - at

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Cursor:
        if statement.startswith(_COMMANDS):
            return self._command(statement)
        self.has_written |= statement.startswith(_WRITES)
        cursor = self._send(encoded(statement), values)
        if statement.startswith("RELEASE"):  # the end of one write of several: is all of it done?
            self._go_on()
        return cursor

    def array(self, values: Sequence[int] | Sequence[str]) -> str:
        return _array(values)

    def query_many(
        self, statement: str, rows: Sequence[Sequence[Any]], /
    ) -> Iterable[tuple[Any, ...]]:
        self.has_written |= statement.startswith(_WRITES)
        return self._execute_columns(statement, rows) if rows else ()

    def _execute_columns(self, statement: str, rows: Sequence[Sequence[Any]]) -> Cursor:
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

    def _send(self, text: bytes, values: Sequence[Any]) -> Cursor:
        cursor = Cursor(self.connection)
        try:
            cursor.execute(text, values)
        except psycopg.DataError:
            if not any(isinstance(value, str) and "\0" in value for value in values):
                raise
            cursor.execute(text, [_without_nul(value) for value in values])
        return cursor

    def close(self) -> None:
        self.connection.close()

    def _command(self, statement: str) -> Cursor:
        """Run a statement after which psycopg would prepare all others anew, beside it."""
        is_failed = self.connection.pgconn.pipeline_status == PipelineStatus.ABORTED
        with suppress(psycopg.Error) if is_failed else nullcontext():  # it has been told
            self._catch_up()
        self._run(statement)
        self._gather()
        return Cursor(self.connection)

    def command(self, statements: str) -> None:
        """Run statements outside of a transaction, whose results nobody needs."""
        self.connection.execute(statements.encode(), prepare=False)

    def _run(self, statement: str) -> None:
        result = self.connection.pgconn.exec_(statement.encode())
        if result.status != ExecStatus.COMMAND_OK:
            raise psycopg.OperationalError(result.error_message.decode(errors="replace"))

    def _go_on(self) -> None:
        """Hear of every statement so far; raises the error of one that failed."""
        self._catch_up()
        self._gather()

    def _gather(self) -> None:
        self._gathering = ExitStack()
        self._gathering.enter_context(self.connection.pipeline())

    def _catch_up(self) -> None:
        if self._gathering is not None:
            try:
                self._gathering.close()
            finally:
                self._gathering = None

    def _hear(self, row: tuple[Any, ...] | None) -> None:
        assert row is not None  # noqa: S101 (it was asked for)
        self._heard = (row[0], time.monotonic())
        self.policy = row[1]

"""Opening the SQLite file: pragmas, schema, and SQLite's errors as Fairlead's."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import apsw

from fairlead.errors import (
    DamagedData,
    DataError,
    DiskFull,
    NewerData,
    OtherSchema,
    ReadOnlyData,
    StoreBusy,
    TemporarilyUnavailable,
)
from fairlead.storage.sql.queries import (
    SCHEMA_NUMBER,
    Schema,
    insert_parts,
    schema_of,
    shared_schema,
)
from fairlead.storage.sqlite.high_water import remove_mark
from fairlead.storage.sqlite.lock_wait import BUSY_SECONDS

APPLICATION_ID = 0x4661_6972  # "Fair"
WRITER_CACHE, READER_CACHE = 65_536, 4_096
"""KiB of page cache of one connection. A process has one writer and up to a dozen readers."""
JOURNAL_BYTES = 64 << 20
"""Length of the file of the WAL that is kept when the WAL starts anew."""
STATEMENTS = 1024
"""Prepared statements in the cache. Each row of an executemany uses an entry up: with apsw's 100,
a batch of 34 documents would evict all of them."""
AT_ONCE = 16
"""Rows that one statement inserts: with less CPU than a statement for each row."""
_NUMBERED = re.compile(r"\?\d")

_FIRST_PRAGMAS = """
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA secure_delete = ON;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
"""
"""Before the first table."""
_PRAGMAS = """
PRAGMA synchronous = FULL;
PRAGMA secure_delete = ON;
PRAGMA cache_size = -{cache};
PRAGMA journal_size_limit = {journal};
PRAGMA temp_store = MEMORY;
"""


@cache
def schema() -> Schema:
    return schema_of(shared_schema())


class SqliteConnection(apsw.Connection):
    """A connection that runs the shared statements."""

    is_remote = False

    def array(self, values: Sequence[int] | Sequence[str]) -> str:
        return json.dumps(values)

    def executemany(self, statement: str, rows: Sequence[Sequence[Any]], /) -> None:  # type: ignore[override]
        together = _insert_of_many(statement) if len(rows) >= AT_ONCE else None
        while together is not None and len(rows) >= AT_ONCE:
            self.execute(together, tuple(chain.from_iterable(rows[:AT_ONCE])))
            rows = rows[AT_ONCE:]
        if rows:
            super().executemany(statement, rows)

    def query_many(self, statement: str, rows: Sequence[Sequence[Any]], /) -> list[tuple[Any, ...]]:
        results: list[tuple[Any, ...]] = []
        for row in rows:
            results += self.execute(statement, tuple(row))
        return results


@cache
def _insert_of_many(statement: str) -> str | None:
    """An INSERT of one row as one of `AT_ONCE` rows; None: it is another statement."""
    insert = insert_parts(statement)
    if insert is None or _NUMBERED.search(insert.values):
        return None
    rows = "), (".join([insert.values] * AT_ONCE)
    return f"{insert.head}({rows}){insert.tail}"


def connect(path: Path, cache: int = READER_CACHE) -> SqliteConnection:
    """A connection to an existing database, ready for use, with so many KiB of page cache."""
    with our_errors(path):
        connection = SqliteConnection(
            str(path), flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=STATEMENTS
        )
        connection.set_busy_timeout(int(1000 * BUSY_SECONDS))
        # Fetch all rows: a statement with a row would end the others.
        connection.execute(_PRAGMAS.format(cache=cache, journal=JOURNAL_BYTES)).fetchall()
        # Without this, SQLite plans statements with a bound LIMIT anew each time.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        return connection


def prepare(path: Path) -> None:
    """Make the database where there is none; refuse one with another schema."""
    with our_errors(path), one_at_a_time(path.parent):
        prepare_database(path)


def prepare_database(path: Path) -> None:
    """`prepare`, for a caller who excludes other processes."""
    _make_private(path)
    connection = apsw.Connection(str(path))
    try:
        connection.set_busy_timeout(int(1000 * BUSY_SECONDS))
        _check_owner(connection, path)
        if connection.execute("PRAGMA user_version").get == 0:
            remove_mark(path)
            connection.execute(_FIRST_PRAGMAS).fetchall()
            _make_tables(connection)
        check_schema(connection, path)
    finally:
        connection.close()


def _make_private(path: Path) -> None:
    """Let only this user read a new database; SQLite gives its other files the same mode.

    An existing one keeps its mode.
    """
    with suppress(OSError):  # SQLite reports what is wrong
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Lets processes open and close the database of a folder one after the other.

    SQLite does not wait for a lock while it changes to WAL, nor while it removes the WAL.
    """
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # SQLite reports what is wrong with the folder
        yield
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _check_owner(connection: apsw.Connection, path: Path) -> None:
    application = connection.pragma("application_id")
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    if application != APPLICATION_ID and tables:
        raise DamagedData(f"{path} is not a Fairlead database; choose another folder with --data")


def check_schema(connection: apsw.Connection, path: Path) -> None:
    """Refuse a database that another version of Fairlead made."""
    number: int = connection.execute("PRAGMA user_version").get
    has_identity = connection.execute(
        "SELECT 1 FROM sqlite_schema WHERE name = 'schema_identity'"
    ).get
    if number > SCHEMA_NUMBER and has_identity:  # the first versions counted without one
        raise NewerData(
            f"{path} has schema number {number} and this Fairlead knows {SCHEMA_NUMBER}; "
            "install the newer Fairlead that wrote it"
        )
    identity = has_identity and connection.execute("SELECT identity FROM schema_identity").get
    if identity != schema().identity:
        raise OtherSchema(
            f"{path} was made by another version of Fairlead before its first release, whose "
            "tables differ; use that version, or choose a new folder with --data"
        )


def _make_tables(connection: apsw.Connection) -> None:
    """Make all tables in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(schema().script)
        connection.execute("CREATE TABLE schema_identity (identity TEXT NOT NULL) STRICT")
        connection.execute("INSERT INTO schema_identity VALUES (?)", (schema().identity,))
        connection.pragma("user_version", SCHEMA_NUMBER)
        connection.pragma("application_id", APPLICATION_ID)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk has already rolled it back
            connection.execute("ROLLBACK")
        raise


@contextmanager
def our_errors(path: Path) -> Iterator[None]:
    """Turns SQLite's errors into Fairlead's."""
    try:
        yield
    except apsw.Error as error:
        raise _translated(error, path) from error


def _is_disk_full(path: Path) -> bool:
    """Whether no byte is left, which SQLite may report as an I/O error."""
    try:
        room = os.statvfs(path.parent)
    except OSError:
        return False
    return room.f_blocks > 0 and room.f_bavail == 0


def _translated(error: apsw.Error, path: Path) -> DataError:
    match error:
        case _ if isinstance(error, apsw.FullError) or _is_disk_full(path):
            return DiskFull(
                f"the disk of {path.parent} is full and nothing was written; "
                "free some space, then try again"
            )
        case apsw.IOError():  # of a write, where the file system became read-only
            return TemporarilyUnavailable(
                f"the disk of {path.parent} fails or became read-only ({error}) and nothing was "
                "written; see the kernel's log"
            )
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError():
            return ReadOnlyData(
                f"{path} cannot be opened for writing; give this user write permission "
                "on the folder, or choose another one with --data"
            )
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy(
                f"{path} is locked by another process, and was waited for in vain; try again"
            )
        case apsw.NotADBError() | apsw.CorruptError():
            return DamagedData(
                f"{path} is damaged or not a database ({error}); restore it from a backup"
            )
        case _:
            return DataError(f"{path} cannot be used: {error}")

"""Opening the SQLite file: pragmas, migrations, and SQLite's errors as Fairlead's."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import apsw

from fairlead.errors import DamagedData, DataError, DiskFull, NewerData, ReadOnlyData, StoreBusy
from fairlead.storage.sql.queries import read_migrations
from fairlead.storage.sqlite.lock_wait import BUSY_SECONDS

APPLICATION_ID = 0x4661_6972  # "Fair"
STATEMENTS = 1024
"""Prepared statements in the cache. Each row of an executemany uses an entry up: with apsw's 100,
a batch of 34 documents would evict all of them."""

_PRAGMAS = """
PRAGMA synchronous = FULL;
PRAGMA cache_size = -65536;
PRAGMA journal_size_limit = 67108864;
PRAGMA temp_store = MEMORY;
"""


@cache
def migrations() -> tuple[str, ...]:
    """The scripts that bring a database from each version to the next, in order."""
    return read_migrations(__package__)


def connect(path: Path) -> apsw.Connection:
    """A connection to an existing database, ready for use."""
    with our_errors(path):
        connection = apsw.Connection(
            str(path), flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=STATEMENTS
        )
        connection.set_busy_timeout(int(1000 * BUSY_SECONDS))
        connection.execute(_PRAGMAS)
        return connection


def prepare(path: Path) -> None:
    """Make the database where there is none, and bring an older one up to date."""
    with our_errors(path), _one_at_a_time(path.parent):
        _make_private(path)
        connection = apsw.Connection(str(path))
        try:
            connection.set_busy_timeout(int(1000 * BUSY_SECONDS))
            _check_owner(connection, path)
            if check_version(connection, path) < len(migrations()):
                connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
                _migrate(connection, path)
        finally:
            connection.close()


def _make_private(path: Path) -> None:
    """Let only this user read a new database; SQLite gives its other files the same mode.

    An existing one is not touched: closing any descriptor of it would end this process's locks.
    """
    with suppress(OSError):  # SQLite reports what is wrong
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Lets processes that open one new folder make its database one after the other.

    SQLite does not wait for a lock while it changes to WAL.
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


def check_version(connection: apsw.Connection, path: Path) -> int:
    """The version of the schema; refuses one that is newer than this Fairlead."""
    version: int = connection.execute("PRAGMA user_version").get
    if version > len(migrations()):
        raise NewerData(
            f"{path} has schema version {version} and this Fairlead knows {len(migrations())}; "
            "install the newer Fairlead that wrote it"
        )
    return version


def _migrate(connection: apsw.Connection, path: Path) -> None:
    """Migrate in one transaction; the version is read inside it, as another may be first."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for number in range(check_version(connection, path), len(migrations())):
            connection.execute(migrations()[number])
            connection.pragma("user_version", number + 1)
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

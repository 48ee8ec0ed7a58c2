"""Connections to the PostgreSQL server, its tables, and its errors as Fairlead's errors."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict

from fairlead.backoff import Backoff
from fairlead.errors import (
    DamagedData,
    DataError,
    DiskFull,
    InvalidSetting,
    NewerData,
    OtherSchema,
    ReadOnlyData,
    StoreBusy,
    StoreRefused,
    StoreUnreachable,
)
from fairlead.storage.postgres.dialect import schema
from fairlead.storage.postgres.session import Session, configure
from fairlead.storage.sql.queries import SCHEMA_NUMBER

BUSY_SECONDS = 30
CONNECT_SECONDS = 5

_log = logging.getLogger(__name__)

# Every statement seeks in an index or walks it in order. The planner must not choose another plan
# because new tables have no statistics yet. A process that froze in a transaction must not block
# all others.
READER_OPTIONS = {
    "application_name": "fairlead",
    "lock_timeout": f"{BUSY_SECONDS}s",
    "idle_in_transaction_session_timeout": f"{BUSY_SECONDS}s",
    "jit": "off",
    "client_encoding": "UTF8",
    "extra_float_digits": "1",
}
WRITER_OPTIONS = READER_OPTIONS | {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_sort": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}

_TABLES = "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = ANY($1)"
_COMMON_NAMES = ["customers", "documents", "queue_state"]

TRY_DUTY_LOCK = (
    "SELECT pg_try_advisory_lock(hashtextextended('fairlead ' || current_schema() || ' ' || ?, 2))"
)
"""Takes the advisory lock of a duty, if it is free; it holds until the connection ends."""


def lock_number(purpose: int) -> str:
    """The number of an advisory lock: 0 claims, 1 making the tables, 2 duties, 3 the policy."""
    return f"hashtextextended('fairlead ' || current_schema(), {purpose})"


def parameters(url: str) -> dict[str, Any]:
    """The connection parameters of a URL."""
    try:
        options = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise InvalidSetting(
            "store must be a URL such as postgresql://user:password@host/database; "
            f"got an invalid one: {str(error).strip()}"
        ) from None
    return {"connect_timeout": CONNECT_SECONDS, "keepalives_idle": 15, **options}


def server_name(url: str) -> str:
    """The host and database of a URL, for messages."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or "the local server"
        return f"PostgreSQL at {host}:{parts.port or 5432}{parts.path}"
    except ValueError:
        return "PostgreSQL"


def connect(url: str, options: dict[str, str]) -> Session:
    """A configured connection to the server."""
    connection = psycopg.connect(**parameters(url))
    try:
        configure(connection, options)
    except BaseException:
        connection.close()
        raise
    return Session(connection)


def prepare(url: str) -> None:
    """Create the tables in an empty database; refuse tables of another schema."""
    with our_errors(url):
        _refuse_transaction_pooling(url)
        session = connect(url, READER_OPTIONS)
        try:
            session.command(f"BEGIN; SELECT pg_advisory_xact_lock({lock_number(1)})")
            _make_tables(session, url)
            session.commit()
        finally:
            session.close()


def _refuse_transaction_pooling(url: str) -> None:
    """Refuse a pooler that gives each transaction another connection to the server.

    Session settings, prepared statements, advisory locks and LISTEN would fail later. A pooler
    invents the process id that it announces. In its session mode, two connections have two server
    processes, and each connection keeps its own.
    """
    with psycopg.connect(**parameters(url), prepare_threshold=None, autocommit=True) as first:
        process = _server_process(first)
        if process == first.info.backend_pid:
            return
        with psycopg.connect(**parameters(url), prepare_threshold=None) as second:
            is_shared = _server_process(second) == process or _server_process(first) != process
    if is_shared:
        raise StoreRefused(
            f"{server_name(url)} is a pooler in transaction mode, such as PgBouncer, which gives "
            "each transaction another connection; use pool_mode = session, or connect directly"
        )


def _server_process(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    return 0 if row is None else int(row[0])


def prepare_with_retries(url: str) -> None:
    """As `prepare`, but wait for a server that cannot be reached."""
    backoff = Backoff(0.5, 10.0)
    while True:
        try:
            return prepare(url)
        except StoreUnreachable as error:
            _log.warning("fairlead: %s; trying again in %.1f s", error, backoff.failed())
            time.sleep(backoff.pause)


def _make_tables(session: Session, url: str) -> None:
    if session.execute(_TABLES, (session.array(["fairlead"]),)).get is None:
        if session.execute(_TABLES, (session.array(_COMMON_NAMES),)).get is not None:
            raise DamagedData(
                f"{server_name(url)} has tables of other programs; choose an empty database, "
                "or a schema of its own in the URL: ?options=-csearch_path%3Dfairlead"
            )
        session.command(schema().script)
        session.execute("CREATE TABLE fairlead (version INTEGER NOT NULL, identity TEXT NOT NULL)")
        session.execute("INSERT INTO fairlead VALUES (?, ?)", (SCHEMA_NUMBER, schema().identity))
        return
    version = int(session.execute("SELECT version FROM fairlead").get)
    if version > SCHEMA_NUMBER and _has_identity(session):
        raise NewerData(
            f"{server_name(url)} has schema number {version} and this Fairlead knows "
            f"{SCHEMA_NUMBER}; install the newer Fairlead that wrote it"
        )
    if not _has_identity(session) or (
        session.execute("SELECT identity FROM fairlead").get != schema().identity
    ):
        raise OtherSchema(
            f"{server_name(url)} was made by another version of Fairlead before its first release, "
            "whose tables differ; use that version, or choose an empty database"
        )


def _has_identity(session: Session) -> bool:
    query = (
        "SELECT 1 FROM information_schema.columns WHERE table_schema = current_schema() "
        "AND table_name = 'fairlead' AND column_name = 'identity'"
    )
    return session.execute(query).get is not None


@contextmanager
def our_errors(url: str) -> Iterator[None]:
    """Turns PostgreSQL's errors into errors of Fairlead."""
    try:
        yield
    except psycopg.Error as error:
        raise _translated(error, server_name(url)) from error


def _translated(error: Exception, where: str) -> DataError:  # noqa: PLR0911 (one for each case)
    reason = " ".join(str(error).split())
    match error:
        case pg.DiskFull() | pg.OutOfMemory():
            return DiskFull(
                f"{where} has no room left and nothing was written ({reason}); free some"
            )
        case pg.ReadOnlySqlTransaction() | pg.InsufficientPrivilege():
            return ReadOnlyData(
                f"{where} may not be written ({reason}); give this user its own database, "
                "or the right to create tables"
            )
        case pg.LockNotAvailable() | pg.QueryCanceled() | pg.DeadlockDetected():
            return StoreBusy(
                f"{where} was locked by another process for {BUSY_SECONDS} s; try again"
            )
        case pg.DataCorrupted() | pg.IndexCorrupted() | pg.UndefinedTable() | pg.UndefinedColumn():
            return DamagedData(f"{where} is damaged ({reason}); restore it from a backup")
        case psycopg.OperationalError() if _is_refusal(error, reason):
            return StoreRefused(
                f"{where} refused the user or the database ({reason}); correct the setting store"
            )
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return StoreUnreachable(
                f"{where} cannot be reached ({reason}); start it, or correct the setting store"
            )
        case _:
            return DataError(f"{where} cannot be used: {reason}")


def _is_refusal(error: psycopg.Error, reason: str) -> bool:
    """Whether the server is reachable and will refuse every further attempt."""
    if isinstance(error, (pg.InvalidPassword, pg.InvalidAuthorizationSpecification)):
        return True
    refusals = ("authentication failed", "no pg_hba.conf entry", "no password supplied")
    is_missing = "does not exist" in reason and ("database" in reason or "role" in reason)
    return any(refusal in reason for refusal in refusals) or is_missing

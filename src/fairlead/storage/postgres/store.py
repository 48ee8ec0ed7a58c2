"""The store of several machines: the truth in one PostgreSQL database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from contextvars import ContextVar

import psycopg

from fairlead.errors import StoreUnreachable
from fairlead.policy.rules import Rules
from fairlead.storage.postgres.connection import (
    ALONE,
    READER_OPTIONS,
    WRITER_OPTIONS,
    connect,
    one_at_a_time,
    our_errors,
    prepare,
    prepare_patiently,
    shown,
)
from fairlead.storage.postgres.import_rows import take_over
from fairlead.storage.postgres.listen import NotifyFeed
from fairlead.storage.postgres.reader_pool import ReaderPool
from fairlead.storage.postgres.session import Session
from fairlead.storage.sql.group_commit import Writer
from fairlead.storage.sql.queries import Connection
from fairlead.storage.sql.rows import TableCopy
from fairlead.storage.sql.store import Store

_ONE_AT_A_TIME = one_at_a_time(0)
"""One writer of all processes: who goes next depends on what everybody did before. The lock ends
with the transaction, so the next writer sees all of it."""
_CUSTOMER_SCOPE: ContextVar[str | None] = ContextVar("asked_by", default=None)
_SEEN_BY = """
SELECT set_config('fairlead.customer', coalesce(
  (SELECT id FROM customers WHERE name = ?), -1)::text, TRUE)"""
_IS_UNBOUND = "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
_FRAIL = "the database server runs with fsync off, so a power cut may lose what was accepted"
_UNBOUND = (
    "the database user is a superuser or bypasses row-level security, so nothing but our own care "
    "keeps customers apart there; use a user that only owns its database"
)


class PostgresWriter(Writer):
    """Connects anew where the connection was lost."""

    def __init__(self, url: str, clock: Callable[[], float] | None = None) -> None:
        super().__init__(clock or self._server_time)
        self._url = url
        self._ahead = float("inf")  # the server's clock is, of this process's
        self._session: Session | None = None
        self._is_closed = False

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._hang_up()

    def _our_errors(self) -> AbstractContextManager[None]:
        return our_errors(self._url)

    def _begin(self, *, durable: bool) -> Session:
        if self._is_closed:
            raise StoreUnreachable(
                f"the connection to {shown(self._url)} is closed; open a new one"
            )
        if self._session is not None:
            with suppress(psycopg.OperationalError):  # the server went away meanwhile, and may be
                return self._begun(self._session, durable=durable)  # back: nothing was begun
        self._hang_up()
        self._session = connect(self._url, WRITER_OPTIONS)
        return self._begun(self._session, durable=durable)

    def _begun(self, session: Session, *, durable: bool) -> Session:
        wait = "on" if durable else "off"
        session.begin(f"SET LOCAL synchronous_commit = {wait}", _ONE_AT_A_TIME)
        self._ahead = session.now() - time.monotonic()
        return session

    def _server_time(self) -> float:
        """By what the server said last; inf: it has never been heard."""
        return time.monotonic() + self._ahead

    def _end(self) -> None:
        assert self._session is not None  # noqa: S101 (it was begun)
        self._session.commit()

    def _is_in_transaction(self) -> bool:
        return self._session is not None and self._session.in_transaction

    def _roll_back(self) -> None:
        session = self._session
        if session is None:
            return
        with suppress(psycopg.Error):
            session.roll_back()
        if session.is_broken or session.in_transaction:
            self._hang_up()

    def _hang_up(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


class PostgresStore(Store):
    """A store on a server. All methods may be called from any thread.

    `clock` gives the time, for tests; without one it is the server's. With `patient`, a server that
    cannot be reached is waited for.
    """

    _writer: PostgresWriter

    def __init__(
        self,
        url: str,
        *,
        rules: Callable[[], Rules],
        clock: Callable[[], float] | None = None,
        patient: bool = False,
    ) -> None:
        prepare_patiently(url) if patient else prepare(url)
        super().__init__(PostgresWriter(url, clock), rules=rules)
        self._url = url
        self._clock = clock
        self._readers = ReaderPool(url)
        self._feed = NotifyFeed(url, self._version)
        self.changes = self._feed

    def close(self) -> None:
        self._feed.close()
        self._writer.close()
        self._readers.close()

    def _version(self) -> int:
        """The number of the last transaction that changed the queue, as each of ours does."""
        with self._reading(whole=True) as connection:
            return int(connection.execute("SELECT xmin::text::bigint FROM line_state").get)

    def now(self) -> float:
        with self._reading(whole=True) as connection:
            return self._now(connection)

    def warnings(self) -> list[str]:
        with self._reading(whole=True) as connection:
            is_unbound = connection.execute(_IS_UNBOUND).get
            is_frail = connection.execute("SELECT current_setting('fsync') <> 'on'").get
        found = {_UNBOUND: is_unbound, _FRAIL: is_frail}
        return [words for words, holds in found.items() if holds]

    def take_over(self, tables: TableCopy) -> dict[str, int]:
        """Copy everything of another store into this empty one; how many rows of each table."""

        def take(connection: Connection) -> dict[str, int]:
            assert isinstance(connection, Session)  # noqa: S101 (we made it)
            return take_over(connection, tables, shown(self._url))

        return self._writer.run(take)

    @contextmanager
    def seen_by(self, customer: str) -> Iterator[None]:
        before = _CUSTOMER_SCOPE.set(customer)
        try:
            yield
        finally:
            _CUSTOMER_SCOPE.reset(before)

    @contextmanager
    def only_one(self, duty: str) -> Iterator[bool]:
        with our_errors(self._url), closing(connect(self._url, READER_OPTIONS)) as session:
            yield bool(session.execute(ALONE, (duty,)).get)

    @contextmanager
    def _reading(self, *, whole: bool = False) -> Iterator[Session]:
        customer = None if whole else _CUSTOMER_SCOPE.get()
        with our_errors(self._url), self._readers.transaction() as session:
            if customer is not None:
                session.execute(_SEEN_BY, (customer,))
            yield session

    def _now(self, connection: Connection) -> float:
        assert isinstance(connection, Session)  # noqa: S101 (we made it)
        return connection.now() if self._clock is None else self._clock()

    def _damage(self, connection: Connection) -> list[str]:  # noqa: ARG002 (the server looks after its files)
        return []

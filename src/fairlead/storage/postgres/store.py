"""The store for several machines: one PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import cast

from fairlead.policy.queue import PolicyName
from fairlead.policy.rules import Rules
from fairlead.storage.postgres.connection import (
    READER_OPTIONS,
    TRY_DUTY_LOCK,
    connect,
    our_errors,
    prepare,
    prepare_with_retries,
    server_name,
)
from fairlead.storage.postgres.import_rows import import_tables
from fairlead.storage.postgres.listen import NotifyFeed
from fairlead.storage.postgres.pool import ONE_SNAPSHOT, SessionPool, Use
from fairlead.storage.postgres.session import Session
from fairlead.storage.postgres.writer import PostgresWriter
from fairlead.storage.sql.queries import Connection
from fairlead.storage.sql.rows import TableCopy
from fairlead.storage.sql.store import Store

_CUSTOMER_SCOPE: ContextVar[str | None] = ContextVar("customer_scope", default=None)
_SET_CUSTOMER = """
SELECT set_config('fairlead.customer', coalesce(
  (SELECT id FROM customers WHERE name = ?), -1)::text, TRUE)"""
_SEE_ALL = "SELECT set_config('fairlead.customer', '', TRUE)"
_VERSION = """
SELECT concat_ws(' ', (SELECT version FROM queue_state), (SELECT max(seq) FROM events),
  (SELECT sum(id) FROM queue_events))"""
_EVENTS_WITHOUT_GAP = """
SELECT coalesce(min(seq) FILTER (WHERE following > seq + 1), max(seq)),
  (SELECT coalesce(max(seq), 0) FROM events)
FROM (
  SELECT seq, lead(seq) OVER (ORDER BY seq) AS following FROM (
    SELECT ?::bigint AS seq UNION ALL
    (SELECT seq FROM events WHERE seq > ? ORDER BY seq LIMIT 2000)) AS numbers) AS pairs"""
"""The number up to which no event is missing after another number, and the newest number."""
_WRITERS_OF_EVENTS = """
SELECT coalesce(array_agg(virtualtransaction), '{}') FROM pg_locks
WHERE relation = 'events'::regclass AND mode = 'RowExclusiveLock' AND granted"""
_IS_BYPASSING = "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
_FSYNC_OFF = "the database server runs with fsync off, so a power cut may lose what was accepted"
_BYPASSES_SECURITY = (
    "the database user is a superuser or bypasses row-level security, so nothing but our own care "
    "keeps customers apart there; use a user that only owns its database"
)


class PostgresStore(Store):
    """A store on a server. All methods may be called from any thread.

    `clock` gives the time, for tests; by default the server does. `patient`: wait for a server that
    cannot be reached.
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
        prepare_with_retries(url) if patient else prepare(url)
        self._url = url
        self._clock = clock
        self._readers = SessionPool(url, READER_OPTIONS, Use.READ)
        self._feed = NotifyFeed(url, self._version)
        self.changes = self._feed
        self._events_lock = Lock()
        self._settled_event = 0
        self._awaited: tuple[int, set[str]] | None = None
        super().__init__(PostgresWriter(url, clock, self._feed.committed), rules=rules)

    def close(self) -> None:
        self._writer.close()
        self._feed.close()
        self._readers.close()

    def _version(self) -> int:
        """A number that changes with every commit that changes the queue or adds events."""
        with our_errors(self._url):
            return hash(self._readers.value(_VERSION))

    def now(self) -> float:
        with self._reading(whole=True) as connection:
            return self._now(connection)

    def warnings(self) -> list[str]:
        with self._reading(whole=True) as connection:
            is_bypassing = connection.execute(_IS_BYPASSING).get
            is_fsync_off = connection.execute("SELECT current_setting('fsync') <> 'on'").get
        warnings = {_BYPASSES_SECURITY: is_bypassing, _FSYNC_OFF: is_fsync_off}
        return [warning for warning, applies in warnings.items() if applies]

    def import_tables(self, tables: TableCopy) -> dict[str, int]:
        """Copy all tables of another store into this empty one; return the rows of each."""

        def copy(connection: Connection) -> dict[str, int]:
            assert isinstance(connection, Session)  # noqa: S101 (we made it)
            return import_tables(connection, tables, server_name(self._url))

        return self._writer.run_alone(copy, durable=True, excludes_writes=True)

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
            yield bool(session.execute(TRY_DUTY_LOCK, (duty,)).get)

    @contextmanager
    def _reading(self, *, whole: bool = False) -> Iterator[Session]:
        customer = None if whole else _CUSTOMER_SCOPE.get()
        with our_errors(self._url), self._readers.transaction(ONE_SNAPSHOT) as session:
            if customer is not None:
                session.execute(_SET_CUSTOMER, (customer,))
            yield session

    def _see_all(self, connection: Connection) -> None:
        if _CUSTOMER_SCOPE.get() is not None:
            connection.execute(_SEE_ALL)

    @contextmanager
    def _snapshot(self, connection: Connection) -> Iterator[Session]:  # noqa: ARG002
        """Another connection: a transaction that writes sees a new snapshot in each statement."""
        with self._readers.transaction(ONE_SNAPSHOT) as session:
            yield session

    def _policy_of(self, connection: Connection) -> PolicyName:
        assert isinstance(connection, Session)  # noqa: S101 (we made it)
        return cast("PolicyName", connection.policy)

    def _last_event_to_read(self) -> int:
        """Events get their numbers before they are committed, so a lower one may still appear.

        A missing number belongs to a transaction that is open or was rolled back. All numbers up to
        the newest one are final once every transaction has ended that was writing events after that
        one was read. A read that begins then sees all of them.
        """
        settled, awaited = self._settled_event, self._awaited
        with self._reading(whole=True) as connection:
            whole, newest = connection.execute(_EVENTS_WITHOUT_GAP, (settled, settled)).get
        if whole >= newest:
            return self._settle_events(whole)
        writers = self._writers_of_events()  # after the read of the newest number
        if not writers:
            return self._settle_events(newest)
        if awaited is None or not awaited[1] & writers:
            whole = max(whole, 0 if awaited is None else awaited[0])
            self._awaited = (newest, writers)
        return self._settle_events(whole)

    def _writers_of_events(self) -> set[str]:
        """The transactions that have written events and are still open."""
        with our_errors(self._url):
            return set(self._readers.value(_WRITERS_OF_EVENTS))

    def _settle_events(self, number: int) -> int:
        with self._events_lock:
            self._settled_event = max(self._settled_event, number)
            return self._settled_event

    def _now(self, connection: Connection) -> float:
        assert isinstance(connection, Session)  # noqa: S101 (we made it)
        return connection.now() if self._clock is None else self._clock()

    def _damage(self, connection: Connection) -> list[str]:  # noqa: ARG002 (the server looks after its files)
        return []

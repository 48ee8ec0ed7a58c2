"""Writes to PostgreSQL: each in its own transaction, on one of a few connections.

Independent writes do not wait for each other. Claims and policy switches run one at a time across
all processes. An advisory lock for that only saves work: they use one snapshot (REPEATABLE READ),
so if another one has changed the row of the queue meanwhile, the database refuses the change and
the claim is repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock
from typing import TypeVar

import psycopg
from psycopg import errors as pg

from fairlead.errors import StoreBusy
from fairlead.storage.postgres.connection import (
    BUSY_SECONDS,
    WRITER_OPTIONS,
    connect,
    lock_number,
    our_errors,
    server_name,
)
from fairlead.storage.postgres.pool import SessionPool, Use, taken_in_order
from fairlead.storage.postgres.session import Session
from fairlead.storage.sql.group_commit import LeaseGrace, Writer
from fairlead.storage.sql.queries import Connection

T = TypeVar("T")
_CONFLICTS = (pg.SerializationFailure, pg.DeadlockDetected)
_MOST_TRIES = 20
_CLAIMER_OPTIONS = WRITER_OPTIONS | {"lock_timeout": "2s"}
"""A claim that waited so long continues without the lock: its holder may be frozen."""
_CLAIM_LOCK = f"SELECT pg_advisory_lock({lock_number(0)})"
_POLICY_IN_FORCE = f"SELECT pg_advisory_xact_lock_shared({lock_number(3)})"
"""Writes read the policy under this shared lock; a policy switch takes it exclusively."""
_POLICY_LOCK = (
    f"SET lock_timeout = '{BUSY_SECONDS}s'; SELECT pg_advisory_lock({lock_number(3)});"
    f"SET lock_timeout = '{_CLAIMER_OPTIONS['lock_timeout']}'"
)
_UNLOCK = "SELECT pg_advisory_unlock_all()"


class PostgresWriter(Writer):
    """Replaces lost connections. It calls `on_commit` after each commit."""

    def __init__(
        self, url: str, clock: Callable[[], float] | None, on_commit: Callable[[], None]
    ) -> None:
        self._url = url
        self._clock_offset = float("inf")  # of the server's clock to this process's
        self._clock = clock or self._server_time
        self._grace = LeaseGrace(self._clock)
        self._on_commit = on_commit
        self._pool = SessionPool(url, WRITER_OPTIONS, Use.WRITE)
        self._alone = Lock()
        self._claimer: Session | None = None
        self.commits = self.writes = 0

    def close(self) -> None:
        self._pool.close()
        with self._alone:
            self._disconnect()

    def asked_at(self) -> float:
        """When an outage began; inf: there is none. Renewals do not wait for other writes here."""
        since = self._grace.since()
        return float("inf") if since is None else since

    def run(self, action: Callable[[Connection], T], *, durable: bool = True) -> T:
        with our_errors(self._url):
            return self._retry_conflicts(lambda: self._run_once(action, durable=durable))

    def run_each(self, actions: Sequence[Callable[[Connection], T]]) -> list[T | Exception]:
        results: list[T | Exception] = []
        for action in actions:
            try:
                results.append(self.run(action))
            except Exception as error:
                results.append(error)
        return results

    def run_alone(
        self, action: Callable[[Connection], T], *, durable: bool, excludes_writes: bool = False
    ) -> T:
        with our_errors(self._url), taken_in_order(self._url, Use.ALONE), self._alone:
            return self._retry_conflicts(
                lambda: self._run_alone_once(
                    action, durable=durable, excludes_writes=excludes_writes
                )
            )

    def _retry_conflicts(self, run: Callable[[], T]) -> T:
        """Repeat a transaction that conflicted with another one."""
        for _ in range(_MOST_TRIES):
            try:
                return run()
            except _CONFLICTS:
                continue
        raise StoreBusy(f"{server_name(self._url)} is busy: too many transactions conflict")

    def _run_once(self, action: Callable[[Connection], T], *, durable: bool) -> T:
        begin = ("BEGIN", _synchronous_commit(durable=durable), _POLICY_IN_FORCE)
        began = self._clock()
        try:
            with self._pool.transaction(*begin) as session:
                result = action(session)
                self._note_server(session, began)
        except psycopg.OperationalError:
            self._grace.failed(began)
            raise
        self._committed(session)
        return result

    def _run_alone_once(
        self, action: Callable[[Connection], T], *, durable: bool, excludes_writes: bool
    ) -> T:
        began = self._clock()
        try:
            session = self._begin_alone(durable=durable, excludes_writes=excludes_writes)
            result = action(session)
            self._note_server(session, began)
            session.commit(_UNLOCK)
        except BaseException as error:
            if isinstance(error, psycopg.OperationalError):
                self._grace.failed(began)
            self._unlock()
            raise
        self._committed(session)
        return result

    def _begin_alone(self, *, durable: bool, excludes_writes: bool) -> Session:
        """A session whose snapshot is taken behind the lock."""
        if self._claimer is None or self._claimer.is_broken:
            self._claimer = connect(self._url, _CLAIMER_OPTIONS)
        try:
            _begin_behind_lock(self._claimer, durable=durable, excludes_writes=excludes_writes)
        except psycopg.OperationalError as error:
            if isinstance(error, pg.LockNotAvailable) or not self._claimer.is_broken:
                raise
            self._disconnect()  # the connection was lost; the server may be reachable again
            self._claimer = connect(self._url, _CLAIMER_OPTIONS)
            _begin_behind_lock(self._claimer, durable=durable, excludes_writes=excludes_writes)
        return self._claimer

    def _unlock(self) -> None:
        """Roll back and release the locks, or disconnect."""
        session = self._claimer
        if session is None:
            return
        with suppress(psycopg.Error):
            session.roll_back()
            session.command(_UNLOCK)
        if session.is_broken or session.in_transaction:
            self._disconnect()

    def _disconnect(self) -> None:
        session, self._claimer = self._claimer, None
        if session is not None:
            session.close()

    def _note_server(self, session: Session, began: float) -> None:
        self._clock_offset = session.now() - time.monotonic()
        self._grace.succeeded(began)

    def _server_time(self) -> float:
        """The server's time by its last answer; inf: there was none yet."""
        return time.monotonic() + self._clock_offset

    def _committed(self, session: Session) -> None:
        """Announce the commit, unless nothing was written."""
        if session.has_written:
            self.commits += 1
            self.writes += 1
            self._on_commit()


def _begin_behind_lock(session: Session, *, durable: bool, excludes_writes: bool) -> None:
    if excludes_writes:
        session.command(_POLICY_LOCK)
    begin = "BEGIN ISOLATION LEVEL REPEATABLE READ"
    session.begin(begin, _synchronous_commit(durable=durable), behind=_CLAIM_LOCK)


def _synchronous_commit(*, durable: bool) -> str:
    return f"SET LOCAL synchronous_commit = {'on' if durable else 'off'}"

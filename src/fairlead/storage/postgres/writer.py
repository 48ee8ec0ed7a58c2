"""Writes to PostgreSQL: each in a transaction of its own, on one of a few connections.

Writes that do not depend on each other do not wait for each other. Claims and switches of the
policy are made one at a time in all processes, behind an advisory lock that merely saves work. They
have one snapshot: a claim that was overtaken may not change the row of the queue, which another one
has changed since, and is made anew.
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
    shown,
)
from fairlead.storage.postgres.pool import SessionPool
from fairlead.storage.postgres.session import Session
from fairlead.storage.sql.group_commit import LeaseGrace, Writer
from fairlead.storage.sql.queries import Connection

T = TypeVar("T")
_CONFLICTS = (pg.SerializationFailure, pg.DeadlockDetected)
_MOST_TRIES = 20
_CLAIMER_OPTIONS = WRITER_OPTIONS | {"lock_timeout": "2s"}
"""A claim that waited so long goes on without the lock: its holder may be frozen."""
_CLAIM_LOCK = f"SELECT pg_advisory_lock({lock_number(0)})"
_POLICY_IN_FORCE = f"SELECT pg_advisory_xact_lock_shared({lock_number(3)})"
"""Writes read the policy under this lock; a switch takes it alone."""
_POLICY_LOCK = (
    f"SET lock_timeout = '{BUSY_SECONDS}s'; SELECT pg_advisory_lock({lock_number(3)});"
    f"SET lock_timeout = '{_CLAIMER_OPTIONS['lock_timeout']}'"
)
_UNLOCK = "SELECT pg_advisory_unlock_all()"


class PostgresWriter(Writer):
    """Connects anew where a connection was lost. `on_commit` is called after each commit."""

    def __init__(
        self, url: str, clock: Callable[[], float] | None, on_commit: Callable[[], None]
    ) -> None:
        self._url = url
        self._ahead = float("inf")  # the server's clock is, of this process's
        self._clock = clock or self._server_time
        self._grace = LeaseGrace(self._clock)
        self._on_commit = on_commit
        self._pool = SessionPool(url, WRITER_OPTIONS)
        self._alone = Lock()
        self._claimer: Session | None = None
        self.commits = self.writes = 0

    def close(self) -> None:
        self._pool.close()
        with self._alone:
            self._hang_up()

    def asked_at(self) -> float:
        """Renewals wait for nobody; but during an outage nobody could renew a lease."""
        since = self._grace.since()
        return float("inf") if since is None else since

    def run(self, action: Callable[[Connection], T], *, durable: bool = True) -> T:
        with our_errors(self._url):
            return self._until_settled(lambda: self._run_once(action, durable=durable))

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
        with our_errors(self._url), self._alone:
            return self._until_settled(
                lambda: self._run_alone_once(
                    action, durable=durable, excludes_writes=excludes_writes
                )
            )

    def _until_settled(self, run: Callable[[], T]) -> T:
        """Run again what lost to another transaction."""
        for _ in range(_MOST_TRIES):
            try:
                return run()
            except _CONFLICTS:
                continue
        raise StoreBusy(f"{shown(self._url)} is busy: another process was quicker each time")

    def _run_once(self, action: Callable[[Connection], T], *, durable: bool) -> T:
        wait = "on" if durable else "off"
        begin = ("BEGIN", f"SET LOCAL synchronous_commit = {wait}", _POLICY_IN_FORCE)
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
            session = self._begun_alone(durable=durable, excludes_writes=excludes_writes)
            result = action(session)
            self._note_server(session, began)
            session.commit(_UNLOCK)
        except BaseException as error:
            if isinstance(error, psycopg.OperationalError):
                self._grace.failed(began)
            self._let_go()
            raise
        self._committed(session)
        return result

    def _begun_alone(self, *, durable: bool, excludes_writes: bool) -> Session:
        """A session whose snapshot is taken behind the lock."""
        if self._claimer is None or self._claimer.is_broken:
            self._claimer = connect(self._url, _CLAIMER_OPTIONS)
        try:
            self._begin_alone(self._claimer, durable=durable, excludes_writes=excludes_writes)
        except psycopg.OperationalError as error:
            if isinstance(error, pg.LockNotAvailable) or not self._claimer.is_broken:
                raise
            self._hang_up()  # the server went away meanwhile, and may be back
            self._claimer = connect(self._url, _CLAIMER_OPTIONS)
            self._begin_alone(self._claimer, durable=durable, excludes_writes=excludes_writes)
        return self._claimer

    def _begin_alone(self, session: Session, *, durable: bool, excludes_writes: bool) -> None:
        if excludes_writes:
            session.command(_POLICY_LOCK)
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ"
        wait = f"SET LOCAL synchronous_commit = {'on' if durable else 'off'}"
        session.begin(begin, wait, behind=_CLAIM_LOCK)

    def _let_go(self) -> None:
        session = self._claimer
        if session is None:
            return
        with suppress(psycopg.Error):
            session.roll_back()
            session.command(_UNLOCK)
        if session.is_broken or session.in_transaction:
            self._hang_up()

    def _hang_up(self) -> None:
        session, self._claimer = self._claimer, None
        if session is not None:
            session.close()

    def _note_server(self, session: Session, began: float) -> None:
        self._ahead = session.now() - time.monotonic()
        self._grace.succeeded(began)

    def _server_time(self) -> float:
        """By what the server said last; inf: it has never been heard."""
        return time.monotonic() + self._ahead

    def _committed(self, session: Session) -> None:
        """Announce the commit, unless nothing was written."""
        if session.has_written:
            self.commits += 1
            self.writes += 1
            self._on_commit()

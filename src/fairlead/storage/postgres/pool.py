"""The connection pool: a few connections to the server for many threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from threading import BoundedSemaphore, local
from typing import Any, TypeVar

import psycopg

from fairlead.errors import StoreBusy, StoreUnreachable
from fairlead.storage.postgres.connection import BUSY_SECONDS, connect, server_name
from fairlead.storage.postgres.session import Session

T = TypeVar("T")
MOST = 8
ONE_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"


class Use(IntEnum):
    """What a connection is for. A thread takes several in this order only, one for each use."""

    ALONE = 1
    WRITE = 2
    READ = 3


class _Held(local):
    """The connections that a thread holds: the server's URL and the use."""

    def __init__(self) -> None:
        self.uses: list[tuple[str, Use]] = []


_held = _Held()


@contextmanager
def taken_in_order(url: str, use: Use) -> Iterator[None]:
    """Raise at once where threads could wait for each other's connections for ever."""
    uses = _held.uses
    if any(held_url == url and held_use >= use for held_url, held_use in uses):
        held = ", ".join(held_use.name for _, held_use in uses)
        raise RuntimeError(f"a thread that holds {held} may not wait for {use.name}")
    uses.append((url, use))
    try:
        yield
    finally:
        uses.pop()


class SessionPool:
    """A few connections for many threads, opened when they are needed.

    A connection that was lost since its last use is replaced at once; if that fails, the caller
    gets the error without waiting.
    """

    def __init__(self, url: str, options: dict[str, str], use: Use) -> None:
        self._url = url
        self._options = options
        self._use = use
        self._idle: deque[Session] = deque()
        self._room = BoundedSemaphore(MOST)
        self._is_closed = False

    def close(self) -> None:
        """Close idle connections now, and connections in use when they are given back."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()

    def value(self, query: str) -> Any:
        """The value of a query with one row and column, in one round trip."""
        with self._session(lambda session: session.execute(query).get) as (_, value):
            return value

    @contextmanager
    def transaction(self, *begin: str) -> Iterator[Session]:
        """A transaction that begins with these statements; committed at the end, or rolled back."""
        with self._session(lambda session: session.begin(*begin)) as (session, _):
            try:
                yield session
                session.end_reading() if self._use is Use.READ else session.commit()
            except BaseException:
                session.roll_back()
                raise

    @contextmanager
    def _session(self, first: Callable[[Session], T]) -> Iterator[tuple[Session, T]]:
        """A session and the result of its first use, which detects a lost connection."""
        with taken_in_order(self._url, self._use), self._place():
            session, result = self._used(first)
            try:
                yield session, result
            finally:
                self._give_back(session)

    @contextmanager
    def _place(self) -> Iterator[None]:
        """One of the places of the pool, which is waited for."""
        if not self._room.acquire(timeout=BUSY_SECONDS):
            raise StoreBusy(
                f"all {MOST} connections of this process to {server_name(self._url)} have been in "
                f"use for {BUSY_SECONDS} s; try again"
            )
        try:
            yield
        finally:
            self._room.release()

    def _used(self, first: Callable[[Session], T]) -> tuple[Session, T]:
        if self._is_closed:
            raise StoreUnreachable(
                f"the connection to {server_name(self._url)} is closed; open a new one"
            )
        while True:
            try:
                session, is_new = self._idle.pop(), False
            except IndexError:
                session, is_new = connect(self._url, self._options), True
            try:
                return session, first(session)
            except BaseException as error:
                session.close()
                if is_new or not isinstance(error, psycopg.OperationalError):
                    raise

    def _give_back(self, session: Session) -> None:
        if self._is_closed or session.is_broken:
            session.close()
        else:
            self._idle.append(session)

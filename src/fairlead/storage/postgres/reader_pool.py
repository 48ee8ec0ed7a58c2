"""The connections through which a process reads."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore

import psycopg

from fairlead.errors import StoreBusy, StoreUnreachable
from fairlead.storage.postgres.connection import BUSY_SECONDS, READER_OPTIONS, connect, shown
from fairlead.storage.postgres.session import Session

MOST = 8
_ONE_MOMENT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"


class ReaderPool:
    """A few connections for many threads, made when they are needed.

    One that was lost since it was last used is replaced at once; where that fails, whoever asked
    hears of it without waiting.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._idle: deque[Session] = deque()
        self._room = BoundedSemaphore(MOST)
        self._is_closed = False

    def close(self) -> None:
        """Close all connections; those in use when they are given back."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()

    @contextmanager
    def tx(self) -> Iterator[Session]:
        """A connection that nobody else uses meanwhile, and that sees one moment throughout."""
        if not self._room.acquire(timeout=BUSY_SECONDS):
            raise StoreBusy(f"{shown(self._url)} has not answered for {BUSY_SECONDS} s")
        try:
            session = self._begun()
            try:
                yield session
                session.commit()  # there is nothing to undo
            except BaseException:
                session.roll_back()
                raise
            finally:
                self._give_back(session)
        finally:
            self._room.release()

    def _begun(self) -> Session:
        if self._is_closed:
            raise StoreUnreachable(
                f"the connection to {shown(self._url)} is closed; open a new one"
            )
        while True:
            try:
                session = self._idle.pop()
            except IndexError:
                session = connect(self._url, READER_OPTIONS)
                session.begin(_ONE_MOMENT)
                return session
            try:
                session.begin(_ONE_MOMENT)
            except psycopg.OperationalError:
                session.close()
            else:
                return session

    def _give_back(self, session: Session) -> None:
        if self._is_closed or session.is_broken:
            session.close()
        else:
            self._idle.append(session)

"""Transactions of the one PostgreSQL connection of a process that writes."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

import psycopg

from fairlead.errors import StoreUnreachable
from fairlead.storage.postgres.connection import (
    WRITER_OPTIONS,
    connect,
    one_at_a_time,
    our_words,
    shown,
)
from fairlead.storage.postgres.session import Session
from fairlead.storage.sql.group_commit import Writer

# One writer at a time, of all processes: who goes next depends on what everybody did before. The
# lock ends with the transaction, so whoever follows sees all of it.
_ONE_AT_A_TIME = one_at_a_time(0)


class PostgresWriter(Writer):
    """Connects anew where the connection was lost."""

    def __init__(self, url: str, clock: Callable[[], float] | None = None) -> None:
        super().__init__(clock or self._server_time)
        self._url = url
        self._ahead = float("inf")  # the server's clock is, of this process's
        self._session: Session | None = None
        self._is_closed = False

    def close(self) -> None:
        """Close the connection; what was committed stays."""
        with self._lock:
            self._is_closed = True
            self._hang_up()

    def _our_words(self) -> AbstractContextManager[None]:
        return our_words(self._url)

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

    def _end(self, *, durable: bool) -> None:  # noqa: ARG002 (it was begun so)
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

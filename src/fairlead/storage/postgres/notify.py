"""NOTIFY: announces the commits of this process to others.

PostgreSQL commits transactions with a NOTIFY one after the other, through one lock for all
databases of the server. So a notification is a separate transaction after the commit, in a separate
connection, and commits in quick succession share one.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import closing, suppress
from threading import Lock

from fairlead.errors import DataError
from fairlead.service import Service
from fairlead.storage.postgres.connection import READER_OPTIONS, connect, our_errors
from fairlead.storage.postgres.session import Session

CHANNEL = "fairlead"
PAUSE_SECONDS = 0.01
"""The pause between two notifications of a process."""
IDLE_SECONDS = 60.0

_NOTIFY = f"SELECT pg_notify('{CHANNEL}', current_schema())"
_OPTIONS = READER_OPTIONS | {"synchronous_commit": "off"}
"""A notification is written to the WAL, but need not survive a crash."""


class NotifyPublisher:
    """Sends a notification soon after each call of `changed`, from a background thread.

    It connects at the first call. A notification that fails is retried; `close` sends one that is
    due.
    """

    def __init__(self, url: str) -> None:
        self.backend_pid: int | None = None
        """The server process of the connection that sends notifications."""
        self._url = url
        self._is_started = False
        self._start_lock = Lock()
        self._is_due = False
        self._service = Service("notification sender", self._send_notifications)

    def changed(self) -> None:
        """Announce a commit. Returns at once."""
        if not self._is_due:
            self._is_due = True
            self._service.wake()
        if not self._is_started:
            self._start()

    def _start(self) -> None:
        with self._start_lock:  # several threads commit
            if not self._is_started:
                self._is_started = True
                self._service.start()

    def close(self) -> None:
        self._service.stop()
        if self._is_due:
            with suppress(DataError), self._connected() as session:  # other processes poll
                self._send(session)

    def _connected(self) -> closing[Session]:
        with our_errors(self._url):
            return closing(connect(self._url, _OPTIONS))

    def _send_notifications(self) -> Generator[float, None, None]:
        with self._connected() as session:
            self.backend_pid = session.connection.info.backend_pid
            next_at = float("-inf")
            while True:
                seconds = next_at - time.monotonic() if self._is_due else IDLE_SECONDS
                if seconds <= 0:
                    self._send(session)
                    next_at = time.monotonic() + PAUSE_SECONDS
                else:
                    yield seconds

    def _send(self, session: Session) -> None:
        self._is_due = False  # before sending: a commit from here on needs another notification
        try:
            with our_errors(self._url):
                session.command(_NOTIFY)
        except BaseException:
            self._is_due = True
            raise

"""Hears from the server that something was committed, and rings for all who wait for that."""

from __future__ import annotations

import logging
import os
import selectors
from collections.abc import Callable
from threading import Event, Lock, Thread

import psycopg

from fairlead.storage.postgres.connection import READER_OPTIONS, connect
from fairlead.storage.postgres.session import Session

_log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0

CeleryBroker = Callable[[], None]


class Listener:
    """One connection that only listens, in a thread that begins with the first bell.

    What is committed while the server cannot be heard is made up for by a ring afterwards.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._bells: list[CeleryBroker] = []
        self._lock = Lock()
        self._stop = Event()
        self._ear, self._mouth = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._thread: Thread | None = None

    def add(self, bell: CeleryBroker) -> None:
        """Ring it after every commit from now on; it is called in another thread."""
        with self._lock:
            self._bells.append(bell)
            if self._thread is None:
                self._thread = Thread(target=self._listen, name="fairlead-listener", daemon=True)
                self._thread.start()

    def remove(self, bell: CeleryBroker) -> None:
        """Ring it no more."""
        with self._lock:
            self._bells = [each for each in self._bells if each != bell]

    def close(self) -> None:
        """Stop listening."""
        if self._stop.is_set():
            return
        self._stop.set()
        os.write(self._mouth, b"!")
        if self._thread is not None:
            self._thread.join()
        os.close(self._ear)
        os.close(self._mouth)

    def _listen(self) -> None:
        pause = FIRST_PAUSE
        while not self._stop.is_set():
            try:
                session = connect(self._url, READER_OPTIONS)
            except (psycopg.Error, OSError) as error:
                _log.debug("fairlead: the database cannot be listened to: %s", error)
                self._stop.wait(pause)
                pause = min(LONGEST_PAUSE, 2 * pause)
                continue
            pause = FIRST_PAUSE
            try:
                self._hear(session)
            except (psycopg.Error, OSError) as error:
                _log.debug("fairlead: the database is heard no more: %s", error)
            finally:
                session.close()

    def _hear(self, session: Session) -> None:
        connection = session.connection
        connection.execute(b"LISTEN fairlead", prepare=False)
        schema = session.execute("SELECT current_schema()").get
        self._ring()
        with selectors.DefaultSelector() as selector:
            selector.register(connection.fileno(), selectors.EVENT_READ)
            selector.register(self._ear, selectors.EVENT_READ)
            while not self._stop.is_set():
                selector.select()
                if any(each.payload == schema for each in connection.notifies(timeout=0)):
                    self._ring()

    def _ring(self) -> None:
        with self._lock:
            bells = list(self._bells)
        for bell in bells:
            bell()

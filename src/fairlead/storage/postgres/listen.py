"""LISTEN: passes the announced commits of other processes on to the change feed."""

from __future__ import annotations

import selectors
from collections.abc import Callable, Generator
from contextlib import closing
from threading import Lock

from psycopg import Notify

from fairlead.change_feed import ChangeFeed, Subscription, Wake
from fairlead.service import Service, WakePipe
from fairlead.storage.postgres.connection import READER_OPTIONS, connect, our_errors
from fairlead.storage.postgres.notify import CHANNEL, NotifyPublisher

POLL_SECONDS = 1.0


class NotifyFeed(ChangeFeed):
    """A change feed with a connection for LISTEN, from the first subscription on.

    After a reconnect it wakes all subscribers, in case there were commits meanwhile. The writer
    calls `committed` after each commit of this process.
    """

    def __init__(self, url: str, version: Callable[[], int]) -> None:
        super().__init__(version, POLL_SECONDS)
        self._url = url
        self._publisher = NotifyPublisher(url)
        self._start_lock = Lock()
        self._is_started = False
        self._stop_pipe = WakePipe()
        self._service = Service("listener", self._listen, on_stop=self._stop_pipe.wake)

    def committed(self) -> None:
        """Wake the subscribers of this process at once, and notify other processes."""
        self.announce()
        self._publisher.changed()

    def subscribe(self, wake: Wake = lambda: None) -> Subscription:
        subscription = super().subscribe(wake)
        with self._start_lock:
            if not self._is_started:
                self._is_started = True
                self._service.start()
        return subscription

    def close(self) -> None:
        self._publisher.close()
        self._service.stop()
        self._stop_pipe.close()

    def _listen(self) -> Generator[float, None, None]:
        with our_errors(self._url), closing(connect(self._url, READER_OPTIONS)) as session:
            connection = session.connection
            connection.execute(f"LISTEN {CHANNEL}".encode(), prepare=False)
            schema = session.execute("SELECT current_schema()").get
            self.announce()
            with selectors.DefaultSelector() as selector:
                selector.register(connection.fileno(), selectors.EVENT_READ)
                selector.register(self._stop_pipe, selectors.EVENT_READ)
                while True:
                    yield 0.0
                    selector.select()
                    notes = list(connection.notifies(timeout=0))
                    if any(note.payload == schema and self._is_foreign(note) for note in notes):
                        self.announce()

    def _is_foreign(self, note: Notify) -> bool:
        """Whether another process sent it; `committed` announces the commits of this one."""
        return note.pid != self._publisher.backend_pid

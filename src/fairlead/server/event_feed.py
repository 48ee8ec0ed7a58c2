"""The event feed: one thread reads new events once, for all long polls, streams and listeners."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any

from msgspec.structs import asdict

from fairlead.app import Fairlead
from fairlead.backoff import Backoff
from fairlead.errors import LimitReached
from fairlead.model.documents import Event
from fairlead.model.json import to_json
from fairlead.server.sse import StreamQueue
from fairlead.service import Service

_log = logging.getLogger(__name__)

BUSY_SECONDS = 0.05
"""Between reads while there are events in each: fewer reads, with more events in each."""
PAUSE_SECONDS = 1.0
"""After events could not be read."""
PORTION = 500
MOST_QUEUED = 2000
"""Events that wait for a slow reader before it is dropped."""
OPERATORS_ONLY = frozenset(["worker", "fence"])

_ANY = "*"
"""No id of a document: whoever waits for it waits for any event."""

Listener = Callable[[Sequence[Event]], None]


class EncodedEvent:
    """An event with its texts, each made once for all who read it."""

    def __init__(self, event: Event) -> None:
        self.event = event
        self._texts: dict[bool, bytes] = {}

    def text(self, *, for_operator: bool) -> bytes:
        if for_operator not in self._texts:
            self._texts[for_operator] = _sse_text(self.event, for_operator=for_operator)
        return self._texts[for_operator]


def _sse_text(event: Event, *, for_operator: bool) -> bytes:
    data: Event | dict[str, Any] = event
    if not for_operator:
        data = asdict(event)
        del data["actor"]
        data["data"] = {name: v for name, v in event.data.items() if name not in OPERATORS_ONLY}
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.kind.encode(), to_json(data))


MOST_STREAMS_OF_A_KEY = 500

EventQueue = StreamQueue[EncodedEvent]


class EventFeed:
    """Wakes long polls and feeds streams. All but its own thread runs in the event loop."""

    def __init__(self, fairlead: Fairlead) -> None:
        self._fairlead = fairlead
        self._listeners: list[Listener] = []
        self._queues: set[EventQueue] = set()
        self._waiters: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._service = Service("event feed", self._read_events, backoff=Backoff(PAUSE_SECONDS))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._read_to = 0
        self.is_closing = False
        self.seen = 0

    def listen(self, listener: Listener) -> None:
        """Call this function with all events, in order and several at a time."""
        self._listeners.append(listener)

    def open(self) -> None:
        self.seen = self._read_to = self._fairlead.store.last_event()
        self._loop = asyncio.get_running_loop()
        self._service.start()

    def end_all(self) -> None:
        """End all waits and streams: the server is about to stop."""
        self.is_closing = True
        for queue in self._queues:
            queue.close("stopping")
        self._wake_all()

    def revoked(self, key_id: str) -> None:
        """End the streams of a key; long polls check theirs again."""
        for queue in self._queues:
            if queue.key_id == key_id:
                queue.close("revoked")
        self._wake_all()

    def _wake_all(self) -> None:
        for waiters in self._waiters.values():
            for changed in waiters:
                changed.set()

    def close(self) -> None:
        self._service.stop()

    def check_streams(self, key_id: str) -> None:
        """Raise LimitReached if the key has as many open streams as it may have."""
        if sum(queue.key_id == key_id for queue in self._queues) >= MOST_STREAMS_OF_A_KEY:
            raise LimitReached(
                f"a key may have {MOST_STREAMS_OF_A_KEY} open event streams; close one, or read "
                "the events of all customers in one stream"
            )

    @contextmanager
    def subscription(self, customer: str | None, key_id: str) -> Iterator[EventQueue]:
        """A queue of all events after `seen`; of one customer, if named."""
        queue: EventQueue = StreamQueue(MOST_QUEUED, customer, key_id)
        self._queues.add(queue)
        if self.is_closing:
            queue.close("stopping")
        try:
            yield queue
        finally:
            self._queues.discard(queue)

    @contextmanager
    def changes_of(self, document: str) -> Iterator[asyncio.Event]:
        """An event that is set whenever something happens to the document."""
        changed = asyncio.Event()
        self._waiters[document].add(changed)
        try:
            yield changed
        finally:
            self._waiters[document].discard(changed)
            if not self._waiters[document]:
                del self._waiters[document]

    @contextmanager
    def all_changes(self) -> Iterator[asyncio.Event]:
        """An event that is set whenever something happens."""
        with self.changes_of(_ANY) as changed:
            yield changed

    def is_waited_for(self, document: str) -> bool:
        return document in self._waiters

    def _read_events(self) -> Generator[float, None, None]:
        loop, read_at = self._loop, 0.0
        with self._fairlead.store.changes.subscribe(self._service.wake) as changes:
            while loop is not None and not loop.is_closed():
                if changes.changed():
                    while events := self._fairlead.store.events(self._read_to, PORTION):
                        self._read_to = events[-1].seq
                        loop.call_soon_threadsafe(self._publish, events)
                    before, read_at = read_at, monotonic()
                    if read_at - before < 2 * BUSY_SECONDS:
                        sleep(BUSY_SECONDS)
                yield changes.poll_seconds

    def _publish(self, events: list[Event]) -> None:
        self.seen = events[-1].seq
        for listener in self._listeners:
            try:
                listener(events)
            except Exception:  # the other listeners still get the events
                _log.exception("fairlead: events from %s on were not taken in", events[0].seq)
        for document in {_ANY, *(event.document or "" for event in events)} & self._waiters.keys():
            for changed in self._waiters[document]:
                changed.set()
        for encoded in map(EncodedEvent, events) if self._queues else ():
            for queue in self._queues:
                if queue.customer in (None, encoded.event.customer):
                    queue.put(encoded)

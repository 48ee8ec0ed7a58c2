"""One watcher for all who wait: it reads new events once, and wakes whom they concern."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Sequence
from time import monotonic, sleep
from typing import Any

from msgspec.structs import asdict

from fairlead.app import Fairlead
from fairlead.backoff import Backoff
from fairlead.model.documents import Event
from fairlead.model.json import to_json
from fairlead.service import Service

_log = logging.getLogger(__name__)

BUSY_SECONDS = 0.05
"""Between looks while one finds something soon after another: fewer, with more events in each."""
PAUSE_SECONDS = 1.0
"""After events could not be read."""
PORTION = 500
MOST_QUEUED = 2000
"""Events that wait for a slow reader before it is dropped."""
INNER = frozenset(["worker", "fence"])
"""What is told to operators only."""

Listener = Callable[[Sequence[Event]], None]


class EncodedEvent:
    """An event with its texts, each made once for all who read it."""

    def __init__(self, event: Event) -> None:
        self.event = event
        self._texts: dict[bool, bytes] = {}

    def text(self, *, for_operator: bool) -> bytes:
        """The event as a stream carries it."""
        if for_operator not in self._texts:
            self._texts[for_operator] = _text(self.event, for_operator=for_operator)
        return self._texts[for_operator]


def _text(event: Event, *, for_operator: bool) -> bytes:
    shown: Event | dict[str, Any] = event
    if not for_operator:
        shown = asdict(event)
        del shown["actor"]
        shown["data"] = {name: v for name, v in event.data.items() if name not in INNER}
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.kind.encode(), to_json(shown))


class Stream:
    """The queue of one reader, and whose key it came with; no customer: it reads everything."""

    def __init__(self, customer: str | None, key_id: str) -> None:
        self.customer = customer
        self.key_id = key_id
        self.end: str | None = None
        self._queue: deque[EncodedEvent] = deque()
        self._bell = asyncio.Event()

    def put(self, told: EncodedEvent) -> None:
        """Queue an event, or drop the reader that has let too many wait."""
        if self.end is None:
            self._queue.append(told)
            if len(self._queue) > MOST_QUEUED:
                self.close("too-slow")
            self._bell.set()

    def close(self, reason: str) -> None:
        """End the stream with a reason."""
        self.end = self.end or reason
        if reason in ("too-slow", "revoked"):
            self._queue.clear()
        self._bell.set()

    async def take(self, seconds: float) -> list[EncodedEvent]:
        """What has come; nothing after so many seconds, or at the end."""
        if not self._queue and self.end is None:
            try:
                async with asyncio.timeout(seconds):
                    await self._bell.wait()
            except TimeoutError:
                return []
        self._bell.clear()
        found = list(self._queue)
        self._queue.clear()
        return found


class EventFeed:
    """Wakes waiters and feeds streams. All but its own thread runs in the event loop."""

    def __init__(self, fairlead: Fairlead) -> None:
        self._fairlead = fairlead
        self._listeners: list[Listener] = []
        self._streams: set[Stream] = set()
        self._waiters: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._service = Service("event feed", self._read_events, backoff=Backoff(PAUSE_SECONDS))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._read_to = 0
        self.is_closing = False
        self.seen = 0

    def listen(self, listener: Listener) -> None:
        """Tell this function of all events, in order and some at a time."""
        self._listeners.append(listener)

    def open(self) -> None:
        """Begin to watch; to be called in the event loop."""
        self.seen = self._read_to = self._fairlead.store.last_event()
        self._loop = asyncio.get_running_loop()
        self._service.start()

    def end_all(self) -> None:
        """Let nobody wait any longer: the server is about to stop."""
        self.is_closing = True
        for stream in list(self._streams):
            stream.close("stopping")
        self._wake_all()

    def revoked(self, key_id: str) -> None:
        """End the streams of a key, and let all who wait look whether theirs still opens."""
        for stream in list(self._streams):
            if stream.key_id == key_id:
                stream.close("revoked")
        self._wake_all()

    def _wake_all(self) -> None:
        for waiters in self._waiters.values():
            for each in waiters:
                each.set()

    def close(self) -> None:
        """Stop watching."""
        self._service.stop()

    def subscribe(self, customer: str | None, key_id: str) -> Stream:
        """A stream of all events after `seen`; of one customer, if named."""
        stream = Stream(customer, key_id)
        self._streams.add(stream)
        if self.is_closing:
            stream.close("stopping")
        return stream

    def unsubscribe(self, stream: Stream) -> None:
        """Forget a stream."""
        self._streams.discard(stream)

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return len(self._streams)

    def bell(self, document: str) -> asyncio.Event:
        """Rings when something happened to the document; give it back with `forget`."""
        bell = asyncio.Event()
        self._waiters[document].add(bell)
        return bell

    def forget(self, document: str, bell: asyncio.Event) -> None:
        """Wait no longer."""
        self._waiters[document].discard(bell)
        if not self._waiters[document]:
            del self._waiters[document]

    def _read_events(self) -> Generator[float, None, None]:
        loop, read_at = self._loop, 0.0
        with self._fairlead.store.changes.subscribe(self._service.wake) as changes:
            while loop is not None and not loop.is_closed():
                if changes.changed():
                    while events := self._fairlead.store.events(self._read_to, PORTION):
                        self._read_to = events[-1].seq
                        loop.call_soon_threadsafe(self._tell, events)
                    before, read_at = read_at, monotonic()
                    if read_at - before < 2 * BUSY_SECONDS:
                        sleep(BUSY_SECONDS)
                yield changes.poll_seconds

    def _tell(self, events: list[Event]) -> None:
        self.seen = events[-1].seq
        for listener in self._listeners:
            try:
                listener(events)
            except Exception:  # the others are to hear of it all the same
                _log.exception("fairlead: events from %s on were not taken in", events[0].seq)
        if self._waiters:
            self._wake(events)
        if self._streams:
            self._stream(events)

    def _wake(self, events: Iterable[Event]) -> None:
        for event in events:
            for bell in self._waiters.get(event.document or "", ()):
                bell.set()

    def _stream(self, events: Iterable[Event]) -> None:
        for event in events:
            told = EncodedEvent(event)
            for stream in self._streams:
                if stream.customer is None or stream.customer == event.customer:
                    stream.put(told)

"""The event feed and its streams, without a server process."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import apsw
import pytest
from apikit import PATIENT

from fairlead import Fairlead
from fairlead.errors import LimitReached
from fairlead.model.documents import Event, EventKind
from fairlead.server.auth import Caller
from fairlead.server.context import ServerContext
from fairlead.server.event_feed import (
    MOST_QUEUED,
    MOST_STREAMS_OF_A_KEY,
    EncodedEvent,
    EventFeed,
    EventQueue,
)
from fairlead.server.routes.events import event_stream


def test_a_slow_reader_is_dropped_with_a_reason_and_its_queue_with_it() -> None:
    async def read() -> tuple[list[EncodedEvent], str | None]:
        stream = EventQueue(MOST_QUEUED, "acme", "key")
        for number in range(MOST_QUEUED + 1):
            stream.put(EncodedEvent(Event(number, 0.0, EventKind.DONE, "acme", "x", {})))
        stream.put(EncodedEvent(Event(9, 0.0, EventKind.DONE, "acme", "x", {})))
        return await stream.take(1.0), stream.end

    assert asyncio.run(read()) == ([], "too-slow")


def test_a_customer_is_not_told_who_works_and_who_decided() -> None:
    encoded = EncodedEvent(
        Event(7, 0.0, EventKind.CLAIMED, "acme", "x", {"worker": "w", "fence": 1}, "anna")
    )
    assert b"anna" in encoded.text(for_operator=True)
    assert b'"worker":"w"' in encoded.text(for_operator=True)
    shown = encoded.text(for_operator=False)
    assert shown.startswith(b"id: 7\nevent: claimed\ndata: {")
    assert b"anna" not in shown
    assert b"worker" not in shown


def test_the_watcher_outlives_whatever_goes_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the watcher, no event and no revocation would arrive."""
    monkeypatch.setattr("fairlead.server.event_feed.PAUSE_SECONDS", 0.0)

    async def heard(fairlead: Fairlead) -> Any:
        first_event: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
        event_feed = EventFeed(fairlead)
        event_feed.listen(
            lambda events: None if first_event.done() else first_event.set_result(events[0])
        )
        wrong = iter([apsw.IOError("disk I/O error"), MemoryError(), RuntimeError("no thread")])
        real = fairlead.store.changes.version

        def version() -> int:
            for error in wrong:
                raise error
            return real()

        monkeypatch.setattr(fairlead.store.changes, "version", version)
        event_feed.open()
        fairlead.customers.add("acme")
        try:
            return await asyncio.wait_for(first_event, PATIENT)
        finally:
            event_feed.close()

    with Fairlead(tmp_path) as fairlead:
        assert asyncio.run(heard(fairlead)).customer == "acme"


def test_a_stream_of_a_key_that_was_revoked_before_it_listened_ends(tmp_path: Path) -> None:
    async def listen(fairlead: Fairlead) -> list[bytes]:
        context = ServerContext(fairlead)
        _, key_record = fairlead.keys.add("acme")
        fairlead.keys.revoke(key_record.id)
        context.auth.revoked(key_record.id)
        stream = event_stream(
            context, Caller(key_record.id, "acme"), "acme", 0, announces_start=True
        )
        async with asyncio.timeout(PATIENT):
            pieces = [piece async for piece in stream]
        context.close()
        return pieces

    with Fairlead(tmp_path) as fairlead:
        assert b"revoked" in asyncio.run(listen(fairlead))[-1]


def test_a_key_has_a_bounded_number_of_streams(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead, ExitStack() as streams:
        feed = EventFeed(fairlead)
        for _ in range(MOST_STREAMS_OF_A_KEY):
            feed.check_streams("key")
            streams.enter_context(feed.subscription("acme", "key"))
        with pytest.raises(LimitReached, match="a key may have 500 open event streams"):
            feed.check_streams("key")
        feed.check_streams("another")

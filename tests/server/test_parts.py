"""The parts of the API that need no server."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, cast

import apsw
import httpx
import pytest
from apikit import PATIENT, problem
from starlette.types import Message as ASGIMessage
from starlette.types import Receive, Scope, Send

from fairlead import Fairlead
from fairlead.blobs.upload import MEMORY_BYTES, PIECE_BYTES
from fairlead.errors import StoreBusy
from fairlead.intake import Offer
from fairlead.model.documents import Event, EventKind
from fairlead.model.ids import new_id, time_of
from fairlead.model.key_secrets import id_of, matches, new_key, sha256_of
from fairlead.server.app import create_app
from fairlead.server.auth import ASKED_BY, Caller
from fairlead.server.context import ServerContext
from fairlead.server.event_feed import MOST_QUEUED, EncodedEvent, EventFeed, Stream
from fairlead.server.headers import best_type
from fairlead.server.middleware import RequestGuard
from fairlead.server.problems import Problem
from fairlead.server.rate_limit import RateLimiter
from fairlead.server.routes.events import EventStream
from fairlead.server.upload import _flushed

TYPES = ("text/plain", "text/markdown", "application/json")


@pytest.mark.parametrize(
    ("accept", "best"),
    [
        (None, "text/plain"),
        ("*/*", "text/plain"),
        ("text/markdown;q=0.9, text/plain;q=0.1", "text/markdown"),
        ("application/*", "application/json"),
        ("text/plain;q=0, */*;q=0.1", "text/markdown"),
        ("image/png", None),
        ("text/plain;q=x", None),
        ("text/plain;q=nan, text/markdown;q=0.1", "text/markdown"),
        ("text/plain;q=inf, text/markdown;q=0.1", "text/markdown"),
        ("text/plain;q=1.1, text/markdown;q=0.1", "text/markdown"),
        ("text/plain;q=-1, text/markdown;q=0.1", "text/markdown"),
        ("text/plain;q=-0.5", None),
    ],
)
def test_the_best_type_is_found(accept: str | None, best: str | None) -> None:
    assert best_type(accept, TYPES) == best


def test_a_bucket_empties_and_fills_again() -> None:
    now = [0.0]
    limiter = RateLimiter(lambda: now[0])
    for _ in range(3):
        limiter.check("acme", 2.0, 3)
    with pytest.raises(Problem) as caught:
        limiter.check("acme", 2.0, 3)
    assert caught.value.extra == {"limit": "requests_a_second", "retry_after": 1}
    limiter.check("globex", 2.0, 3)
    now[0] = 0.5
    limiter.check("acme", 2.0, 3)
    limiter.check("acme", None, 3)


def test_a_slow_reader_is_dropped_with_a_reason_and_its_queue_with_it() -> None:
    async def read() -> tuple[list[EncodedEvent], str | None]:
        stream = Stream("acme", "key")
        for number in range(MOST_QUEUED + 1):
            stream.put(EncodedEvent(Event(number, 0.0, EventKind.DONE, "acme", "x", {})))
        stream.put(EncodedEvent(Event(9, 0.0, EventKind.DONE, "acme", "x", {})))
        return await stream.take(1.0), stream.end

    assert asyncio.run(read()) == ([], "too-slow")


def test_a_customer_is_not_told_who_works_and_who_decided() -> None:
    told = EncodedEvent(
        Event(7, 0.0, EventKind.CLAIMED, "acme", "x", {"worker": "w", "fence": 1}, "anna")
    )
    assert b"anna" in told.text(for_operator=True)
    assert b'"worker":"w"' in told.text(for_operator=True)
    shown = told.text(for_operator=False)
    assert shown.startswith(b"id: 7\nevent: claimed\ndata: {")
    assert b"anna" not in shown
    assert b"worker" not in shown


def test_keys_tell_their_id_and_nothing_else() -> None:
    key, id_ = new_key()
    assert id_of(key) == id_
    assert matches(key, sha256_of(key))
    assert not matches(new_key()[0], sha256_of(key))
    assert id_of("fl_short_x") is None
    assert time_of(new_id(1234.567)) == 1234.567


def test_offers_are_kept_or_refused_each_as_a_whole(tmp_path: Path) -> None:
    with Fairlead(tmp_path, settings={"bytes_a_day": 400_000}) as fairlead:
        offers = []
        for number in range(8):
            file = fairlead.intake.begin()
            size = {3: 400_000, 6: 100_000}.get(number, 10)
            for _ in range(2):
                if file.add(b"%d" % number * (size // 2)):
                    file.flush()
            offers.append(Offer("acme", [(file, f"{number}.txt")]))
        answers = fairlead.intake.accept_each(offers)
        refused = [number for number, each in enumerate(answers) if isinstance(each, Exception)]
        assert refused == [3]
        accepted = [each[0] for each in answers if isinstance(each, list)]
        assert [each.count for each in accepted] == list(range(0, -7, -1))
        assert fairlead.original(accepted[4].id) == b"5" * 10
        files = [each for each in (tmp_path / "files").rglob("*") if each.is_file()]
        assert [each.name for each in files] == [accepted[5].id]
        assert fairlead.original(accepted[5].id) == b"6" * 100_000


def test_who_waits_with_a_key_that_is_revoked_meanwhile_is_not_answered(tmp_path: Path) -> None:
    async def wait(fairlead: Fairlead) -> httpx.Response:
        context = ServerContext(fairlead)
        key, made = fairlead.keys.add("acme")
        document = fairlead.submit("acme", b"nobody works")
        line = httpx.ASGITransport(create_app(context))
        async with httpx.AsyncClient(transport=line, base_url="http://test") as client:
            waiting = asyncio.ensure_future(
                client.get(
                    f"/v1/documents/{document.id}",
                    params={"wait": 30},
                    headers={"Authorization": f"Bearer {key}"},
                )
            )
            while document.id not in context.event_feed._waiters:
                await asyncio.sleep(0)
            fairlead.keys.revoke(made.id)
            context.auth.revoked(made.id)
            answer = await waiting
        context.close()
        return answer

    with Fairlead(tmp_path) as fairlead:
        problem(asyncio.run(wait(fairlead)), "unauthorised", 401)


def test_the_watcher_outlives_whatever_goes_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else nobody would hear of anything, and no revocation would be known."""
    monkeypatch.setattr("fairlead.server.event_feed.PAUSE_SECONDS", 0.0)

    async def heard(fairlead: Fairlead) -> Any:
        found: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
        event_feed = EventFeed(fairlead)
        event_feed.listen(lambda events: None if found.done() else found.set_result(events[0]))
        wrong = iter([apsw.IOError("disk I/O error"), MemoryError(), RuntimeError("no thread")])
        real = fairlead.store.changes.version

        def version() -> int:
            for each in wrong:
                raise each
            return real()

        monkeypatch.setattr(fairlead.store.changes, "version", version)
        event_feed.open()
        fairlead.customers.add("acme")
        try:
            return await asyncio.wait_for(found, PATIENT)
        finally:
            event_feed.close()

    with Fairlead(tmp_path) as fairlead:
        assert asyncio.run(heard(fairlead)).customer == "acme"


def test_a_session_of_a_key_that_is_revoked_meanwhile_never_begins(tmp_path: Path) -> None:
    async def log_in(fairlead: Fairlead) -> str | None:
        context = ServerContext(fairlead)
        key, made = fairlead.keys.add("acme")
        find = context.auth._find

        async def found(id_: str) -> Any:
            known = await find(id_)
            if not fairlead.store.key(id_).is_revoked:
                fairlead.keys.revoke(made.id)
                context.auth.revoked(made.id)
            return known

        context.auth._find = found  # type: ignore[method-assign]
        try:
            return await context.auth.login_with_key(key)
        finally:
            context.close()

    with Fairlead(tmp_path) as fairlead:
        assert asyncio.run(log_in(fairlead)) is None


def test_a_key_that_was_read_while_one_was_revoked_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be the very one: what was read may be older than the revocation."""

    async def look_twice(fairlead: Fairlead) -> list[bool]:
        context = ServerContext(fairlead)
        _, made = fairlead.keys.add("acme")
        read = fairlead.store.stored_key

        def read_too_early(id_: str) -> Any:
            found = read(id_)
            if not found.key.is_revoked:
                fairlead.keys.revoke(id_)
                context.auth.revoked(id_)
            return found

        monkeypatch.setattr(fairlead.store, "stored_key", read_too_early)
        caller = Caller(made.id, "acme")
        try:
            return [await context.auth.is_revoked(caller) for _ in range(2)]
        finally:
            context.close()

    with Fairlead(tmp_path) as fairlead:
        assert asyncio.run(look_twice(fairlead)) == [False, True]


def test_a_stream_of_a_key_that_was_revoked_before_it_listened_ends(tmp_path: Path) -> None:
    async def listen(fairlead: Fairlead) -> list[bytes]:
        context = ServerContext(fairlead)
        _, made = fairlead.keys.add("acme")
        fairlead.keys.revoke(made.id)
        context.auth.revoked(made.id)
        stream = EventStream(context, Caller(made.id, "acme"), "acme", 0, begins_now=True)
        async with asyncio.timeout(PATIENT):
            found = [piece async for piece in stream.contents()]
        context.close()
        return found

    with Fairlead(tmp_path) as fairlead:
        assert b"revoked" in asyncio.run(listen(fairlead))[-1]


def test_an_upload_that_fails_for_whatever_reason_is_let_go_of(tmp_path: Path) -> None:
    async def send(fairlead: Fairlead) -> httpx.Response:
        context = ServerContext(fairlead)
        key, _ = fairlead.keys.add("acme")

        async def fail(caller: Caller) -> None:
            raise StoreBusy(f"{caller.customer} came while another process held the lock")

        context.auth.check_again = fail  # type: ignore[method-assign]
        line = httpx.ASGITransport(create_app(context))
        async with httpx.AsyncClient(transport=line, base_url="http://test") as client:
            answer = await client.post(
                "/v1/documents",
                files=[("file", bytes(500_000)), ("file", bytes(3_000_000))],
                headers={"Authorization": f"Bearer {key}"},
            )
        context.close()
        return answer

    with Fairlead(tmp_path) as fairlead:
        problem(asyncio.run(send(fairlead)), "unavailable", 503)
        probe = fairlead.intake.begin()
        assert not probe.add(bytes(PIECE_BYTES - 1))
        assert cast("Any", probe)._memory._left == MEMORY_BYTES - PIECE_BYTES + 1
    assert not [each for each in (tmp_path / "files").rglob("*") if each.is_file()]


def test_a_request_knows_nothing_of_who_asked_before_it(tmp_path: Path) -> None:
    """One that came behind another on the same connection begins in that one's task."""
    known: list[str | None] = []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        known.append(ASKED_BY.get())
        ASKED_BY.set("acme")
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    async def ask(context: ServerContext) -> None:
        line = httpx.ASGITransport(RequestGuard(app, context))
        async with httpx.AsyncClient(transport=line, base_url="http://test") as client:
            for _ in range(2):
                await client.get("/")
        context.close()

    with Fairlead(tmp_path) as fairlead:
        asyncio.run(ask(ServerContext(fairlead)))
    assert known == [None, None]


def test_what_is_discarded_leaves_nothing(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        file = fairlead.intake.begin()
        file.add(b"x" * 100_000)
        file.flush()
        for _ in range(2):
            file.discard()
        assert not [each for each in (tmp_path / "files").rglob("*") if each.is_file()]


def test_an_upload_that_is_cut_off_is_not_closed_while_it_is_written(tmp_path: Path) -> None:
    """Its descriptor might be another file's by then."""
    steps: list[str] = []
    begun, may_end = threading.Event(), threading.Event()

    class Slow:
        def flush(self) -> None:
            begun.set()
            may_end.wait()
            steps.append("flushed")

    async def cut_off() -> None:
        with Fairlead(tmp_path) as fairlead:
            context = ServerContext(fairlead)
            task = asyncio.ensure_future(_flushed(context, cast("Any", Slow())))
            await asyncio.to_thread(begun.wait)
            task.cancel()
            await asyncio.sleep(0)
            may_end.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            steps.append("cut off")

    asyncio.run(cut_off())
    assert steps == ["flushed", "cut off"]


@pytest.mark.parametrize("has_begun", [False, True])
def test_what_is_cut_off_when_the_server_stops_is_told_to_come_again(
    tmp_path: Path, *, has_begun: bool
) -> None:
    start = {"type": "http.response.start", "status": 200, "headers": []}

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        if has_begun:
            await send(start)
        raise asyncio.CancelledError

    async def ask() -> list[ASGIMessage]:
        sent: list[ASGIMessage] = []

        async def send(message: ASGIMessage) -> None:
            sent.append(message)

        async def receive() -> ASGIMessage:
            return {"type": "http.request"}

        scope = {"type": "http", "method": "GET", "path": "/livez"}
        with Fairlead(tmp_path) as fairlead:
            guard = RequestGuard(app, ServerContext(fairlead))
            await guard({**scope, "query_string": b"", "headers": []}, receive, send)
        return sent

    sent = asyncio.run(ask())
    if has_begun:
        assert [each["type"] for each in sent] == ["http.response.start"]
        return
    assert sent[0]["status"] == 503
    assert {(b"retry-after", b"5"), (b"connection", b"close")} <= set(sent[0]["headers"])
    assert b"urn:fairlead:problem:unavailable" in sent[1]["body"]

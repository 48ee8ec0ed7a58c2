"""Lost connections, servers that stop, and rate limits: what is sent again, and what is not."""

from __future__ import annotations

import io
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest
from apikit import Served, served
from canned_server import saying
from clientkit import Connect
from cutting_proxy import cut

from fairlead import Client, errors
from fairlead.client.transport import Retry
from fairlead.model.states import State


@pytest.fixture
def operator(server: Served) -> Iterator[Client]:
    with Client(server.url, (server.data / "operator.key").read_text()) as client:
        yield client


def test_waiting_has_an_end_also_where_the_server_does_not_answer(data: Path) -> None:
    with served(data, "--workers", "0") as server:
        key = server.key("acme")
        with Client(server.url, key, timeout=3600, patience=3600) as client:
            document = client.submit(b"nobody works")
            server.process.send_signal(signal.SIGSTOP)
            with pytest.raises(errors.NotReady, match="did not answer in time") as caught:
                client.wait(document, timeout=0.1)
            assert caught.value.__cause__ is not None
            server.process.kill()
            server.process.wait()
            with pytest.raises(errors.NotReady, match="cannot be reached"):
                client.wait(document, timeout=0.1)


def test_who_was_never_reached_is_said_at_once_whatever_time_there_is() -> None:
    with Client("http://127.0.0.1:1", "fl_key") as client:
        for timeout in (0, 3600):
            with pytest.raises(errors.NoConnection):
                client.wait("x", timeout=timeout)


def test_waiting_has_an_end_also_for_who_is_too_fast(
    server: Served, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = server.key("hasty")  # before the clock stands still: it may wait for a lock
    now, slept = time.monotonic(), list[float]()
    monkeypatch.setattr("fairlead.client.transport.time.monotonic", lambda: now + sum(slept))
    monkeypatch.setattr("fairlead.client.sync.time.sleep", slept.append)
    with Client(server.url, key) as client:
        ended = client.cancel(client.submit(b"x").id)
        operator.customers.set("hasty", requests_a_second=0.05, requests_burst=1)
        assert client.me().customer == "hasty"
        with pytest.raises(errors.NotReady, match="no answer in time"):
            client.wait(ended, timeout=0.2)
    assert sum(slept) == pytest.approx(0.2)


def test_who_is_too_fast_is_slowed_down_not_refused(server: Served, operator: Client) -> None:
    warnings: list[str] = []
    with Client(server.url, server.key("fast"), on_trouble=warnings.append) as client:
        operator.customers.set("fast", requests_a_second=2, requests_burst=1)
        assert [client.me().customer for _ in range(2)] == ["fast", "fast"]
    assert len(warnings) == 1


def test_an_answer_that_was_lost_is_asked_for_again_and_nothing_is_done_twice(
    server: Served, connect: Connect
) -> None:
    lost = iter([True])

    def cuts(piece: bytes) -> bool:
        return b" 202 " in piece and next(lost, False)

    warnings: list[str] = []
    with (
        cut(server.port, cuts) as line,
        connect(
            line.url, server.key(f"twice {connect.__name__}"), on_trouble=warnings.append
        ) as client,
    ):
        document = client.submit(b"only once")
        assert [listed.id for listed in client.documents()] == [document.id]
        assert client.submit(b"only once").count == -1
    assert (line.lost, len(warnings)) == (1, 1)


def test_what_can_be_read_only_once_is_not_sent_twice(server: Served) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"gone after this")
    os.close(writing)
    with (
        cut(server.port, lambda piece: b" 202 " in piece) as line,
        Client(line.url, server.key("pipe")) as client,
        os.fdopen(reading, "rb") as pipe,
        pytest.raises(errors.NoConnection, match="read only once") as caught,
    ):
        client.submit(pipe)
    with Client(server.url, server.key("pipe")) as client:
        again = client.submit(
            b"gone after this",
            idempotency_key=caught.value.idempotency_key,
        )
        assert [document.id for document in client.documents()] == [again.id]


def test_what_can_be_read_only_once_is_not_read_in_vain_by_who_is_too_fast(
    server: Served, operator: Client
) -> None:
    key = server.key("hasty pipe")
    operator.customers.set("hasty pipe", requests_a_second=0.001, requests_burst=1)
    with Client(server.url, key) as client:
        client.me()
        with pytest.raises(errors.TooManyRequests) as caught:
            client.submit(Pipe(b"content"))
    assert caught.value.retry_after


class Pipe(io.BytesIO):
    """Bytes that cannot be read again."""

    def seekable(self) -> bool:
        return False


def test_a_retry_whose_answer_was_lost_is_done_once(server: Served) -> None:
    answers: list[bytes] = []

    def cuts(piece: bytes) -> bool:
        if piece.startswith(b"HTTP/"):  # its body may be a piece of its own
            answers.append(piece)
        return len(answers) == 2

    with Client(server.url, server.key("again")) as client:
        failed = client.wait(client.submit(b"\0\1\2"))
        assert failed.state is State.FAILED
        with (
            cut(server.port, cuts) as line,
            Client(line.url, server.key("again")) as other,
        ):
            other.me()
            with pytest.raises(errors.NoConnection, match="may have been done, so look before"):
                other.retry(failed.id)
        client.wait(failed)
        kinds = [event.kind.value for event in islice(client.events(after=0), 9)]
    assert kinds.count("again") == 1


def test_keys_are_not_made_twice(server: Served, operator: Client) -> None:
    with (
        cut(server.port, lambda piece: b" 201 " in piece) as line,
        Client(line.url, (server.data / "operator.key").read_text()) as client,
    ):
        client.me()
        with pytest.raises(errors.NoConnection, match="may have been done, so look before"):
            client.keys.add("once")
    assert line.lost == 1
    assert len(operator.keys.list("once")) == 1


def test_a_download_goes_on_where_it_broke_off(server: Served, connect: Connect) -> None:
    content = os.urandom(3_000_000)
    seen = {"bytes": 0, "cuts": 0}

    def cuts(piece: bytes) -> bool:
        seen["bytes"] += len(piece)
        if seen["bytes"] > 1_000_000 * (seen["cuts"] + 1) and seen["cuts"] < 2:
            seen["cuts"] += 1
            return True
        return False

    with (
        cut(server.port, cuts) as line,
        connect(line.url, server.key(f"broken {connect.__name__}")) as client,
    ):
        document = client.submit(content)
        assert client.original(document.id) == content
    assert line.lost == 2


def test_events_go_on_without_gap_or_repeat(server: Served, connect: Connect) -> None:
    broken = iter([False, True, False, True])
    key = server.key(f"listener {connect.__name__}")

    def cuts(piece: bytes) -> bool:
        return b"event: done" in piece and next(broken, False)

    with cut(server.port, cuts) as line, connect(line.url, key) as client:
        sent = [client.wait(client.submit(b"x")).id for _ in range(5)]
        events = client.events(after=0)
        kinds = [next(events).kind.value for _ in range(2 + 3 * 5)]
    assert kinds == ["customer-added", "key-added", *["submitted", "claimed", "done"] * 5]
    assert len(sent) == 5


def test_events_that_begin_now_miss_nothing_after_a_break(server: Served) -> None:
    key = server.key("quiet")
    cuts_left = iter([True])
    ready = threading.Event()

    def cuts(piece: bytes) -> bool:
        if b"id: " not in piece:
            return False
        ready.set()
        return b"event: submitted" in piece and next(cuts_left, False)

    def read(events: Iterator[Any], seen: list[str]) -> None:
        seen += [next(events).kind.value for _ in range(3)]

    with cut(server.port, cuts) as line, Client(line.url, key) as client:
        events, seen = client.events(), list[str]()
        reader = threading.Thread(target=read, args=(events, seen))
        reader.start()
        assert ready.wait(30)
        with Client(server.url, key) as other:
            other.wait(other.submit(b"while it listens"))
        reader.join(30)
    assert seen == ["submitted", "claimed", "done"]
    assert line.lost == 1


def test_events_go_on_through_any_number_of_breaks(server: Served) -> None:
    """Also when nothing happens for longer than patience lasts."""
    started = threading.Semaphore(0)

    def passed(piece: bytes) -> None:
        if b"retry:" in piece:
            started.release()

    with (
        cut(server.port, passed=passed) as line,
        Client(line.url, server.key("long quiet"), patience=0.25) as client,
    ):
        seen: list[str] = []
        events = client.events()
        reader = threading.Thread(target=lambda: seen.append(next(events).kind.value))
        reader.start()
        for _ in range(4):
            assert started.acquire(timeout=30)
            line.hang_up()
        assert started.acquire(timeout=30)
        client.submit(b"x")
        reader.join(30)
    assert seen == ["submitted"]


def test_patience_is_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    with Client("http://127.0.0.1:1", "fl_key", patience=3.0) as client:
        client._transport.was_reached = True
        with pytest.raises(errors.NoConnection):
            client.me()
    assert clock[0] == pytest.approx(3.0)


@pytest.mark.parametrize(("status", "after", "seconds"), [(503, "7", 7.0), (502, "", 0.1)])
def test_a_proxy_says_when_to_try_again(status: int, after: str, seconds: float) -> None:
    request = httpx.Request("GET", "http://127.0.0.1:1/v1/me")
    response = httpx.Response(status, headers={"Retry-After": after}, request=request)
    error = httpx.HTTPStatusError("", request=request, response=response)
    with Client("http://127.0.0.1:1", "fl_key") as client:
        assert Retry(client._transport).pause(error) == seconds
        for settings in ({"idempotent": False}, {"can_be_sent": lambda: False}):
            with pytest.raises(errors.ServerFailed):
                Retry(client._transport, **settings).pause(error)


def test_a_server_that_restarts_is_waited_for(data: Path) -> None:
    with served(data, "--workers", "0") as first:
        key, port = first.key("acme"), first.port
        client = Client(first.url, key, patience=600)
        document = client.submit(b"patience")
        states: list[State] = []
        waiter = threading.Thread(target=lambda: states.append(client.wait(document).state))
        waiter.start()
        first.process.kill()
        first.process.wait()
        with served(data, "--workers", "1", "--port", str(port)):
            waiter.join(60)
    client.close()
    assert states == [State.DONE]


def test_nobody_there_is_said_at_once_and_so_is_patience_at_its_end(data: Path) -> None:
    with served(data, "--workers", "0") as server:
        key = server.key("acme")
        client = Client(server.url, key, patience=0.2)
        document = client.submit(b"x")
    with pytest.raises(errors.NoConnection, match="cannot be reached"):
        client.wait(document)
    client.close()
    with (
        Client(server.url, key, patience=3600) as never,
        pytest.raises(errors.NoConnection, match="is the server running"),
    ):
        never.me()


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.retry("x"),
        lambda client: client.webhooks.test("x"),
        lambda client: client.webhooks.retry("x"),
    ],
)
def test_what_may_have_been_done_is_not_to_be_tried_again_unseen(call: Any) -> None:
    with (
        saying(b"") as url,
        Client(url, "fl_key") as client,
        pytest.raises(errors.NoConnection, match="may have been done, so look before"),
    ):
        call(client)


def test_an_answer_that_is_late_may_stand_for_what_was_done() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        Client(f"http://127.0.0.1:{silent.getsockname()[1]}", "fl_key", timeout=0.05) as client,
        pytest.raises(errors.NoConnection, match="did not answer in time; it may have been done"),
    ):
        client.keys.add("acme")


def test_what_never_arrived_was_not_done() -> None:
    with (
        Client("http://127.0.0.1:1", "fl_key") as client,
        pytest.raises(errors.NoConnection, match="is the server running"),
    ):
        client.keys.add("acme")


def test_every_error_of_a_submission_has_its_key() -> None:
    answer = b"HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 0\r\n\r\n"
    with (
        saying(answer) as url,
        Client(url, "fl_key", patience=0.0) as client,
        pytest.raises(errors.ServerFailed) as caught,
    ):
        client.submit(b"x")
    assert caught.value.idempotency_key

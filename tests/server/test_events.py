"""Server-sent events, against a real server process."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from apikit import PATIENT, Served, problem, served, upload

from fairlead import Fairlead
from fairlead.model.keys import id_of
from fairlead.server.event_feed import MOST_QUEUED


@contextmanager
def stream(client: httpx.Client, **params: Any) -> Iterator[Iterator[dict[str, Any]]]:
    headers = params.pop("headers", {})
    with client.stream("GET", "/v1/events", params=params, headers=headers) as answer:
        assert answer.status_code == 200
        yield _events(answer.iter_lines())


def _events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line.startswith("data: "):
            yield json.loads(line[6:])


def take(events: Iterator[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    return [next(events) for _ in range(number)]


@pytest.mark.parametrize("role", ["service", "operator"])
def test_the_stream_of_a_customer_begins_before_its_first_document(
    server: Served, role: str
) -> None:
    with Fairlead(server.data) as fairlead:
        key = fairlead.keys.add(**({} if role == "operator" else {"service": "backend"}))[0]
    with server.client(key) as backend, stream(backend, customer=f"new-of-{role}") as events:
        upload(server.customer(f"other-of-{role}"), b"x")
        sent = upload(backend, b"y", data={"customer": f"new-of-{role}"}).json()
        seen = take(events, 2)
    assert [event["kind"] for event in seen] == ["customer-added", "submitted"]
    assert {event["customer"] for event in seen} == {f"new-of-{role}"}
    assert seen[1]["document"] == sent["id"]


def test_past_events_of_an_unknown_customer_are_refused(server: Served) -> None:
    answer = server.operator.get("/v1/events", params={"customer": "nobody", "follow": False})
    problem(answer, "unknown-customer", 404)
    for name in ("", "a/b"):
        answer = server.operator.get("/v1/events", params={"customer": name})
        problem(answer, "invalid-request", 400)


def test_a_customer_sees_its_own_events_only(server: Served) -> None:
    ours, theirs = server.customer("ours"), server.customer("theirs")
    with stream(ours, after=0) as events:
        upload(theirs, b"x")
        id_ = upload(ours, b"y").json()["id"]
        seen = take(events, 5)
    assert [event["kind"] for event in seen] == [
        *("customer-added", "key-added", "submitted", "claimed", "done"),
    ]
    assert seen[-1]["document"] == id_
    assert {event["customer"] for event in seen} == {"ours"}
    assert "worker" not in str(seen)
    problem(ours.get("/v1/events", params={"customer": "theirs"}), "forbidden", 403)
    problem(ours.get("/v1/events", params={"customer": "nobody"}), "forbidden", 403)
    with stream(server.operator, after=0, customer="theirs") as events:
        assert {event["customer"] for event in take(events, 3)} == {"theirs"}


def test_going_on_after_an_event_has_no_gap_and_no_repeat(server: Served) -> None:
    client = server.customer("goes-on")
    upload(client, *[b"x"] * 20)
    seen: list[int] = []
    while len(seen) < 63:
        headers = {"Last-Event-ID": str(seen[-1])} if seen else {"Last-Event-ID": "0"}
        with stream(client, headers=headers) as events:
            seen += [event["seq"] for event in take(events, min(7, 63 - len(seen)))]
    with Fairlead(server.data) as fairlead:
        assert seen == [event.seq for event in fairlead.store.events(customer="goes-on")]
    for wrong in ("x", "-1", "9" * 5000):
        problem(client.get("/v1/events", headers={"Last-Event-ID": wrong}), "invalid-request", 400)


def test_a_number_that_no_event_has_yet_is_as_none(server: Served) -> None:
    client = server.customer("restored")
    with stream(client, headers={"Last-Event-ID": "99999999"}) as events:
        server.operator.post("/v1/customers/restored/pause")
        assert any(event["kind"] == "customer-paused" for event in events)


@pytest.mark.parametrize("over_http", [True, False])
def test_the_streams_of_a_revoked_key_end_and_no_others(server: Served, over_http: bool) -> None:
    key = server.key("loses-a-key")
    other = server.customer("loses-a-key")
    with stream(server.client(key)) as events, stream(other) as others:
        if over_http:
            server.operator.delete(f"/v1/keys/{id_of(key)}").raise_for_status()
        else:
            with Fairlead(server.data) as fairlead:
                fairlead.keys.revoke(str(id_of(key)))
        assert list(events)[-1] == {"reason": "revoked"}
        upload(other, b"x")
        assert any(other.get("kind") == "submitted" for other in others)


def test_without_a_number_a_stream_begins_now(server: Served) -> None:
    client = server.customer("now")
    upload(client, b"before")
    with stream(client) as events:
        server.operator.post("/v1/customers/now/pause")
        assert any(event["kind"] == "customer-paused" for event in events)


@pytest.mark.full
def test_five_hundred_streams_at_once(data: Path) -> None:
    with served(data, "--workers", "0") as server:
        client = server.customer("many")
        head = (
            b"GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: "
            + client.headers["authorization"].encode()
            + b"\r\n\r\n"
        )
        connections = []
        try:
            for _ in range(500):
                connection = socket.create_connection(("127.0.0.1", server.port), PATIENT)
                connections.append(connection)
                connection.sendall(head)
            for connection in connections:
                until(connection, b"retry: 1000")
            while "fairlead_http_streams 500.0" not in client.get("/metrics").text:
                pass
            id_ = upload(client, b"x").json()["id"].encode()
            for connection in connections:
                until(connection, id_)
        finally:
            for connection in connections:
                connection.close()
        assert upload(client, b"y").status_code == 202


def until(connection: socket.socket, text: bytes) -> None:
    received = b""
    while text not in received:
        chunk = connection.recv(65_536)
        assert chunk, received
        received += chunk


def test_a_stream_ends_with_a_reason_when_the_server_stops(data: Path) -> None:
    with served(data, "--workers", "0") as server, stream(server.operator) as events:
        server.process.terminate()
        assert next(events) == {"reason": "stopping"}
        assert server.process.wait(PATIENT) == 0


def test_a_slow_reader_is_dropped_with_a_reason_and_others_are_not(data: Path) -> None:
    long_one = tuple(range(-1, -5001, -1))  # some 29 kB in every event
    with Fairlead(data) as fairlead:
        fairlead.customers.add("acme")  # before the server starts, so that no stream has the event
        with (
            served(data, "--workers", "0") as server,
            slow_reader(server) as slow,
            stream(server.operator) as events,
        ):
            for _ in range(200):  # more than the network buffers
                fairlead.customers.set("acme", thresholds=long_one)
            assert [event["kind"] for event in take(events, 200)] == ["customer-set"] * 200
            for _ in range(5):  # in portions that a quick reader can follow
                fairlead.submit_many("acme", [b"x"] * 500)
                assert [event["kind"] for event in take(events, 500)] == ["submitted"] * 500
            got = read_all(slow)
            fairlead.customers.pause("acme")
            assert take(events, 1)[0]["kind"] == "customer-paused"
    assert got.endswith(b'event: end\ndata: {"reason": "too-slow"}\n\n\r\n0\r\n\r\n')
    assert got.count(b"event: ") < 2700 - MOST_QUEUED


@contextmanager
def slow_reader(server: Served) -> Iterator[socket.socket]:
    """A connection with a stream of which only the beginning has been read."""
    authorization = server.operator.headers["authorization"]
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(PATIENT)
        connection.connect(("127.0.0.1", server.port))
        head = f"GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\n\r\n"
        connection.sendall(head.encode())
        got = b""
        while b"id: " not in got:
            got += connection.recv(4096)
        yield connection


def read_all(connection: socket.socket) -> bytes:
    pieces = []
    while piece := connection.recv(1 << 20):
        pieces.append(piece)
        if piece.endswith(b"\r\n0\r\n\r\n"):
            break
    return b"".join(pieces)

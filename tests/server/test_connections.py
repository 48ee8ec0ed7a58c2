"""Connections: limits on headers, keep-alive after a refusal, readers that leave or do not read."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import httpx
import pytest
from apikit import PATIENT, Served, answer_on, raw_problem, served, upload
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from fairlead.server.connection_limits import MAX_BYTES_BETWEEN_REQUESTS, LimitedConnection
from fairlead.server.server import READER_TIMEOUT_MS, bound_socket, server_config

LIVE = b"GET /livez HTTP/1.1\r\nHost: x\r\n"
BODY = (
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    b"content\r\n--x--\r\n"
)


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that waits half a second for headers."""
    data = tmp_path_factory.mktemp("hasty") / "data"
    with served(data, "--workers", "0", request_timeout=0.5) as running:
        yield running


def connected(server: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), PATIENT)


def head_of(method: str, path: str, client: httpx.Client) -> bytes:
    key = client.headers["authorization"]
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {key}\r\n".encode()


def upload_of(client: httpx.Client) -> bytes:
    about = f"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: {len(BODY)}\r\n\r\n"
    return head_of("POST", "/v1/documents", client) + about.encode() + BODY


@pytest.mark.parametrize("sent", [b"", LIVE], ids=["nothing", "half of the headers"])
def test_headers_that_do_not_arrive_in_time_end_the_connection(hasty: Served, sent: bytes) -> None:
    with connected(hasty) as connection:
        connection.sendall(sent)
        assert connection.recv(1) == b""


def test_headers_of_a_later_request_must_arrive_in_time_too(hasty: Served) -> None:
    with connected(hasty) as connection:
        connection.sendall(LIVE + b"\r\n")
        assert answer_on(connection).startswith(b"HTTP/1.1 200 ")
        connection.sendall(LIVE)
        assert connection.recv(1) == b""


def test_headers_without_end_do_not_fill_the_memory(server: Served) -> None:
    before = server.memory()
    with connected(server) as connection, pytest.raises(ConnectionError):
        connection.sendall(LIVE + b"X-Long: " + b"x" * 100 * MAX_BYTES_BETWEEN_REQUESTS)
    assert server.memory() - before < 20 * MAX_BYTES_BETWEEN_REQUESTS


def test_bodies_do_not_count_as_headers(server: Served) -> None:
    client = server.customer("long")
    for _ in range(3):  # over one connection
        assert upload(client, b"x" * 2 * MAX_BYTES_BETWEEN_REQUESTS).status_code == 202


class Transport(asyncio.Transport):
    is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True

    def pause_reading(self) -> None:
        pass

    def close(self) -> None:
        pass


class SteppedLoop(asyncio.SelectorEventLoop):
    """An event loop whose time the test sets."""

    now = 0.0

    def time(self) -> float:
        return self.now

    async def step(self, seconds: float) -> None:
        """Let time pass, and run the timers that are due."""
        self.now += seconds
        for _ in range(2):
            await asyncio.sleep(0)


async def nothing(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """An application that answers nothing."""


def connection_over(transport: Transport) -> LimitedConnection:
    """A connection of a server that gives requests 20 s; it needs a running loop."""
    config = server_config(nothing, 20)
    config.load()
    connection = LimitedConnection(20, 9, config=config, server_state=ServerState(), app_state={})
    connection.connection_made(transport)
    return connection


def test_bodies_do_not_count_as_headers_when_the_request_before_ends_late() -> None:
    async def overlap() -> bool:
        transport = Transport()
        connection = connection_over(transport)
        connection.request_began()
        connection.request_began()  # the next one
        connection.request_ended()  # of the first one
        size = 2 * MAX_BYTES_BETWEEN_REQUESTS
        head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n"
        connection.data_received(head.encode() + bytes(size))
        connection.connection_lost(None)
        return transport.is_aborted

    assert asyncio.run(overlap()) is False


def test_each_piece_of_a_body_has_the_whole_time() -> None:
    async def upload_slowly(loop: SteppedLoop) -> list[float]:
        transport, cancelled = Transport(), list[float]()
        connection = connection_over(transport)
        connection.request_began()
        for _ in range(5):
            connection.body_awaited(lambda: cancelled.append(loop.now))
            await loop.step(19)
            connection.body_arrived()
        await loop.step(100)  # the server works
        connection.body_awaited(lambda: cancelled.append(loop.now))
        await loop.step(19)
        assert connection.is_awaiting_body
        await loop.step(1)
        assert not connection.is_awaiting_body
        await loop.step(100)
        connection.connection_lost(None)
        assert not transport.is_aborted
        return cancelled

    loop = SteppedLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        assert runner.run(upload_slowly(loop)) == [5 * 19 + 100 + 20]


def test_a_request_that_takes_longer_than_headers_may_is_served(hasty: Served) -> None:
    client = hasty.customer("waits")
    id_ = upload(client, b"x").json()["id"]
    assert client.get(f"/v1/documents/{id_}", params={"wait": 2}).json()["state"] == "waiting"


def test_the_connection_stays_after_a_refused_upload(server: Served) -> None:
    good, bad = server.customer("stays"), server.client("nonsense")
    with connected(server) as connection:
        connection.sendall(upload_of(bad))
        raw_problem(answer_on(connection), "unauthorised", 401)
        connection.sendall(upload_of(good))
        assert answer_on(connection).startswith(b"HTTP/1.1 202 ")


def test_an_upload_is_refused_before_it_is_read(server: Served) -> None:
    about = b"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 9000000000\r\n\r\n"
    for client, kind, status in [
        (server.client("nonsense"), "unauthorised", 401),
        (server.customer("large"), "too-large", 413),
    ]:
        with connected(server) as connection:
            connection.sendall(head_of("POST", "/v1/documents", client) + about)
            raw_problem(answer_on(connection), kind, status)


def test_requests_behind_one_another_are_answered_in_turn(server: Served) -> None:
    client = server.customer("pipelined")
    with connected(server) as connection:
        connection.sendall(upload_of(client) + upload_of(server.client("nonsense")) + LIVE)
        connection.sendall(b"Connection: close\r\n\r\n")
        answers = b"".join(iter(lambda: connection.recv(65_536), b""))
    statuses = [part[:3] for part in answers.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"202", b"401", b"200"]


def test_a_reader_that_has_gone_is_noticed_with_the_next_event(server: Served) -> None:
    client, number = server.customer("goes"), "fairlead_http_streams 0.0"
    with connected(server) as connection:
        connection.sendall(head_of("GET", "/v1/events", client) + b"\r\n")
        got = b""
        while b"id: " not in got:
            got += connection.recv(65_536)
    while number not in server.operator.get("/metrics").text:
        upload(client, b"x")


def test_a_reader_that_takes_nothing_is_cut_off_by_the_kernel() -> None:
    with bound_socket("127.0.0.1", 0) as listener, socket.socket() as client:
        client.connect(listener.getsockname())
        accepted, _ = listener.accept()
        with accepted:
            limit = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        assert limit == READER_TIMEOUT_MS


def test_every_response_has_a_request_id(server: Served) -> None:
    ids = {server.operator.get("/livez").headers["x-request-id"] for _ in range(3)}
    assert len(ids) == 3
    own = server.operator.get("/livez", headers={"X-Request-ID": "order-7"})
    assert own.headers["x-request-id"] == "order-7"
    odd = server.operator.get("/v1/nothing", headers={"X-Request-ID": "a b"})
    assert odd.headers["x-request-id"] != "a b"

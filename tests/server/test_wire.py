"""The wire: trailers, requests behind one another, and connections that end too early."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from apikit import PATIENT, Served, answer_on, raw_problem, served, upload

from fairlead.server.protocol import MOST_HEADER_BYTES

BODY = (
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    b"content\r\n--x--\r\n"
)
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
LIVE = b"GET /livez HTTP/1.1\r\nHost: x\r\n"
LAST = LIVE + b"Connection: close\r\n\r\n"


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with little patience."""
    data = tmp_path_factory.mktemp("hasty") / "data"
    with served(data, "--workers", "0", request_timeout=0.5) as running:
        yield running


@pytest.fixture
def head(server: Served, request: pytest.FixtureRequest) -> bytes:
    """Of an upload by a customer that no other test has."""
    return head_with(server.key(request.node.name[:60]))


@pytest.fixture
def line(server: Served) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), PATIENT) as opened:
        yield opened


@pytest.fixture
def hasty_line(hasty: Served) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", hasty.port), PATIENT) as opened:
        yield opened


def head_with(key: str) -> bytes:
    return (
        b"POST /v1/documents HTTP/1.1\r\nHost: x\r\n"
        b"Content-Type: multipart/form-data; boundary=x\r\n"
        b"Authorization: Bearer " + key.encode() + b"\r\n"
    )


def upload_of(head: bytes, body: bytes = BODY) -> bytes:
    return head + f"Content-Length: {len(body)}\r\n\r\n".encode() + body


def in_chunks(head: bytes, trailers: bytes) -> bytes:
    return head + CHUNKED + f"{len(BODY):x}\r\n".encode() + BODY + b"\r\n0\r\n" + trailers


def everything_on(line: socket.socket) -> bytes:
    """All that comes until the other side ends."""
    return b"".join(iter(lambda: line.recv(65_536), b""))


def answers_on(line: socket.socket) -> list[tuple[int, dict[str, Any]]]:
    """Status and content of each answer until the other side ends."""
    found = []
    rest = everything_on(line)
    while rest:
        head, _, rest = rest.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        found.append((int(head.split()[1]), json.loads(rest[:length])))
        rest = rest[length:]
    return found


def stored(server: Served, request: pytest.FixtureRequest) -> int:
    answer = server.operator.get("/v1/documents", params={"customer": request.node.name[:60]})
    return len(answer.json()["documents"])


def test_trailers_are_taken_and_not_kept(line: socket.socket, head: bytes) -> None:
    line.sendall(in_chunks(head, b"X-A: b\r\nAuthorization: none\r\n\r\n") + LAST)
    assert [status for status, _ in answers_on(line)] == [202, 200]


def test_trailers_without_end_do_not_fill_the_memory(server: Served, line: socket.socket) -> None:
    server.raw(LAST)
    before = server.memory()
    with suppress(ConnectionError):
        line.sendall(LIVE + CHUNKED + b"0\r\n")
        for _ in range(640):
            line.sendall((b"X-A: " + b"a" * 93 + b"\r\n") * 1000)
    assert server.memory() - before < 16_000_000


@pytest.mark.parametrize("trailer", [b"X-A: aaaa\r\n", b"a"], ids=["many", "one"])
def test_trailers_that_are_too_long(
    server: Served,
    line: socket.socket,
    head: bytes,
    trailer: bytes,
    request: pytest.FixtureRequest,
) -> None:
    line.sendall(in_chunks(head, b"X-B: "))
    line.sendall(trailer * (32 * MOST_HEADER_BYTES // len(trailer)))  # more than one read takes
    raw_problem(everything_on(line), "header-too-large", 431)
    assert stored(server, request) == 0


def test_trailers_that_are_too_long_after_the_answer_end_the_connection(
    line: socket.socket,
) -> None:
    line.sendall(LIVE + CHUNKED + b"0\r\n")
    assert answer_on(line).startswith(b"HTTP/1.1 200 ")
    line.sendall(b"X-A: aaaa\r\n" * MOST_HEADER_BYTES)
    assert everything_on(line) == b""


def test_trailers_that_do_not_end_are_given_up(hasty: Served, hasty_line: socket.socket) -> None:
    hasty_line.sendall(in_chunks(head_with(hasty.key("acme")), b"X-A: b\r\n"))
    raw_problem(answer_on(hasty_line), "too-slow", 408)


@pytest.mark.parametrize("rest", [CHUNKED + b"0\r\nX-A: b\r\n", b"Content-Length: 9000\r\n\r\nx"])
def test_a_request_that_goes_on_after_its_answer_must_end_in_time(
    hasty_line: socket.socket, rest: bytes
) -> None:
    hasty_line.sendall(LIVE + rest)
    assert answer_on(hasty_line).startswith(b"HTTP/1.1 200 ")
    assert everything_on(hasty_line) == b""


def test_a_request_that_ends_after_its_answer_is_followed_by_the_next(line: socket.socket) -> None:
    line.sendall(LIVE + CHUNKED + b"0\r\nX-A: ")
    assert answer_on(line).startswith(b"HTTP/1.1 200 ")
    line.sendall(b"b\r\n\r\n" + LAST)
    assert [status for status, _ in answers_on(line)] == [200]


def test_garbage_after_a_request_is_refused_after_its_answer(
    server: Served, line: socket.socket, head: bytes, request: pytest.FixtureRequest
) -> None:
    line.sendall(upload_of(head) * 2 + b"GARBAGE GARBAGE\r\n\r\n")
    *good, (status, refused) = answers_on(line)
    assert [status for status, _ in good] == [202, 202]
    assert (status, refused["type"]) == (400, "urn:fairlead:problem:invalid-request")
    assert stored(server, request) == 2


def test_the_broken_body_of_a_request_that_waits_its_turn(
    server: Served, line: socket.socket, head: bytes, request: pytest.FixtureRequest
) -> None:
    line.sendall(upload_of(head) + head + CHUNKED + b"no length\r\n" + upload_of(head))
    assert [status for status, _ in answers_on(line)] == [202, 400]
    assert stored(server, request) == 1


def test_what_follows_a_refused_request_is_not_done(
    server: Served, line: socket.socket, head: bytes, request: pytest.FixtureRequest
) -> None:
    long = LIVE + b"X-A: " + b"a" * MOST_HEADER_BYTES + b"\r\n\r\n"
    line.sendall(long + upload_of(head))
    raw_problem(everything_on(line), "header-too-large", 431)
    assert stored(server, request) == 0


def test_the_bytes_of_a_body_are_no_bytes_of_headers(line: socket.socket, head: bytes) -> None:
    body = BODY.replace(b"content", b"c" * 2 * MOST_HEADER_BYTES)
    line.sendall(upload_of(head, body) + LAST[:20])
    assert answer_on(line).startswith(b"HTTP/1.1 202 ")
    line.sendall(LAST[20:])
    assert [status for status, _ in answers_on(line)] == [200]


def test_headers_without_end_after_a_request(line: socket.socket, head: bytes) -> None:
    line.sendall(upload_of(head) + LIVE + b"X-A: ")
    assert answer_on(line).startswith(b"HTTP/1.1 202 ")
    line.sendall(b"a" * 2 * MOST_HEADER_BYTES)
    raw_problem(everything_on(line), "header-too-large", 431)


@pytest.mark.parametrize(
    "sent",
    [
        b"Content-Length: 9000\r\n\r\n" + BODY,
        CHUNKED + b"999\r\n" + BODY,
        in_chunks(b"", b"X-A: b\r\n"),
        b"X-A: b\r\n",
    ],
    ids=["length", "chunk", "trailers", "headers"],
)
def test_a_request_that_breaks_off_is_refused_if_it_can_be(
    server: Served, head: bytes, sent: bytes, request: pytest.FixtureRequest
) -> None:
    raw_problem(server.raw(head + sent, end=True), "invalid-request", 400)
    assert stored(server, request) == 0


def test_what_breaks_off_after_a_request_is_refused_after_its_answer(
    server: Served, line: socket.socket, head: bytes, request: pytest.FixtureRequest
) -> None:
    line.sendall(upload_of(head) + upload_of(head)[:-1])
    line.shutdown(socket.SHUT_WR)
    assert [status for status, _ in answers_on(line)] == [202, 400]
    assert stored(server, request) == 1


def test_what_breaks_off_after_its_answer_gets_no_second_one(line: socket.socket) -> None:
    line.sendall(LIVE + b"Content-Length: 9\r\n\r\n")
    assert answer_on(line).startswith(b"HTTP/1.1 200 ")
    line.shutdown(socket.SHUT_WR)
    assert everything_on(line) == b""


def test_who_says_no_more_gets_its_answer_and_then_the_end(
    server: Served, line: socket.socket, head: bytes, request: pytest.FixtureRequest
) -> None:
    line.sendall(upload_of(head))
    line.shutdown(socket.SHUT_WR)
    answer = everything_on(line)
    assert answer.startswith(b"HTTP/1.1 202 ")
    assert b"connection: close\r\n" in answer
    assert stored(server, request) == 1


def test_who_says_no_more_gets_all_answers_in_turn(line: socket.socket, head: bytes) -> None:
    line.sendall(LIVE + b"\r\n" + upload_of(head) + LIVE + b"\r\n")
    line.shutdown(socket.SHUT_WR)
    assert [status for status, _ in answers_on(line)] == [200, 202, 200]


def test_who_says_no_more_after_its_answer_gets_the_end(line: socket.socket) -> None:
    line.sendall(LIVE + b"\r\n")
    assert answer_on(line).startswith(b"HTTP/1.1 200 ")
    line.shutdown(socket.SHUT_WR)
    assert everything_on(line) == b""


def test_who_says_no_more_while_it_waits_gets_what_it_waited_for(
    server: Served, line: socket.socket
) -> None:
    client = server.customer("waits-silently")
    server.operator.post("/v1/customers/waits-silently/pause")
    path = f"/v1/documents/{upload(client, b'x').json()['id']}"
    line.sendall(asking(client, path + "?wait=60"))
    line.shutdown(socket.SHUT_WR)
    # Whatever comes first, the end of what was sent or of the document: the answer tells of both.
    assert client.post(path + "/cancel").status_code == 200
    ((status, document),) = answers_on(line)
    assert (status, document["state"]) == (200, "cancelled")


def test_who_says_no_more_may_take_much_and_slowly(server: Served, line: socket.socket) -> None:
    client, content = server.customer("much"), b"0123456789abcdef" * (1 << 20)
    path = f"/v1/documents/{upload(client, content).json()['id']}/file"
    line.sendall(asking(client, path))
    line.shutdown(socket.SHUT_WR)
    head, _, body = everything_on(line).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert body == content


def test_the_stream_of_who_says_no_more_ends(server: Served, line: socket.socket) -> None:
    line.sendall(asking(server.operator, "/v1/events"))
    line.shutdown(socket.SHUT_WR)
    answer = everything_on(line)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"\r\n0\r\n\r\n")


def test_a_reader_that_has_gone_is_noticed_with_the_next_event(server: Served) -> None:
    client, number = server.customer("goes"), "fairlead_http_streams 0.0"
    with socket.create_connection(("127.0.0.1", server.port), PATIENT) as line:
        line.sendall(asking(client, "/v1/events"))
        until(line, b"id: ")
    while number not in server.operator.get("/metrics").text:
        upload(client, b"x")


def test_the_first_http_knows_no_chunks(server: Served, line: socket.socket) -> None:
    client = server.customer("old")
    line.sendall(asking(client, "/v1/events?after=0", b"HTTP/1.0"))
    got = until(line, b"event: key-added")
    upload(client, b"x")
    got += until(line, b"event: submitted")
    line.shutdown(socket.SHUT_WR)
    upload(client, b"y")
    head, _, body = (got + everything_on(line)).partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head.lower()
    assert b"connection: close" in head.lower()
    assert body.startswith(b"retry: 1000\n\n")
    assert b"\r" not in body  # no event has one, and every chunk has two
    assert body.endswith(b"\n\n")


def until(line: socket.socket, words: bytes) -> bytes:
    """What comes until these words are among it."""
    got = b""
    while words not in got:
        piece = line.recv(65_536)
        assert piece, got
        got += piece
    return got


def asking(client: httpx.Client, path: str, version: bytes = b"HTTP/1.1") -> bytes:
    key = client.headers["authorization"].encode()
    head = b"GET " + path.encode() + b" " + version + b"\r\nHost: x\r\n"
    return head + b"Authorization: " + key + b"\r\n\r\n"


@pytest.mark.parametrize(
    "wish",
    [
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
        b"Connection: upgrade\r\nUpgrade: websocket\r\n",
        b"upgrade: foo\r\nConnection: Upgrade\r\n",
    ],
)
@pytest.mark.parametrize("in_pieces", [False, True])
def test_who_wishes_for_another_protocol_is_served_in_this_one(
    line: socket.socket, head: bytes, wish: bytes, in_pieces: bool
) -> None:
    """The body stays a body: no request is found in it."""
    inner = BODY.replace(b"content", LIVE + b"\r\n")
    request = upload_of(head + wish, inner)
    for piece in (request[:-250], request[-250:], LAST) if in_pieces else (request + LAST,):
        line.sendall(piece)
    (first, document), (second, live) = answers_on(line)
    assert (first, second) == (202, 200)
    assert document["size"] == len(LIVE) + 2
    assert live == {"status": "ok"}


def test_a_wish_for_another_protocol_behind_another_request(
    line: socket.socket, head: bytes
) -> None:
    line.sendall(LIVE + b"\r\n" + upload_of(head + b"Connection: upgrade\r\nUpgrade: foo\r\n"))
    line.sendall(LAST)
    assert [status for status, _ in answers_on(line)] == [200, 202, 200]


def test_long_headers_are_no_better_with_a_wish_for_another_protocol(line: socket.socket) -> None:
    wish = b"Connection: upgrade\r\nUpgrade: foo\r\nX: " + b"x" * MOST_HEADER_BYTES
    line.sendall(LIVE + wish + b"\r\n\r\n" + LAST)
    assert [status for status, _ in answers_on(line)] == [431]


@pytest.mark.parametrize(
    "request_",
    [
        b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /livez HTTP/1.1\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n",
        b"GET /livez HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n",
        b"POST /v1/documents HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    ],
)
def test_requests_on_whose_meaning_not_all_agree(line: socket.socket, request_: bytes) -> None:
    line.sendall(request_ + LAST)
    ((status, problem),) = answers_on(line)
    assert (status, problem["type"]) == (400, "urn:fairlead:problem:invalid-request")


def test_the_first_http_names_no_host(line: socket.socket) -> None:
    line.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
    assert [status for status, _ in answers_on(line)] == [200]


def test_many_wishes_for_another_protocol_come_together(line: socket.socket) -> None:
    """More than calls may be nested in each other."""
    wish = LIVE + b"Connection: upgrade\r\nUpgrade: foo\r\n\r\n"
    sender = threading.Thread(target=line.sendall, args=(wish * 2000 + LAST,))
    sender.start()
    statuses = [status for status, _ in answers_on(line)]
    sender.join()
    assert statuses == [200] * 2001

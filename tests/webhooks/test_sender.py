"""One attempt: what is sent, and what a receiver may do without harm."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
from contextlib import suppress
from pathlib import Path
from queue import Queue
from threading import Event, Thread

import pytest
from standardwebhooks import Webhook
from webhookkit import GOOD, SECRET, Receiver, receiving, says, sending

from fairlead.model.webhooks import WebhookResponse
from fairlead.webhooks import Networks, Sender
from fairlead.webhooks.sender import MOST_BYTES

pytestmark = pytest.mark.services

PATIENCE = 30.0
"""Seconds after which what a test waits for is taken never to come."""
LONG_FIELD = b"a: " + b"x" * 1000 + b"\r\n"
FAR_TOO_MANY = 10 * MOST_BYTES // len(LONG_FIELD)
LOOPBACK = Networks(["127.0.0.0/8"])


def sender(**others: object) -> Sender:
    return Sender(lambda: LOOPBACK, **others)  # type: ignore[arg-type]


def test_a_receiver_can_check_what_it_gets() -> None:
    body = json.dumps({"type": "document.done", "data": {"name": "Ärger.pdf"}}, ensure_ascii=False)
    with receiving(says(GOOD)) as receiver:
        answer = sender()(sending(receiver.url(path="/hook?a=b"), body))
        (request,) = receiver.requests
    assert (answer.code, answer.is_good, answer.error) == (204, True, None)
    assert request.line == "POST /hook?a=b HTTP/1.1"
    assert request.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert request.headers["content-type"] == "application/json"
    assert Webhook(SECRET).verify(request.body, request.headers) == json.loads(body)


def test_the_name_stays_in_the_request_and_the_address_is_the_checked_one() -> None:
    """A name that changes between check and connection: it is looked up once."""
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])
    only = Networks(["127.0.0.1/32"])
    with receiving(says(GOOD)) as receiver:
        rebinding = Sender(lambda: only, resolver=lambda _host, _port: next(answers))
        assert rebinding(sending(receiver.url("name.test"))).code == 204
        second = rebinding(sending(receiver.url("name.test")))
        assert "has no public" in (second.error or "")
        assert [request.headers["host"] for request in receiver.requests] == [
            f"name.test:{receiver.port}"
        ]


def test_the_next_address_is_tried_where_one_does_not_answer() -> None:
    with receiving(says(GOOD)) as receiver:
        several = sender(resolver=lambda _host, _port: ["127.0.0.9", "127.0.0.1"])
        assert several(sending(receiver.url("name.test"))).code == 204


@pytest.mark.parametrize("code", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(code: int) -> None:
    with receiving(says(GOOD)) as inner:
        location = f"HTTP/1.1 {code} Moved\r\nlocation: {inner.url()}\r\n\r\n".encode()
        with receiving(says(location)) as receiver:
            answer = sender()(sending(receiver.url()))
        assert (answer.code, answer.is_good) == (code, False)
        assert inner.requests == []


def test_the_answer_is_kept_as_safe_text() -> None:
    body = b"no \x1b[31mway\xff\r\n" + b"x" * 5000
    head = f"HTTP/1.1 500 Oh\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    with receiving(says(head + body)) as receiver:
        answer = sender()(sending(receiver.url()))
    assert answer.code == 500
    assert answer.text.startswith("no  [31mway�")
    assert len(answer.text) <= 500
    assert answer.text.isprintable()


def endless(connection: socket.socket, receiver: Receiver) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    with suppress(OSError):
        while not receiver.closing.is_set():
            connection.sendall(b"x" * 65_536)


def endless_head(connection: socket.socket, receiver: Receiver) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    with suppress(OSError):
        for _ in range(FAR_TOO_MANY):
            connection.sendall(LONG_FIELD)


def endless_continue(connection: socket.socket, receiver: Receiver) -> None:
    with suppress(OSError):
        for _ in range(FAR_TOO_MANY):
            connection.sendall(b"HTTP/1.1 100 Continue\r\n" + LONG_FIELD + b"\r\n")


def silent(connection: socket.socket, receiver: Receiver) -> None:
    receiver.closing.wait()


def dripping(connection: socket.socket, receiver: Receiver) -> None:
    with suppress(OSError):
        while not receiver.closing.wait(0.05):
            connection.sendall(b"H")


def test_an_endless_answer_is_cut() -> None:
    with receiving(endless) as receiver:
        answer = sender()(sending(receiver.url()))
    assert answer.code == 200
    assert len(answer.text) == 500


def bodiless(connection: socket.socket, receiver: Receiver) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n")
    receiver.closing.wait()


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.webhooks.sender.BODY_SECONDS", 0.1, raising=False)
    answers: Queue[WebhookResponse] = Queue()
    with receiving(bodiless) as receiver:
        attempt = sender(time_limit=3600)
        url = receiver.url()
        Thread(target=lambda: answers.put(attempt(sending(url))), daemon=True).start()
        assert answers.get(timeout=PATIENCE) == WebhookResponse(200)


@pytest.mark.parametrize("handle", [endless_head, endless_continue])
def test_an_endless_head_is_no_answer(handle: object) -> None:
    """Its bytes are counted: there would be time for all that the receiver sends."""
    with receiving(handle) as receiver:  # type: ignore[arg-type]
        answer = sender(time_limit=3600)(sending(receiver.url()))
    assert answer == WebhookResponse(None, error="the answer is not HTTP: LineTooLong")


@pytest.mark.parametrize("handle", [silent, dripping])
def test_one_deadline_holds_for_all(handle: object) -> None:
    with receiving(handle) as receiver:  # type: ignore[arg-type]
        answer = sender(time_limit=0.3)(sending(receiver.url()))
    assert answer.error == "no answer within 0.3 s"


def test_the_deadline_holds_for_a_slow_resolver_too() -> None:
    gate = Event()
    late: list[bool] = []

    def slow(_host: str, _port: int) -> list[str]:
        late.append(not gate.wait(PATIENCE))
        return ["127.0.0.1"]

    answer = sender(time_limit=0.1, resolver=slow)(sending("http://name.test/"))
    assert answer.error == "no answer within 0.1 s"
    assert late == [], "the attempt should not have waited for the resolver"
    gate.set()


@pytest.mark.parametrize("addresses", [["10.1.2.3"], ["127.0.0.1", "10.1.2.3"], []])
def test_where_a_refused_host_leads_to_is_told_to_the_operator_alone(
    addresses: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A customer could otherwise read the operator's own names."""
    answer = sender(resolver=lambda _host, _port: addresses)(sending("http://hook.example/"))
    assert answer == WebhookResponse(
        None, error="hook.example is unknown, or has no public address"
    )
    assert ("hook.example has the address 10.1.2.3" in caplog.text) == ("10.1.2.3" in addresses)


@pytest.mark.parametrize("answer", [b"", b"hello\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"\x00" * 99])
def test_what_is_not_http_is_no_answer(answer: bytes) -> None:
    with receiving(says(answer)) as receiver:
        response = sender()(sending(receiver.url()))
    assert response.code is None
    assert response.error


def test_a_closed_port_is_no_answer() -> None:
    with receiving(says(GOOD)) as receiver:
        url = receiver.url()
    assert "no connection" in (sender()(sending(url)).error or "")


@pytest.mark.parametrize(
    "cause",
    [
        socket.gaierror(socket.EAI_NONAME, "nobody knows it"),
        socket.gaierror(socket.EAI_AGAIN, "nobody knows it now"),
        OSError("nobody knows it here"),
        UnicodeError("nobody knows it so written"),
    ],
)
def test_a_name_that_nobody_knows_is_not_told_from_one_that_leads_inside(
    cause: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """A customer could otherwise probe the operator's names, one by one."""

    def unknown(_host: str, _port: int) -> list[str]:
        raise cause

    def inside(_host: str, _port: int) -> list[str]:
        return ["10.1.2.3"]

    answers = {
        sender(resolver=resolver)(sending("https://hook.example/"))
        for resolver in (unknown, inside)
    }
    assert answers == {
        WebhookResponse(None, error="hook.example is unknown, or has no public address")
    }
    assert f"hook.example cannot be resolved: {cause}" in caplog.text


def test_plain_text_on_a_secure_port_is_no_answer() -> None:
    with receiving(says(GOOD)) as receiver:
        url = receiver.url().replace("http:", "https:")
        answer = sender(time_limit=2)(sending(url))
    assert answer.code is None


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for name.test, with its key in the same file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed; it makes the certificate of this test")
    key, certificate = tmp_path / "key.pem", tmp_path / "made.pem"
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=name.test", "-addext", "subjectAltName=DNS:name.test"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    both = tmp_path / "both.pem"
    both.write_bytes(key.read_bytes() + certificate.read_bytes())
    return both


def test_a_secure_receiver_must_prove_the_name_that_was_asked_for(certificate: Path) -> None:
    names: list[str | None] = []
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate)
    server.sni_callback = lambda _socket, name, _context: names.append(name)
    trusting = ssl.create_default_context(cafile=str(certificate))
    ours = sender(resolver=lambda _host, _port: ["127.0.0.1"], tls=trusting)
    with receiving(says(GOOD), server) as receiver:
        named, other = (
            receiver.url(host).replace("http:", "https:") for host in ("name.test", "other.test")
        )
        assert ours(sending(named)).code == 204
        assert "no secure connection" in (ours(sending(other)).error or "")
        distrusting = sender(resolver=lambda _host, _port: ["127.0.0.1"])
        assert "no secure connection" in (distrusting(sending(named)).error or "")
        assert len(receiver.requests) == 1
    assert names == ["name.test", "other.test", "name.test"]

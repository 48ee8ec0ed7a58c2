"""Bad input: each request gets a clear problem, and no file is left behind."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from apikit import PATIENT, Served, files_in, problem, raw_problem, served, upload

BODY = (
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    b"content\r\n--x--\r\n"
)


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with short timeouts and low limits."""
    data = tmp_path_factory.mktemp("strict") / "data"
    limits = {"request_timeout": 0.5, "max_document_bytes": 100_000, "max_upload_files": 5}
    with served(data, "--workers", "0", max_upload_bytes=300_000, **limits) as running:
        yield running


@pytest.fixture
def head(strict: Served) -> bytes:
    return (
        b"POST /v1/documents HTTP/1.1\r\nHost: x\r\n"
        b"Content-Type: multipart/form-data; boundary=x\r\n"
        b"Authorization: Bearer " + strict.key("acme").encode() + b"\r\n"
    )


@pytest.fixture(autouse=True)
def _unharmed(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test, no file is left, and the next request is served."""
    strict: Served = request.getfixturevalue("strict")
    before = len(files_in(strict.data))
    yield
    until = time.monotonic() + PATIENT
    while len(files_in(strict.data)) != before and time.monotonic() < until:
        strict.operator.get("/livez")  # until the server has noticed that the client is gone
    assert len(files_in(strict.data)) == before
    assert upload(strict.customer("next"), b"x").status_code == 202


def test_a_body_larger_than_declared(strict: Served, head: bytes) -> None:
    answer = strict.raw(head + b"Content-Length: 50\r\n\r\n" + BODY)
    assert answer.startswith(b"HTTP/1.1 400 ")


def test_a_body_smaller_than_declared_is_waited_for_and_given_up(
    strict: Served, head: bytes
) -> None:
    answer = strict.raw(head + b"Content-Length: 9000\r\n\r\n" + BODY)
    raw_problem(answer, "too-slow", 408)


def test_a_body_that_breaks_off(strict: Served, head: bytes) -> None:
    with socket.create_connection(("127.0.0.1", strict.port), PATIENT) as connection:
        connection.sendall(head + b"Content-Length: 90000\r\n\r\n" + BODY[:-10] + b"y" * 80_000)


@pytest.mark.parametrize("length", [b"Content-Length: 0\r\n", b""])
def test_no_body_at_all(strict: Served, head: bytes, length: bytes) -> None:
    raw_problem(strict.raw(head + length + b"\r\n"), "invalid-upload", 400)


@pytest.mark.parametrize("first", [True, False])
def test_two_lengths_that_contradict_each_other(strict: Served, head: bytes, first: bool) -> None:
    lines = [b"Content-Length: 10\r\n", b"Transfer-Encoding: chunked\r\n"]
    both = b"".join(lines if first else lines[::-1])
    assert strict.raw(head + both + b"\r\n0\r\n\r\n").startswith(b"HTTP/1.1 400 ")


def test_ten_thousand_parts(strict: Served) -> None:
    answer = strict.customer("acme").post(
        "/v1/documents", files=[("file", (f"{n}", b"x")) for n in range(10_000)]
    )
    assert answer.status_code in (400, 413)
    answer = strict.customer("acme").post(
        "/v1/documents", files=[("file", (f"{n}", b"x")) for n in range(6)]
    )
    problem(answer, "invalid-upload", 400)


def test_a_document_that_is_too_large(strict: Served) -> None:
    problem(upload(strict.customer("acme"), b"x" * 100_001), "too-large", 413)
    problem(upload(strict.customer("acme"), *[b"x" * 99_000] * 4), "too-large", 413)


def test_a_stream_without_a_length_that_is_too_large(strict: Served) -> None:
    def pieces() -> Iterator[bytes]:
        yield BODY[:80]
        for _ in range(100):
            yield b"x" * 10_000

    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = strict.customer("acme").post("/v1/documents", content=pieces(), headers=headers)
    problem(answer, "too-large", 413)


def test_what_is_no_http_at_all(strict: Served) -> None:
    assert strict.raw(b"\x16\x03\x01 hello\r\n\r\n").startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("content", [b"[" * 10_000, b'{"name":' * 10_000, b"{", b"", b"\xff", b"7"])
def test_json_that_is_none(strict: Served, content: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    answer = strict.operator.post("/v1/customers", content=content, headers=headers)
    assert answer.status_code in (400, 413)
    assert answer.headers["content-type"] == "application/problem+json"


def test_json_that_is_too_long(strict: Served) -> None:
    answer = strict.operator.post("/v1/customers", json={"name": "x" * 70_000})
    problem(answer, "too-large", 413)


def test_only_uploads_may_be_long(strict: Served) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    for path in ("/v1/customers", "/login"):
        answer = strict.operator.post(path, content=b"x" * 70_000, headers=headers)
        problem(answer, "too-large", 413)


@pytest.mark.parametrize(
    ("method", "path", "media_type", "kind", "status"),
    [
        ("POST", "/v1/documents", "application/pdf", "unsupported-media-type", 415),
        ("POST", "/v1/documents/", "multipart/form-data; boundary=x", "not-found", 404),
        ("POST", "/nowhere", "application/json", "not-found", 404),
        ("PUT", "/v1/documents", "application/pdf", "method-not-allowed", 405),
        ("POST", "/v1/documents/x/cancel", "application/json", "unknown-document", 404),
    ],
)
def test_that_a_body_is_long_hides_no_other_mistake(
    strict: Served, method: str, path: str, media_type: str, kind: str, status: int
) -> None:
    headers = {"Content-Type": media_type}
    client = strict.customer("acme")
    answer = client.request(method, path, content=b"x" * 200_000, headers=headers)
    problem(answer, kind, status)


@pytest.mark.parametrize("path", ["/v1/documents", "/v1/customers", "/v1/webhooks"])
def test_who_may_not_come_in_is_not_told_what_is_too_long(strict: Served, path: str) -> None:
    answer = strict.client(None).post(path, json={"name": "x" * 1_000_000})
    problem(answer, "unauthorised", 401)


def test_what_waits_to_be_asked_for_is_not_asked_for_to_be_refused(strict: Served) -> None:
    line = b"POST /v1/documents HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
    raw_problem(strict.raw(line + b"Content-Length: 100\r\n\r\n"), "unauthorised", 401)


@pytest.mark.parametrize(
    "body",
    [
        BODY.replace(b'name="file"', b'name="pile"'),
        BODY.replace(b"a.txt", b"../a.txt"),
        BODY.replace(b"a.txt", b"a" * 300),
        BODY.replace(b"--x--", b"--x-"),
        BODY[10:],
        BODY.replace(b"filename", b"X: " + b"y" * 5000 + b"filename"),
    ],
)
def test_parts_that_are_wrong(strict: Served, body: bytes) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = strict.customer("acme").post("/v1/documents", content=body, headers=headers)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"


def test_another_media_type(strict: Served) -> None:
    for media_type in ("application/json", "multipart/mixed; boundary=x", "text/plain"):
        answer = strict.customer("acme").post(
            "/v1/documents", content=b"x", headers={"Content-Type": media_type}
        )
        problem(answer, "unsupported-media-type", 415)


@pytest.mark.parametrize(
    "media_type",
    [
        *("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"),
        *("application/jsonx; charset=utf-8", "text/json", None),
    ],
)
def test_json_that_does_not_say_so(strict: Served, media_type: str | None) -> None:
    headers = {} if media_type is None else {"Content-Type": media_type}
    for method, path in [
        ("POST", "/v1/customers"),
        ("PATCH", "/v1/customers/acme"),
        ("POST", "/v1/keys"),
        ("POST", "/v1/webhooks"),
        ("PATCH", "/v1/webhooks/x"),
    ]:
        answer = strict.operator.request(method, path, content=b'{"name": "x"}', headers=headers)
        details = problem(answer, "unsupported-media-type", 415)
        sent_type = (media_type or "").partition(";")[0]
        assert details["detail"] == f"this URL expects application/json; got {sent_type!r}"


@pytest.mark.parametrize("media_type", ["application/json; charset=utf-8", "application/x+JSON"])
def test_json_that_says_so(strict: Served, media_type: str) -> None:
    strict.key("patched")
    answer = strict.operator.patch(
        "/v1/customers/patched", content=b'{"weight": 2.0}', headers={"Content-Type": media_type}
    )
    assert (answer.status_code, answer.json()["weight"]) == (200, 2.0)


def test_methods_and_addresses_that_are_not_there(strict: Served) -> None:
    answer = strict.operator.put("/v1/documents")
    problem(answer, "method-not-allowed", 405)
    assert answer.headers["allow"] == "GET, HEAD, POST"
    problem(strict.operator.get("/v1/nothing"), "not-found", 404)
    problem(strict.operator.get("/v1/documents/"), "not-found", 404)


@pytest.mark.parametrize(
    "path", ["/docs", "/openapi.json", "/static-offline-docs/swagger-ui.css", "/livez", "/login"]
)
def test_what_is_allowed_is_named_everywhere(strict: Served, path: str) -> None:
    answer = strict.operator.delete(path)
    problem(answer, "method-not-allowed", 405)
    allowed = "GET, HEAD, POST" if path == "/login" else "GET, HEAD"
    assert answer.headers["allow"] == allowed


def test_two_idempotency_keys(strict: Served, head: bytes) -> None:
    keys = b"Idempotency-Key: a\r\nIdempotency-Key: b\r\n"
    length = f"Content-Length: {len(BODY)}\r\n\r\n".encode()
    raw_problem(strict.raw(head + keys + length + BODY), "invalid-request", 400)


def test_an_idempotency_key_that_is_none(strict: Served) -> None:
    answer = upload(strict.customer("acme"), b"x", headers={"Idempotency-Key": "k" * 300})
    problem(answer, "invalid-request", 400)


def test_an_unknown_language_gets_english(strict: Served) -> None:
    answer = strict.operator.get("/v1/customers/nobody", headers={"Accept-Language": "tlh, xx"})
    details = problem(answer, "unknown-customer", 404)
    assert json.dumps(details).isascii()


def test_paths_are_no_paths(strict: Served, tmp_path: Path) -> None:
    for path in ("..%2f..%2foperator.key", "%00", "x" * 5000):
        answer = strict.operator.get(f"/v1/documents/{path}/file")
        assert answer.status_code == 404

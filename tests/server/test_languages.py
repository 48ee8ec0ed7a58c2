"""Problems in the language of the request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from apikit import Served, problem, upload

from fairlead import Client, errors
from fairlead.i18n import LANGUAGES

Ask = Callable[[httpx.Client, dict[str, str]], httpx.Response]


def bad_name(client: httpx.Client, headers: dict[str, str]) -> httpx.Response:
    return client.post("/v1/documents", files={"file": ("a/b\x7f.txt", b"x")}, headers=headers)


def too_long(client: httpx.Client, headers: dict[str, str]) -> httpx.Response:
    named = {"headers": headers | {"Idempotency-Key": "x" * 256}}
    return upload(client, b"x", **named)


ASKED: dict[str, tuple[int, Ask]] = {
    "unknown-document": (404, lambda c, h: c.get("/v1/documents/never", headers=h)),
    "forbidden": (403, lambda c, h: c.get("/v1/customers", headers=h)),
    "not-found": (404, lambda c, h: c.get("/nowhere", headers=h)),
    "method-not-allowed": (405, lambda c, h: c.put("/v1/documents", headers=h)),
    "invalid-request": (400, too_long),
    "invalid-upload": (400, lambda c, h: upload(c, b"", headers=h)),
    "invalid-cursor": (400, lambda c, h: c.get("/v1/documents?cursor=x", headers=h)),
    "key-in-query": (400, lambda c, h: c.get("/v1/documents?api_key=x", headers=h)),
    "unsupported-media-type": (415, lambda c, h: c.post("/v1/documents", json={}, headers=h)),
}


@pytest.fixture(scope="module")
def customer(server: Served) -> httpx.Client:
    return server.customer("polyglot")


@pytest.mark.parametrize("kind", ASKED)
def test_title_and_detail_are_in_the_language_that_was_asked_for(
    customer: httpx.Client, kind: str
) -> None:
    status, ask = ASKED[kind]
    answers = {language: ask(customer, {"Accept-Language": language}) for language in LANGUAGES}
    problems: dict[str, dict[str, Any]] = {name: answer.json() for name, answer in answers.items()}
    for language, answer in answers.items():
        assert answer.status_code == status
        assert answer.headers["content-language"] == language
        assert "Accept-Language" in answer.headers["vary"]
        assert problems[language]["type"] == f"urn:fairlead:problem:{kind}"
    assert len({details["title"] for details in problems.values()}) == len(LANGUAGES)
    assert len({details["detail"] for details in problems.values()}) == len(LANGUAGES)
    plain = ask(customer, {})
    assert plain.json() == problems["en"]
    assert plain.headers["content-language"] == "en"


@pytest.mark.parametrize(
    ("path", "body", "wrong"),
    [
        ("/v1/documents?limit=0", None, "query.limit: Input should be greater than or equal to 1"),
        ("/v1/webhooks", b"{}", "Object missing required field `url`"),
        ("/v1/webhooks", b"[]", "Expected `object`, got `array`"),
        ("/v1/webhooks", b'{"url": 1}', "Expected `str`, got `int` - at `$.url`"),
        ("/v1/webhooks", b'{"url": "x", "kinds": [false]}', "got `bool` - at `$.kinds[0]`"),
        ("/v1/webhooks", b'{"url": "x", "secret": "x"}', "unknown field `secret`"),
        ("/v1/webhooks", b'{"url": ', "the body must be JSON in UTF-8, and not nested deeply"),
    ],
)
def test_what_is_wrong_with_a_value_is_said_in_english(
    customer: httpx.Client, path: str, body: bytes | None, wrong: str
) -> None:
    headers = {"Content-Type": "application/json", "Accept-Language": "de"}
    method = "GET" if body is None else "POST"
    answer = customer.request(method, path, content=body, headers=headers)
    assert problem(answer, "invalid-request", 400)["detail"].endswith(wrong)


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (b"nothing", "Unexpected end of multipart stream (parser closed)"),
        (b"--x\r\n\r\n", "Missing Content-Disposition segment header"),
        (
            'Content-Disposition: form-data; name="file"; filename="Büro"'.encode("latin-1"),
            "Segment header failed to decode",
        ),
    ],
)
def test_what_is_wrong_with_a_multipart_body_is_said_in_english(
    customer: httpx.Client, body: bytes, wrong: str
) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=x", "Accept-Language": "de"}
    body = body if b"Content" not in body else b"--x\r\n" + body + b"\r\n\r\nx\r\n--x--\r\n"
    answer = customer.post("/v1/documents", content=body, headers=headers)
    detail = problem(answer, "invalid-upload", 400)["detail"]
    assert detail == f"malformed multipart body: {wrong}"


@pytest.mark.parametrize(
    ("accepted", "language"),
    [("de-AT, en;q=0.5", "de"), ("tlh", "en"), ("fr, pl;q=0.1", "pl"), ("\xff\xfe;;q=", "en")],
)
def test_the_best_language_is_chosen(customer: httpx.Client, accepted: str, language: str) -> None:
    headers = {"Accept-Language": accepted.encode("latin-1")}
    answer = customer.get("/v1/documents/never", headers=headers)  # type: ignore[arg-type]
    assert answer.headers["content-language"] == language


def test_numbers_are_written_as_the_language_writes_them(server: Served) -> None:
    client = server.customer("numbers")
    server.operator.patch("/v1/customers/numbers", json={"bytes_a_day": 12_345})
    problems = {
        language: upload(client, b"x" * 20_000, headers={"Accept-Language": language}).json()
        for language in ("en", "de")
    }
    assert "12,345 bytes" in problems["en"]["detail"]
    assert "12.345 Bytes" in problems["de"]["detail"]
    assert problems["de"]["limit"] == "bytes_a_day"


def test_a_client_may_ask_for_its_language(server: Served) -> None:
    with (
        Client(server.url, server.key("polyglot"), language="es") as client,
        pytest.raises(errors.UnknownDocument, match="ningún documento tiene el id"),
    ):
        client.document("never")

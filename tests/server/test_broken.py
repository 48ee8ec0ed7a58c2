"""Multipart bodies that are broken: each is spoken of in our words, in the language asked for."""

from __future__ import annotations

import ast
import asyncio
import inspect
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from apikit import Served, problem
from multipart import MultipartError, PushMultipartParser

from fairlead import Fairlead
from fairlead.i18n import LANGUAGES, translator
from fairlead.server.app import create_app
from fairlead.server.broken import _SAID, LONGEST_HEADER, MOST_HEADERS, what_is_broken
from fairlead.server.context import ServerContext

NAMED = b'Content-Disposition: form-data; name="file"; filename="a"\r\n'
PART = b"--x\r\n" + NAMED
GENERAL = "the multipart body is broken; send it as multipart/form-data"
NOT_TO_US = {
    "Parser closed",
    "Unexpected data after end of multipart stream",  # that is passed over
    "Invalid chunk type",
    "Content-Length limit exceeded",
    "Empty segment header continuation",
    "Segment header failed to decode",  # that has a sentence of its own
    "Segment Content-Length larger than maximum segment size",
    "Maximum segment size exceeded",
}
"""What the parser says only of how it is used, or with settings that ours has not."""

BOUNDARY = "the boundary that Content-Type names does not stand alone before each part"
HEADER = "a header of a part is not one"
NAME = "each part needs the header Content-Disposition: form-data, with a name"
LENGTH = "a part is not as long as its Content-Length says"


@pytest.fixture(scope="module")
def client(server: Served) -> httpx.Client:
    return server.customer("breaker")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"--y\r\n" + NAMED + b"\r\nx\r\n--y--\r\n", BOUNDARY),
        (b"ab--x\r\n" + NAMED, BOUNDARY),
        (b"--x\n" + NAMED, BOUNDARY),
        (b"--xy\r\n" + NAMED, BOUNDARY),
        (PART + b"\r\nx\r\n--xy\r\n", BOUNDARY),
        (PART + b"\r\nx", "it ends before its last boundary"),
        (b"--x\r\nno header\r\n\r\n", HEADER),
        (PART + b" more\r\n\r\n", HEADER),
        (b"--x\r\nA B: c\r\n\r\n", HEADER),
        (b"--x\r\nA: b\n", HEADER),
        (PART + b"A: " + b"b" * LONGEST_HEADER, "a header of a part may have 4,096 bytes"),
        (PART + b"A: b\r\n" * MOST_HEADERS + b"\r\n", "a part may have 8 headers"),
        (b"--x\r\nA: b\r\n\r\n", NAME),
        (b"--x\r\nContent-Disposition: attachment\r\n\r\n", NAME),
        (b"--x\r\nContent-Disposition: form-data\r\n\r\n", NAME),
        (PART + b"Content-Length: 9\r\n\r\nx\r\n--x--\r\n", LENGTH),
        (PART + b"Content-Length: nine\r\n\r\nx\r\n--x--\r\n", LENGTH),
    ],
)
def test_what_is_broken_is_said_in_the_language_of_whoever_asks(
    client: httpx.Client, body: bytes, why: str
) -> None:
    type_ = {"Content-Type": "multipart/form-data; boundary=x"}
    answers = {
        each: client.post("/v1/documents", content=body, headers=type_ | {"Accept-Language": each})
        for each in LANGUAGES
    }
    said = {
        each: problem(found, "invalid-upload", 400)["detail"] for each, found in answers.items()
    }
    assert said["en"] == f"the multipart body is broken: {why}"
    for language, detail in said.items():
        assert language == "en" or why not in detail


@pytest.mark.parametrize("type_", ["multipart/form-data", "multipart/form-data; boundary="])
def test_a_boundary_must_be_named(client: httpx.Client, type_: str) -> None:
    answer = client.post("/v1/documents", content=PART, headers={"Content-Type": type_})
    said = "the multipart body is broken: Content-Type must name the boundary between the parts"
    assert problem(answer, "invalid-upload", 400)["detail"] == said


def test_there_are_words_for_all_that_the_parser_can_say_to_us() -> None:
    tree = ast.parse(textwrap.dedent(inspect.getsource(PushMultipartParser)))
    made = [each for each in ast.walk(tree) if isinstance(each, ast.Call) and each.args]
    names = ("ParserError", "StrictParserError", "ParserLimitReached", "ParserStateError")
    texts = [each.args[0] for each in made if getattr(each.func, "id", "") in names]
    said = {each.value for each in texts if isinstance(each, ast.Constant)}
    assert said - NOT_TO_US == set(_SAID)


def test_what_a_newer_parser_says_is_not_repeated() -> None:
    assert what_is_broken(MultipartError("Something new")) == GENERAL
    assert what_is_broken(MultipartError()) == GENERAL
    for language in set(LANGUAGES) - {"en"}:
        assert translator(language).say(what_is_broken(MultipartError())) != GENERAL


@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize("after", [b"", b"\r\n", b"\r\nan epilogue, which nobody reads\r\n"])
def test_a_body_may_be_cut_anywhere_and_what_follows_its_end_is_passed_over(
    tmp_path: Path, size: int, after: bytes
) -> None:
    whole = PART + b"\r\ncontent\r\n--x--" + after

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(whole), size):
            yield whole[at : at + size]

    async def send(fairlead: Fairlead) -> httpx.Response:
        context = ServerContext(fairlead)
        key, _ = fairlead.add_key("acme")
        headers = {
            "Authorization": f"Bearer {key}",
            "Content-Type": "multipart/form-data; boundary=x",
        }
        line = httpx.ASGITransport(create_app(context))
        async with httpx.AsyncClient(transport=line, base_url="http://test") as client:
            answer = await client.post("/v1/documents", content=pieces(), headers=headers)
        context.close()
        return answer

    with Fairlead(tmp_path) as fairlead:
        answer = asyncio.run(send(fairlead))
        assert answer.status_code == 202, answer.text
        assert fairlead.content(answer.json()["id"]) == b"content"

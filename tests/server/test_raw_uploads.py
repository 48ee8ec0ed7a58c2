"""Raw bodies: one document without a form, its fields in the query."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from apikit import problem
from inprocess import InProcess, in_process

CURL = {"Content-Type": "application/x-www-form-urlencoded"}
"""The media type that curl sends with --data-binary."""


def sent(
    data: Path, query: dict[str, str], content: bytes = b"hello", type_: str = CURL["Content-Type"]
) -> httpx.Response:
    async def send(server: InProcess) -> httpx.Response:
        client = server.http(server.fairlead.keys.add("acme")[0])
        headers = {"Content-Type": type_}
        answer = await client.post("/v1/documents", params=query, content=content, headers=headers)
        if answer.status_code == 202:
            assert server.fairlead.original(answer.json()["id"]) == content
        else:
            assert not server.fairlead.documents().items
        return answer

    return in_process(data, send)


@pytest.mark.parametrize("type_", [CURL["Content-Type"], "application/pdf", "application/json", ""])
@pytest.mark.parametrize("content", [b"hello", bytes(300_000)], ids=["short", "long"])
def test_the_body_is_the_document(tmp_path: Path, type_: str, content: bytes) -> None:
    answer = sent(tmp_path, {"name": "żółw.pdf"}, content, type_)
    assert answer.status_code == 202, answer.text
    assert (answer.json()["name"], answer.json()["size"]) == ("żółw.pdf", len(content))


@pytest.mark.parametrize("path", ["/v1/documents", "/v1/documents/invoice.pdf"])
def test_a_put_is_answered_with_the_call_that_submits(tmp_path: Path, path: str) -> None:
    """`curl -T` sends PUT, and with a slash at the end of the URL appends the name."""

    async def put(server: InProcess) -> httpx.Response:
        return await server.http(server.fairlead.keys.add("acme")[0]).put(path, content=b"x")

    answer = in_process(tmp_path, put)
    details = problem(answer, "method-not-allowed", 405)
    assert "curl -X POST -T invoice.pdf '…/v1/documents?name=invoice.pdf'" in details["detail"]
    assert "PUT" not in answer.headers["allow"]


def test_the_other_fields_are_in_the_query(tmp_path: Path) -> None:
    fields = {"metadata": '{"order": 471}', "reference": "A-17", "urgent": "true"}
    document = sent(tmp_path, {"name": "a.txt"} | fields).json()
    assert (document["metadata"], document["reference"]) == ({"order": 471}, "A-17")
    assert document["urgent"] is True


def test_a_password_needs_a_form(tmp_path: Path) -> None:
    answer = sent(tmp_path, {"name": "a.txt", "password": "secret"})
    problem(answer, "invalid-request", 400)
    assert "secret" not in answer.text


def test_without_a_name_it_is_not_an_upload_and_told_so(tmp_path: Path) -> None:
    answer = sent(tmp_path, {})
    problem(answer, "unsupported-media-type", 415)
    assert "?name=" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("query", "content", "kind"),
    [
        ({"name": "a/b.txt"}, b"a", "invalid-request"),
        ({"name": "a.txt"}, b"", "invalid-upload"),
        ({"name": "a.txt", "nmae": "b"}, b"a", "invalid-request"),
        ({"name": "a.txt", "metadata": "{"}, b"a", "invalid-request"),
    ],
)
def test_what_is_wrong_is_refused(
    tmp_path: Path, query: dict[str, str], content: bytes, kind: str
) -> None:
    problem(sent(tmp_path, query, content), kind, 400)

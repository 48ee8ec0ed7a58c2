"""HEAD responds as GET does, without a body, against a real server process."""

from __future__ import annotations

import socket

import httpx
import pytest
from apikit import PATIENT, Served, problem, upload

from fairlead.model.blobs import SHORT_BYTES

SAME = ("content-type", "content-length", "etag", "location", "content-disposition", "vary")


def same_head(client: httpx.Client, path: str, **headers: str) -> httpx.Response:
    """The response to HEAD, after a check that it has the status and headers of GET."""
    whole = client.get(path, headers=headers)
    head = client.head(path, headers=headers)
    assert (head.status_code, head.content) == (whole.status_code, b""), path
    for name in SAME:
        assert head.headers.get(name) == whole.headers.get(name), (path, name)
    return head


@pytest.mark.parametrize(
    "path",
    [
        *("/livez", "/readyz", "/docs", "/openapi.json", "/login"),
        *("/v1/me", "/v1/documents", "/v1/customers/nobody", "/v1/documents/x", "/nothing"),
        *("/v1/documents?limit=0", "/static-offline-docs/swagger-ui.css"),
    ],
)
def test_it_is_as_get_without_a_body(server: Served, path: str) -> None:
    same_head(server.operator, path)
    same_head(server.client(None), path)
    same_head(server.client(None), path, Accept="text/html")


@pytest.mark.parametrize("size", [1, 3 * SHORT_BYTES], ids=["short", "long"])
def test_it_tells_how_long_a_file_is(server: Served, size: int) -> None:
    client = server.customer("heads")
    path = f"/v1/documents/{upload(client, b'x' * size).json()['id']}"
    head = same_head(client, path + "/file")
    assert head.headers["content-length"] == str(size)
    known = {"If-None-Match": head.headers["etag"]}
    assert client.head(path + "/file", headers=known).status_code == 304


def test_it_waits_for_nothing(server: Served) -> None:
    client = server.customer("unhurried")
    server.operator.post("/v1/customers/unhurried/pause")
    path = f"/v1/documents/{upload(client, b'x').json()['id']}"
    head = client.head(path, params={"wait": 60}, timeout=20)
    assert head.headers["content-length"] == client.get(path).headers["content-length"]


def test_a_page_leads_to_the_login_as_well(server: Served) -> None:
    answer = same_head(server.client(None), "/documents?state=done", Accept="text/html")
    assert answer.headers["location"] == "/login?next=%2Fdocuments%3Fstate%3Ddone"


def test_it_leaves_the_connection_as_it_was(server: Served) -> None:
    with socket.create_connection(("127.0.0.1", server.port), PATIENT) as connection:
        for path in (b"/livez", b"/nothing"):
            connection.sendall(b"HEAD " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answers = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answers.count(b"HTTP/1.1 ") == 3
    assert answers.count(b"{") == 1


def test_what_has_no_get_has_no_head(server: Served) -> None:
    for path in ("/v1/documents/x/cancel", "/v1/events", "/live"):
        answer = server.operator.head(path)
        assert answer.status_code == 405
        assert "HEAD" not in answer.headers["allow"]
    problem(server.operator.post("/v1/events"), "method-not-allowed", 405)

"""Preconditions: a document changes only if it has the expected version; on a real server."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from apikit import Served, problem, upload

STALE = '"0123456789abcdef0123456789abcdef"'
DECISIONS = [("POST", "/cancel"), ("POST", "/retry"), ("DELETE", "")]


@pytest.fixture
def client(server: Served) -> httpx.Client:
    """A customer whose documents wait."""
    client = server.customer("patient")
    assert server.operator.post("/v1/customers/patient/pause").status_code == 200
    return client


def submitted(client: httpx.Client, content: bytes = b"x") -> str:
    return f"/v1/documents/{upload(client, content).json()['id']}"


def etag(client: httpx.Client, path: str) -> str:
    return client.get(path).headers["etag"]


def last_event(server: Served) -> Any:
    return server.operator.get("/v1/audit", params={"limit": 1}).json()


def ready_for(client: httpx.Client, decision: str) -> str:
    """The path of a document in a state that allows the decision."""
    path = submitted(client)
    if decision == "/retry":
        assert client.post(path + "/cancel").status_code == 200
    return path


@pytest.mark.parametrize(("method", "decision"), DECISIONS)
@pytest.mark.parametrize(
    "headers",
    [
        {"If-Match": STALE},
        {"If-Match": f"W/{STALE}, {STALE}"},
        {"If-Match": "W/{}"},
        {"If-Match": ""},
        {"If-Match": STALE, "If-None-Match": STALE},
        {"If-None-Match": "*"},
        {"If-None-Match": "W/{}"},
        {"If-Match": "{}", "If-None-Match": "{}"},
    ],
)
def test_what_is_not_as_expected_is_not_changed(
    server: Served, client: httpx.Client, method: str, decision: str, headers: dict[str, str]
) -> None:
    path = ready_for(client, decision)
    before, event = client.get(path), last_event(server)
    sent_headers = {name: value.format(before.headers["etag"]) for name, value in headers.items()}
    problem(
        client.request(method, path + decision, headers=sent_headers), "precondition-failed", 412
    )
    after = client.get(path)
    assert (after.json(), after.headers["etag"]) == (before.json(), before.headers["etag"])
    assert last_event(server) == event


@pytest.mark.parametrize(("method", "decision"), DECISIONS)
@pytest.mark.parametrize(
    "headers",
    [
        {"If-Match": "{}"},
        {"If-Match": f"{STALE}, {{}}"},
        {"If-Match": "*"},
        {"If-None-Match": STALE},
    ],
)
def test_what_is_as_expected_is_changed(
    client: httpx.Client, method: str, decision: str, headers: dict[str, str]
) -> None:
    path = ready_for(client, decision)
    known = etag(client, path)
    sent_headers = {name: value.format(known) for name, value in headers.items()}
    assert client.request(method, path + decision, headers=sent_headers).is_success
    after = client.get(path)
    assert after.status_code == 404 or after.headers["etag"] != known


@pytest.mark.parametrize(("method", "decision"), DECISIONS)
def test_who_decided_meanwhile_is_not_overruled(
    client: httpx.Client, method: str, decision: str
) -> None:
    path = submitted(client)
    known = etag(client, path)
    assert client.post(path + "/cancel").status_code == 200
    stale = {"If-Match": known}
    problem(client.request(method, path + decision, headers=stale), "precondition-failed", 412)
    assert client.get(path).json()["state"] == "cancelled"


def test_what_is_refused_in_any_case_is_refused_as_ever(
    server: Served, client: httpx.Client
) -> None:
    stale = {"If-Match": STALE}
    problem(client.delete("/v1/documents/none", headers=stale), "unknown-document", 404)
    foreign = submitted(server.customer("foreigner"))
    for method, decision in DECISIONS:
        answer = client.request(method, foreign + decision, headers=stale)
        problem(answer, "unknown-document", 404)
    done = submitted(server.customer("doer"))
    server.operator.get(done, params={"wait": 60})
    problem(server.operator.post(done + "/cancel", headers=stale), "wrong-state", 409)


def test_deleting_again_what_was_deleted_is_no_error_whatever_was_expected(
    client: httpx.Client,
) -> None:
    path = submitted(client)
    known = {"If-Match": etag(client, path)}
    assert [client.delete(path, headers=known).status_code for _ in range(2)] == [204, 204]


@pytest.mark.parametrize("part", ["", "/file", "/text"])
def test_who_reads_may_expect_something_too(server: Served, part: str) -> None:
    client = server.customer("reader")
    path = submitted(client)
    client.get(path, params={"wait": 60})
    path += part
    known = etag(client, path)
    problem(client.get(path, headers={"If-Match": STALE}), "precondition-failed", 412)
    both = {"If-Match": STALE, "If-None-Match": known}
    problem(client.get(path, headers=both), "precondition-failed", 412)
    assert client.head(path, headers=both).status_code == 412
    assert client.get(path, headers={"If-Match": known}).status_code == 200
    assert client.get(path, headers={"If-Match": known, "If-None-Match": known}).status_code == 304
    assert client.get(path, headers={"If-None-Match": "*"}).status_code == 304


def test_the_document_names_it_wherever_it_can_be(server: Served) -> None:
    paths = server.operator.get("/openapi.json").json()["paths"]
    named = {
        (method, path.removeprefix("/v1/documents/{document_id}"))
        for path, operations in paths.items()
        for method, operation in operations.items()
        if "412" in operation["responses"]
    }
    decided = {(method.lower(), path) for method, path in DECISIONS}
    assert named == decided | {("patch", ""), ("get", ""), ("get", "/text"), ("get", "/file")}

"""A retry with a password: over HTTP and by the client, with refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from apikit import problem
from inprocess import InProcess, in_process


def claimed_password(server: InProcess) -> str | None:
    claim = server.fairlead.store.claim("worker")
    assert claim is not None
    return claim.password


@pytest.mark.parametrize("body", [None, {}, {"password": "open sesame"}])
def test_the_body_may_have_a_password(tmp_path: Path, body: dict[str, Any] | None) -> None:
    async def ask(server: InProcess) -> None:
        http = server.http(server.fairlead.keys.add("acme")[0])
        document = server.fairlead.submit("acme", b"hello", name="a.txt")
        server.fairlead.cancel(document.id)
        answer = await http.post(f"/v1/documents/{document.id}/retry", json=body)
        assert (answer.status_code, answer.json()["state"]) == (200, "waiting")
        assert "sesame" not in answer.text
        assert claimed_password(server) == (body or {}).get("password")

    in_process(tmp_path, ask)


def test_the_client_sends_a_password(tmp_path: Path) -> None:
    async def ask(server: InProcess) -> None:
        client = server.client(server.fairlead.keys.add("acme")[0])
        document = await client.submit(b"hello", name="a.txt")
        await client.cancel(document.id)
        await client.retry(document.id, password="open sesame")
        assert claimed_password(server) == "open sesame"

    in_process(tmp_path, ask)


@pytest.mark.parametrize("body", [{"password": 7}, {"passwort": "a"}, {"password": "a" * 1001}])
def test_what_is_not_valid_is_refused_and_changes_nothing(
    tmp_path: Path, body: dict[str, Any]
) -> None:
    async def ask(server: InProcess) -> None:
        http = server.http(server.fairlead.keys.add("acme")[0])
        document = server.fairlead.submit("acme", b"hello", name="a.txt")
        server.fairlead.cancel(document.id)
        answer = await http.post(f"/v1/documents/{document.id}/retry", json=body)
        problem(answer, "invalid-request", 400)
        assert server.fairlead.document(document.id).state == "cancelled"

    in_process(tmp_path, ask)

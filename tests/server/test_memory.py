"""The server's memory stays bounded, whatever one customer does (safety finding 5)."""

from __future__ import annotations

import io
import random
import socket
import zipfile
from contextlib import ExitStack
from pathlib import Path

import pytest
from apikit import PATIENT, Served, served, upload

pytestmark = pytest.mark.full

MOST = 300_000_000
LINE = b"the same sentence again and again, to fill a page\n"
TEXT = LINE * (19_000_000 // len(LINE))


def done(server: Served, key: str, content: bytes) -> str:
    client = server.client(key)
    id_: str = upload(client, content).json()["id"]
    shown = client.get(f"/v1/documents/{id_}", params={"wait": 60}).json()
    assert shown["state"] == "done", shown
    return id_


def slow_reader(server: Served, path: str, key: str, accept: str) -> socket.socket:
    """A connection that has read the beginning of the response, and reads no more."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(PATIENT)
    connection.connect(("127.0.0.1", server.port))
    head = f"GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\nAccept: {accept}\r\n"
    connection.sendall(f"{head}\r\n".encode())
    assert connection.recv(15) == b"HTTP/1.1 200 OK"
    return connection


def test_slow_readers_of_a_long_text_hold_none_of_it(data: Path) -> None:
    with served(data, "--workers", "1") as server, ExitStack() as lines:
        key = server.key("acme")
        id_ = done(server, key, TEXT)
        for number in range(60):
            accept = ("text/plain", "text/markdown", "application/json")[number % 3]
            path = f"/v1/documents/{id_}/text"
            lines.enter_context(slow_reader(server, path, key, accept))
        assert server.memory() < MOST
        client = server.client(key)
        whole = client.get(f"/v1/documents/{id_}/text")
        assert whole.content.strip() == TEXT.strip()
        assert whole.headers["content-length"] == str(len(whole.content))
        as_json = client.get(f"/v1/documents/{id_}/text", headers={"Accept": "application/json"})
        assert as_json.json()["text"] == whole.text
        assert server.memory() < MOST


def test_a_long_text_in_json_is_escaped_across_chunks(server: Served) -> None:
    key = server.key("acme")
    text = 'Grüße, "Zoë" \\ \t 😀\n' * 20_000
    id_ = done(server, key, text.encode())
    client = server.client(key)
    answer = client.get(f"/v1/documents/{id_}/text", headers={"Accept": "application/json"}).json()
    assert answer["text"] == client.get(f"/v1/documents/{id_}/text").text
    assert '"Zoë" \\' in answer["text"]
    assert "😀" in answer["text"]
    assert client.head(f"/v1/documents/{id_}/text").content == b""


def archive() -> bytes:
    """240 MB in members of 40 MB, compressed to a hundredth."""
    block = random.Random(1).randbytes(2_000) + bytes(200_000)
    member = block * (40_000_000 // len(block))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for number in range(6):
            file.writestr(f"{number}.bin", member)
    return packed.getvalue()


def test_an_archive_that_unpacks_to_much_is_not_held(data: Path) -> None:
    with served(data, "--workers", "1") as server:
        key = server.key("acme")
        id_ = done(server, key, archive())
        assert server.memory() < MOST
        client = server.client(key)
        parts = client.get("/v1/documents", params={"parent": id_}).json()["documents"]
        assert len(parts) == 6
        assert all(part["size"] > 39_000_000 for part in parts)

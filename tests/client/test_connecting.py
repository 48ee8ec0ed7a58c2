"""Making a client, and what it says of something that is not a Fairlead server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from apikit import Served
from canned_server import saying

from fairlead import Client, errors

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
EVENT = (
    b'{"seq": 8, "at": "2026-01-01T00:00:00Z", "kind": "%b", "customer": "acme", '
    b'"document": null, "data": {}}'
)
FOREIGN = [
    b"200 OK\r\nContent-Type: text/html\r\n\r\n<!doctype html>",
    b"200 OK\r\nContent-Type: application/json\r\n\r\nnull",
    b'200 OK\r\nContent-Type: application/json\r\n\r\n{"state": "gone"}',
    b"404 Not Found\r\nContent-Type: application/problem+json\r\n\r\n<html>",
    b"302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n",
]


def test_address_and_key_come_from_the_environment(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_URL", f"{server.url}/")
    monkeypatch.setenv("FAIRLEAD_KEY", f"{server.key('surroundings')}\n")
    with Client() as client:
        assert client.me().customer == "surroundings"
        assert repr(client) == f"<Client of {server.url}, open>"
    monkeypatch.delenv("FAIRLEAD_KEY")
    with pytest.raises(errors.UsageError, match="FAIRLEAD_KEY"):
        Client()


@pytest.mark.parametrize(
    "url",
    [
        *("", "ftp://x", "127.0.0.1:8321", "http://", "http://x:y@host", "http://h/?key=fl_1"),
        *("http://127.0.0.1:8321/#top", "http://127.0.0.1:99999"),
    ],
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(errors.UsageError):
        Client(url or "x", "fl_key")


def test_an_address_may_end_as_those_of_the_api_begin(server: Served) -> None:
    for url in (f"{server.url}/v1", f"{server.url}/v1/", f"{server.url}//v1//"):
        with Client(url, server.key("acme")) as client:
            assert (client.url, client.me().customer) == (server.url, "acme")
    assert Client("http://v1/", "fl_key").url == "http://v1"
    assert Client("http://host/below/v1", "fl_key").url == "http://host/below"


def test_a_closed_client_says_so() -> None:
    client = Client("http://127.0.0.1:1", "fl_key")
    client.close()
    client.close()
    for call in (client.me, lambda: next(client.events()), lambda: client.submit(b"x")):
        with pytest.raises(errors.UsageError, match="closed"):
            call()


def test_an_http_client_of_your_own_is_used_and_left_open() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        limits = {"max_document_bytes": 1, "max_upload_bytes": 2, "max_upload_files": 3}
        own = {"key": request.headers["Authorization"], "role": "operator", "name": "x"}
        return httpx.Response(200, json={**own, "customer": None, "limits": limits})

    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        with Client("http://127.0.0.1:1", "fl_key", http=http) as client:
            assert client.me().key == "Bearer fl_key"
        assert not http.is_closed


def test_a_download_may_have_the_longest_name_there_is(acme: Client, tmp_path: Path) -> None:
    target = tmp_path / ("n" * 255)
    acme.download(acme.submit(b"content").id, target)
    assert [path.name for path in tmp_path.iterdir()] == [target.name]
    assert target.read_bytes() == b"content"


def test_what_cannot_be_a_key_is_refused_without_being_shown() -> None:
    with pytest.raises(errors.UsageError) as caught:
        Client("http://127.0.0.1:1", "geheim ü\r\nX-Evil: 1")
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("answer", FOREIGN)
def test_what_no_fairlead_says_is_no_answer(answer: bytes) -> None:
    with saying(b"HTTP/1.1 " + answer) as url, Client(url, "fl_key") as client:
        for call in (
            client.me,
            lambda: client.document("x"),
            lambda: client.submit(b"x"),
            lambda: client.wait("x"),
            client.documents,
            lambda: next(client.events()),
            client.keys.list,
            client.keys.add,
        ):
            with pytest.raises(errors.ServerFailed, match="is a Fairlead server there"):
                call()


def test_events_of_a_newer_server_are_passed_over() -> None:
    message = b"id: 7\nevent: sung\ndata: " + EVENT % b"sung"
    message += b"\n\nid: 8\nevent: done\ndata: " + EVENT % b"done" + b"\n\n"
    with saying(STREAM + message) as url, Client(url, "fl_key") as client:
        assert next(client.events()).kind.value == "done"


@pytest.mark.parametrize(
    "message",
    [b"data: no json", b"data: {}", b"data: " + (EVENT % b"done").replace(b"2026", b"soon")],
)
def test_events_that_no_fairlead_tells(message: bytes) -> None:
    with (
        saying(STREAM + message + b"\n\n") as url,
        Client(url, "fl_key") as client,
        pytest.raises(errors.ServerFailed, match="is a Fairlead server there"),
    ):
        next(client.events())


def test_what_is_no_fairlead_server_is_named(tmp_path: Path) -> None:
    code = (
        "import http.server as h; s = h.HTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler);"
    )
    code += "print(s.server_port, flush=True); s.serve_forever()"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=tmp_path,
    ) as other:
        assert other.stdout is not None
        port = other.stdout.readline().strip()
        with (
            Client(f"http://127.0.0.1:{port}", "fl_key") as client,
            pytest.raises(errors.ServerFailed, match=r"404.*is a Fairlead server there"),
        ):
            client.me()
        other.kill()


def test_a_large_file_is_not_read_into_memory(server: Served, tmp_path: Path) -> None:
    large = tmp_path / "large.bin"
    with large.open("wb") as file:
        file.truncate(200_000_000)
    code = (
        "import resource, sys; from fairlead import Client\n"
        "with Client() as client:\n"
        "    client.submit(b'small')\n"
        "    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "    print(client.submit(sys.argv[1]).size)\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    surroundings = {"FAIRLEAD_URL": server.url, "FAIRLEAD_KEY": server.key("large")}
    done = subprocess.run(
        [sys.executable, "-c", code, str(large)],
        env=os.environ | surroundings,
        capture_output=True,
        text=True,
        check=True,
    )
    size, grown = map(int, done.stdout.split())
    assert size == 200_000_000
    assert grown * 1024 < 20_000_000


def test_fairlead_is_imported_without_httpx_and_names_it_when_needed() -> None:
    code = (
        "import sys; sys.modules['httpx'] = None\n"
        "import fairlead\n"
        "try: fairlead.Client\n"
        "except fairlead.FairleadError as error: print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("MissingExtra the library httpx is missing; install it: ")
    assert done.stdout.endswith("[client]'\n")


def test_importing_fairlead_brings_in_neither_httpx_nor_the_house() -> None:
    code = (
        "import fairlead, sys; print([n for n in ('httpx', 'apsw', 'click') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

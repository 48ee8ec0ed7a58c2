"""The server as a process: memory, signals, crashes, restarts."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from apikit import PATIENT, Served, served, served_by, upload, wait_until_claimed

from fairlead import Client, Fairlead
from fairlead.demo.samples import samples

HEAD = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n\r\n'
TYPE = {"Content-Type": "multipart/form-data; boundary=x"}


def large(megabytes: int) -> Iterator[bytes]:
    yield HEAD
    for _ in range(megabytes):
        yield bytes(1 << 20)
    yield b"\r\n--x--\r\n"


@pytest.mark.full
def test_200_megabytes_need_less_than_20_of_memory(data: Path) -> None:
    with served(data, "--workers", "0") as server:
        client = server.customer("large")
        upload(client, b"first")
        before = server.memory()
        answer = client.post("/v1/documents", content=large(200), headers=TYPE)
        assert answer.json()["size"] == 200 << 20
        assert server.memory() - before < 20_000_000


def test_concurrent_submissions_share_commits_and_counts_are_exact(data: Path) -> None:
    with served(data, "--workers", "0") as server:
        key = server.key("crowd")

        def send(number: int) -> list[int]:
            with server.client(key) as client:
                return [upload(client, b"%d %d" % (number, n)).json()["count"] for n in range(10)]

        with ThreadPoolExecutor(16) as pool:
            counts = [count for batch in pool.map(send, range(16)) for count in batch]
        assert sorted(counts) == list(range(-159, 1))
        metrics = server.operator.get("/metrics").text
        commits = float(metrics.partition("\nfairlead_commits_total ")[2].split()[0])
        assert commits < len(counts)


def test_sigterm_finishes_what_runs_and_ends(data: Path) -> None:
    content = next(samples(1, seed=4, pages=(150, 150))).content
    with served(data, "--workers", "1") as server:
        client = server.customer("acme")
        upload(client, *[content] * 8)
        wait_until_claimed(client)
        assert server.stop() == 0
    with Fairlead(data) as fairlead:
        states = {document.state.value for document in fairlead.documents()}
        assert fairlead.queue.totals().processing == 0
        assert "done" in states
        assert "waiting" in states
        assert fairlead.folder.server_pid() is None


def test_a_request_under_way_is_answered_before_the_end(data: Path) -> None:
    with served(data, "--workers", "0") as server:
        client = server.customer("acme")
        began, go_on = threading.Event(), threading.Event()

        def slow() -> Iterator[bytes]:
            yield HEAD
            began.set()
            go_on.wait(PATIENT)
            yield b"content\r\n--x--\r\n"

        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(client.post, "/v1/documents", content=slow(), headers=TYPE)
            began.wait(PATIENT)
            while b"fairlead" in _metrics(server) and answer.running() and not _is_read(server):
                pass
            server.process.send_signal(signal.SIGTERM)
            go_on.set()
            assert answer.result().status_code == 202
        assert server.process.wait(PATIENT) == 0


def test_a_second_signal_cuts_requests_off_without_a_word_of_the_framework(data: Path) -> None:
    with served(data, "--workers", "0") as server:
        head = (
            "POST /v1/documents HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer {server.key('acme')}\r\n"
            f"Content-Type: {TYPE['Content-Type']}\r\nContent-Length: 1000\r\n"
            "Expect: 100-continue\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", server.port), PATIENT) as connection:
            connection.sendall(head.encode())
            assert connection.recv(1000).startswith(b"HTTP/1.1 100")  # it waits for the body
            server.process.send_signal(signal.SIGTERM)
            server.process.send_signal(signal.SIGINT)
            assert server.process.wait(PATIENT) == 1
        server.close()
        assert server.log[3:] == [
            "fairlead: finishing running documents; press Ctrl-C again to stop immediately\n"
        ]


def _metrics(server: Served) -> bytes:
    return server.operator.get("/metrics").content


def _is_read(server: Served) -> bool:
    """Whether the server has accepted the connection of the upload, beside that of the client."""
    folder = Path(f"/proc/{server.process.pid}/fd")
    sockets = [str(link.readlink()) for link in folder.iterdir()]
    return sum(socket.startswith("socket:") for socket in sockets) >= 3


def test_what_was_answered_is_there_after_a_kill_and_a_restart(data: Path) -> None:
    headers = {"Idempotency-Key": "the same"}
    with served(data, "--workers", "0") as server:
        key = server.key("acme")
        first = upload(server.client(key), b"kept", headers=headers).json()
        server.process.kill()
    with served(data, "--workers", "1") as server:
        client = server.client(key)
        again = upload(client, b"kept", headers=headers).json()
        assert again["id"] == first["id"]
        ended = client.get(f"/v1/documents/{first['id']}", params={"wait": 60}).json()
        assert ended["state"] == "done"


_KILLED = """
import os, signal
from fairlead.server.upload_batcher import UploadBatcher
from fairlead.cli import main
accept = UploadBatcher.accept
async def accept_and_die(self, offer):
    await accept(self, offer)
    os.kill(os.getpid(), signal.SIGKILL)
UploadBatcher.accept = accept_and_die
main()
"""
DIES_BEFORE_IT_ANSWERS = ("-c", _KILLED)


def test_a_crash_between_commit_and_answer_makes_no_second_document(data: Path) -> None:
    with served_by(DIES_BEFORE_IT_ANSWERS, data, "--workers", "0") as server:
        key, port = server.key("acme"), server.port
        with pytest.raises(httpx.TransportError):
            upload(server.client(key), b"kept", headers={"Idempotency-Key": "the same"})
        assert server.process.wait(PATIENT) == -signal.SIGKILL
    with Fairlead(data) as fairlead:
        (first,) = fairlead.documents()  # it was committed, but the response was lost
    with served(data, "--workers", "0", "--port", str(port)) as server:
        client = server.client(key)
        again = upload(client, b"kept", headers={"Idempotency-Key": "the same"})
        assert (again.status_code, again.json()["id"]) == (202, first.id)
        assert len(client.get("/v1/documents").json()["documents"]) == 1
        other = upload(client, b"other", headers={"Idempotency-Key": "the same"})
        assert other.status_code == 422


def test_a_client_gets_its_document_although_the_server_died_before_it_answered(
    data: Path,
) -> None:
    with served_by(DIES_BEFORE_IT_ANSWERS, data, "--workers", "0") as first:
        port = first.port
        with (
            Client(first.url, first.key("acme"), patience=600) as client,
            ThreadPoolExecutor(1) as pool,
        ):
            client.me()
            submission = pool.submit(client.submit, b"only once")
            first.process.wait(PATIENT)
            with served(data, "--workers", "0", "--port", str(port)):
                document = submission.result(PATIENT)
                assert [listed.id for listed in client.documents()] == [document.id]
                assert document.count == 0


def test_half_an_upload_of_a_killed_server_is_swept_and_never_a_document(data: Path) -> None:
    with served(data, "--workers", "0") as server:
        client = server.customer("acme")
        head = (
            b"POST /v1/documents HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n"
            b"Content-Type: multipart/form-data; boundary=x\r\nAuthorization: "
            + client.headers["authorization"].encode()
            + b"\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", server.port), PATIENT) as connection:
            connection.sendall(head + HEAD + bytes(2_000_000))
            while not list((data / "files").rglob("incoming/*")):
                pass
            server.process.kill()
            server.process.wait()
    with Fairlead(data) as fairlead:
        assert fairlead.documents().items == []
        assert fairlead.files.sweep_incoming(float("inf")) == 1


def test_a_second_server_on_the_folder_is_refused(data: Path) -> None:
    first, second = served(data, "--workers", "0"), served(data)
    with first, pytest.raises(AssertionError, match="already uses"), second:
        pass

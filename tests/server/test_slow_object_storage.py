"""The server with slow object storage: no customer waits for the files of another."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from threading import Event, Thread

import httpx
import pytest
from apikit import PATIENT, Served, served, upload

from fairlead.blobs.marker import MARKER
from fairlead.server.context import THREADS
from fairlead.server.per_customer_pool import THREADS_PER_CUSTOMER

pytestmark = pytest.mark.full

MANY = THREADS + THREADS_PER_CUSTOMER
LONG = b"a long word " * 10_000
EMPTY = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
DELETED = b"<DeleteResult><Deleted><Key>%b</Key></Deleted></DeleteResult>"


class Bucket(ThreadingHTTPServer):
    """The part of S3 that the tests need. It records methods, and responds when a test permits."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.methods = Queue[str]()
        self.may_answer = Event()

    def hold(self) -> None:
        """Stop responding, and forget the recorded methods."""
        self.may_answer.clear()
        self.methods = Queue[str]()

    def expect(self, method: str, times: int = 1) -> None:
        """Wait for so many requests with this method."""
        assert [self.methods.get(timeout=PATIENT) for _ in range(times)] == [method] * times

    @property
    def url(self) -> str:
        return f"s3://bucket?endpoint=http://127.0.0.1:{self.server_port}&region=us-east-1"


class _Handler(BaseHTTPRequestHandler):
    server: Bucket

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self._wait()
        self.server.objects[self.path] = content
        self._answer(b"")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._wait()
        self._answer(DELETED % body.partition(b"<Key>")[2].partition(b"</Key>")[0])

    def do_GET(self) -> None:
        if "list-type" in self.path:  # the sweep of orphans finds nothing
            self._answer(EMPTY)
        else:
            self._wait()
            content = self.server.objects.get(self.path)
            if content is None:
                self.send_error(404)
            else:
                self._answer(content)

    def _wait(self) -> None:
        if self.path.endswith(MARKER):
            return
        self.server.methods.put(self.command)
        self.server.may_answer.wait()

    def _answer(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_said: object) -> None:
        """Log no requests."""


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "who")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with Bucket() as bucket:
        thread = Thread(target=bucket.serve_forever)
        thread.start()
        try:
            yield bucket
        finally:
            bucket.may_answer.set()
            bucket.shutdown()
            thread.join()


@pytest.fixture
def server(data: Path, slow: Bucket) -> Iterator[Served]:
    with served(data, "--workers", "1", files=slow.url) as running:
        yield running


@pytest.fixture
def pool(slow: Bucket) -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(MANY + 1) as executor:
        yield executor
        slow.may_answer.set()


def ids_of(client: httpx.Client, content: bytes, number: int = 1) -> list[str]:
    """The ids of so many documents, after they are done."""
    ids = [upload(client, content).json()["id"] for _ in range(number)]
    for id_ in ids:
        assert client.get(f"/v1/documents/{id_}?wait=60").json()["state"] == "done"
    return ids


def test_who_sends_waits_for_nobody_else(
    server: Served, slow: Bucket, pool: ThreadPoolExecutor
) -> None:
    acme, globex = server.customer("acme"), server.customer("globex")
    coming = [pool.submit(upload, acme, LONG) for _ in range(MANY)]
    slow.expect("PUT", THREADS_PER_CUSTOMER)
    assert upload(globex, b"short").status_code == 202
    assert upload(acme, b"short").status_code == 202
    coming.append(pool.submit(upload, globex, LONG))
    slow.expect("PUT")
    slow.may_answer.set()
    assert {future.result().status_code for future in coming} == {202}


@pytest.mark.parametrize(
    "place", ["/v1/documents/{}/file", "/v1/documents/{}/text", "/document/{}"]
)
def test_who_fetches_waits_for_nobody_else(
    place: str, server: Served, slow: Bucket, pool: ThreadPoolExecutor
) -> None:
    """Short texts and files need no fetch, so their requests do not wait either."""
    acme, globex = server.customer("acme"), server.customer("globex")
    slow.may_answer.set()
    long, (other,) = ids_of(acme, LONG, MANY), ids_of(globex, LONG)
    (short,) = ids_of(acme, b"short")
    for path in server.data.glob("cache/**/fetched/*"):
        path.unlink()  # so that the server fetches again what the worker has fetched
    slow.hold()
    fetched = [pool.submit(acme.get, place.format(id_)) for id_ in long]
    slow.expect("GET", THREADS_PER_CUSTOMER)
    assert "short" in acme.get(place.format(short)).text
    assert globex.get(f"/v1/documents/{other}").json()["state"] == "done"
    fetched.append(pool.submit(globex.get, place.format(other)))
    slow.expect("GET")
    slow.may_answer.set()
    assert all("a long word" in future.result().text for future in fetched)


def test_who_deletes_waits_for_nobody_else(
    server: Served, slow: Bucket, pool: ThreadPoolExecutor
) -> None:
    """Deleted documents are gone immediately; their files are removed later."""
    acme, globex = server.customer("acme"), server.customer("globex")
    places = [f"/v1/documents/{id_}" for id_ in ids_of(acme, b"short", MANY)]
    (other,) = ids_of(globex, b"short")
    deleted = [pool.submit(acme.delete, place) for place in places]
    slow.expect("POST", THREADS_PER_CUSTOMER)
    assert globex.get(f"/v1/documents/{other}").json()["state"] == "done"
    deleted.append(pool.submit(globex.delete, f"/v1/documents/{other}"))
    slow.expect("POST")
    assert globex.get(f"/v1/documents/{other}").status_code == 404
    slow.may_answer.set()
    assert {future.result().status_code for future in deleted} == {204}

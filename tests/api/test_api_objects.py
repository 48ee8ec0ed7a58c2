"""The server while object storage takes its time: nobody waits for what is another one's."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from threading import Event, Thread

import pytest
from apikit import served, upload

from fairlead.api.office import THREADS

LONG = b"a long word " * 10_000
EMPTY = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"


class Bucket(ThreadingHTTPServer):
    """As much of S3 as is needed here. It tells what it is asked for, and answers when it may."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.asked = Queue[str]()
        self.may_answer = Event()

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

    def do_GET(self) -> None:
        if "list-type" in self.path:  # the sweep of orphans finds nothing
            self._answer(EMPTY)
        else:
            self._wait()
            self._answer(self.server.objects[self.path])

    def _wait(self) -> None:
        self.server.asked.put(self.command)
        self.server.may_answer.wait()

    def _answer(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_said: object) -> None:
        """Nothing."""


@contextmanager
def bucket() -> Iterator[Bucket]:
    with Bucket() as found:
        thread = Thread(target=found.serve_forever)
        thread.start()
        try:
            yield found
        finally:
            found.may_answer.set()
            found.shutdown()
            thread.join()


def test_nobody_waits_for_what_is_another_ones(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "who")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    number = 2 * THREADS
    with (
        bucket() as slow,
        served(data, "--workers", "0", files=slow.url) as server,
        ThreadPoolExecutor(number) as pool,
    ):
        acme, globex = server.customer("acme"), server.customer("globex")
        coming = [pool.submit(upload, acme, LONG) for _ in range(number)]
        assert slow.asked.get() == "PUT"
        short = upload(globex, b"short")
        assert short.status_code == 202
        slow.may_answer.set()
        found = [each.result().json()["id"] for each in coming]
        slow.may_answer.clear()
        for _ in range(number - 1):
            assert slow.asked.get() == "PUT"
        fetched = [pool.submit(acme.get, f"/v1/documents/{each}/file") for each in found]
        for _ in range(number):
            assert slow.asked.get() == "GET"
        place = f"/v1/documents/{short.json()['id']}"
        assert globex.get(place).json()["state"] == "waiting"
        assert globex.get(f"{place}/file").content == b"short"
        slow.may_answer.set()
        assert {each.result().content for each in fetched} == {LONG}

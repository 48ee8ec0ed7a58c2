"""A client that is taken along in a fork: each process has connections of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count

import pytest

pytestmark = pytest.mark.full

LIMITS = {"max_document_bytes": 1, "max_upload_bytes": 1, "max_upload_files": 1}

FORKS = """
import os, signal, sys, threading
from fairlead import Client

client = Client(sys.argv[1], "fl_key")
print("before", client.me().key, flush=True)
{meanwhile}
child = os.fork()
if child == 0:
    signal.alarm(30)  # whoever hangs ends
    threads = [threading.Thread(target=client.me) for _ in range({threads})]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    print("child", client.me().key, flush=True)
    client.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
{after}
print("parent", client.me().key, flush=True)
client.close()
"""
HELD = "lock = client._transport._http._transport._pool._optional_thread_lock; lock.__enter__()"
FREE = "lock.__exit__()"


@contextmanager
def numbered() -> Iterator[str]:
    """The address of a server whose every answer names the connection that it came by."""
    numbers = count(1)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            self.number = next(numbers)

        def do_GET(self) -> None:
            report = {
                "key": str(self.number),
                "role": "operator",
                "name": "x",
                "customer": None,
                "limits": LIMITS,
            }
            body = json.dumps(report).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def forked(*, threads: int = 0, meanwhile: str = "", after: str = "") -> list[list[str]]:
    """Which connection each process used, as lines of a process that forks."""
    code = FORKS.format(threads=threads, meanwhile=meanwhile, after=after)
    with numbered() as url:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code, url],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()]


def test_a_fork_has_connections_of_its_own_and_leaves_the_others_alone() -> None:
    assert forked() == [["before", "1"], ["child", "2"], ["parent", "1"]]


def test_a_fork_does_not_wait_for_threads_that_did_not_come_along() -> None:
    assert forked(meanwhile=HELD, after=FREE) == [["before", "1"], ["child", "2"], ["parent", "1"]]


def test_threads_of_a_fork_share_its_connections() -> None:
    before, child, parent = forked(threads=4)
    assert (before, parent) == (["before", "1"], ["parent", "1"])
    assert 2 <= int(child[1]) <= 5

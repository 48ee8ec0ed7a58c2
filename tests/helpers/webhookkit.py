"""What the tests of webhooks share: receivers on loopback, and shorthands."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import NamedTuple

from fairlead.model.webhooks import DEFAULT_KINDS, Sending, Webhook, WebhookRecord
from fairlead.storage import Store

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
GOOD = b"HTTP/1.1 204 No Content\r\n\r\n"

Handler = Callable[[socket.socket, "Receiver"], None]


class Received(NamedTuple):
    """One request."""

    line: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """A server on the loopback; each connection is handled in a thread of its own."""

    def __init__(self, handle: Handler, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.requests: list[Received] = []
        self.closing = Event()
        self._handle = handle
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = Thread(target=self._accept, daemon=True)
        self._thread.start()

    def url(self, host: str = "127.0.0.1", path: str = "/hook") -> str:
        return f"http://{host}:{self.port}{path}"

    def close(self) -> None:
        self.closing.set()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _accept(self) -> None:
        threads = []
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                threads.append(Thread(target=self._serve, args=(connection,), daemon=True))
                threads[-1].start()
        for thread in threads:
            thread.join()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            stream = connection
            if self._tls is not None:
                stream = self._tls.wrap_socket(connection, server_side=True)
            with stream:
                self.requests.append(read_request(stream))
                self._handle(stream, self)


def read_request(connection: socket.socket) -> Received:
    with connection.makefile("rb") as stream:
        line = stream.readline().decode("latin-1").strip()
        headers = {}
        while (field := stream.readline().decode("latin-1").strip()) != "":
            name, _, value = field.partition(": ")
            headers[name] = value
        return Received(line, headers, stream.read(int(headers.get("content-length", 0))))


def says(answer: bytes) -> Handler:
    return lambda connection, _: connection.sendall(answer)


@contextmanager
def receiving(handle: Handler, tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    receiver = Receiver(handle, tls)
    try:
        yield receiver
    finally:
        receiver.close()


def sending(url: str, body: str = "{}") -> Sending:
    return Sending("msg_1_1", 1, "1", "acme", url, SECRET, body)


def added(store: Store, customer: str, number: int = 1, url: str = "http://a.test/") -> Webhook:
    store.add_customer(customer)
    return store.outbox.add(
        WebhookRecord(f"{customer}-{number}", customer, url, DEFAULT_KINDS, SECRET)
    )

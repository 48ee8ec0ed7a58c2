"""One attempt at a delivery: resolve the host, check its addresses, connect to one of them, post.

The host is resolved once, and the connection goes to an address that was checked (no DNS
rebinding). Redirects are not followed and proxies are not used. One deadline holds for the whole
attempt, and one limit for all bytes of the response.
"""

from __future__ import annotations

import io
import logging
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPException, HTTPResponse, LineTooLong

from fairlead.errors import InvalidWebhook
from fairlead.model.webhooks import MOST_CHARACTERS, Sending, WebhookResponse
from fairlead.service import run_in_thread
from fairlead.webhooks.signing import headers
from fairlead.webhooks.urls import Networks, WebhookUrl, parse

_log = logging.getLogger(__name__)

TIME_LIMIT = 15.0
BODY_SECONDS = 1.0  # how long to wait for the body of a response: only its status counts
MOST_BYTES = 65_536  # of a response with its headers

Resolve = Callable[[str, int], list[str]]
Send = Callable[[Sending], WebhookResponse]
"""Makes an attempt; errors of the receiver are part of the response and never raised."""


class _Refused(Exception):
    pass


def resolve(host: str, port: int) -> list[str]:
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in infos))


class Sender:
    """Makes attempts. Any thread may call it. `clock` gives the time for signatures."""

    def __init__(
        self,
        networks: Callable[[], Networks],
        *,
        clock: Callable[[], float] = time.time,
        resolver: Resolve = resolve,
        time_limit: float = TIME_LIMIT,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._networks = networks
        self._clock = clock
        self._resolver = resolver
        self._time_limit = time_limit
        self._tls = tls

    def __call__(self, sending: Sending) -> WebhookResponse:
        deadline = _Deadline(self._time_limit)
        try:
            target = parse(sending.url)
            with closing(self._connect(target, deadline)) as connection:
                _post(connection, self._request(target, sending), deadline)
                return _read_response(connection, deadline)
        except (_Refused, InvalidWebhook) as error:
            return WebhookResponse(None, error=str(error))
        except TimeoutError:
            return WebhookResponse(None, error=f"no answer within {self._time_limit:g} s")
        except ssl.SSLError as error:
            return WebhookResponse(None, error=f"no secure connection: {error.reason or error}")
        except (OSError, UnicodeError) as error:
            return WebhookResponse(None, error=f"no connection: {error}")
        except (HTTPException, ValueError) as error:
            return WebhookResponse(None, error=f"the answer is not HTTP: {type(error).__name__}")

    def _connect(self, target: WebhookUrl, deadline: _Deadline) -> socket.socket:
        addresses = self._addresses(target, deadline)
        self._check(target, addresses)
        plain = _first_that_answers(addresses, target.port, deadline)
        if not target.is_secure:
            return plain
        try:
            plain.settimeout(deadline.left())
            context = self._tls or ssl.create_default_context()
            return context.wrap_socket(plain, server_hostname=target.host)
        except BaseException:
            plain.close()
            raise

    def _addresses(self, target: WebhookUrl, deadline: _Deadline) -> list[str]:
        """The addresses of the host; empty if it cannot be resolved: only the log says why."""
        # In a thread, because the system's resolver has no deadline.
        lookup = run_in_thread("dns", lambda: self._resolver(target.host, target.port))
        try:
            return lookup.result(deadline.left())
        except TimeoutError:
            raise
        except (OSError, UnicodeError) as error:
            _log.warning(
                "fairlead: the webhook's host %s cannot be resolved: %s", target.host, error
            )
            return []

    def _check(self, target: WebhookUrl, addresses: list[str]) -> None:
        """Refuse a host with a private address; only the log names it.

        An unknown host gives the same error, so that nobody can probe the operator's names.
        """
        networks = self._networks()
        refused = [address for address in addresses if not networks.allows(address)]
        if refused:
            _log.warning(
                "fairlead: the webhook's host %s has the address %s, which is not public; "
                "nothing was sent; to allow it, set webhook_networks",
                target.host,
                ", ".join(refused),
            )
        if refused or not addresses:  # one private address among several may be an attack
            raise _Refused(f"{target.host} is unknown, or has no public address")

    def _request(self, target: WebhookUrl, sending: Sending) -> bytes:
        body = sending.body.encode()
        fields = {
            "host": target.authority,
            "content-type": "application/json",
            "content-length": str(len(body)),
            "user-agent": "fairlead-webhooks",
            "accept-encoding": "identity",
            "connection": "close",
            **headers(sending.secret, sending.id, self._clock(), body),
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"POST {target.path} HTTP/1.1\r\n{head}\r\n".encode("ascii") + body


class _Deadline:
    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def shorten(self, seconds: float) -> None:
        self._end = min(self._end, time.monotonic() + seconds)

    def left(self) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


def _first_that_answers(addresses: list[str], port: int, deadline: _Deadline) -> socket.socket:
    for address in addresses[:-1]:
        try:
            return socket.create_connection((address, port), timeout=deadline.left() / 2)
        except OSError:
            continue
    return socket.create_connection((addresses[-1], port), timeout=deadline.left())


def _post(connection: socket.socket, request: bytes, deadline: _Deadline) -> None:
    """Send all bytes within the deadline; `sendall` restarts its timeout for each TLS record."""
    unsent = memoryview(request)
    while unsent:
        connection.settimeout(deadline.left())
        unsent = unsent[connection.send(unsent[:16_384]) :]


class _BoundedReader(io.RawIOBase):
    """Reads a response until the deadline, and at most `MOST_BYTES`."""

    def __init__(self, connection: socket.socket, deadline: _Deadline) -> None:
        self._connection = connection
        self._deadline = deadline
        self._left = MOST_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override] # any buffer
        if not self._left:
            raise LineTooLong("response")
        self._connection.settimeout(self._deadline.left())
        number = self._connection.recv_into(buffer, min(self._left, len(buffer)))
        self._left -= number
        return number

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)


def _read_response(connection: socket.socket, deadline: _Deadline) -> WebhookResponse:
    reader = _BoundedReader(connection, deadline)
    response = HTTPResponse(reader, method="POST")  # type: ignore[arg-type] # only makefile is used
    with closing(response):
        response.begin()
        deadline.shorten(BODY_SECONDS)
        try:
            body = response.read(MOST_CHARACTERS)
        except (OSError, HTTPException, ValueError):
            body = b""
        text = body.decode("utf-8", "replace")
        printable = "".join(c if c.isprintable() else " " for c in text)
        return WebhookResponse(response.status, printable.strip())

"""One attempt at a delivery: look the name up, check the addresses, connect to one of them, post.

The name is looked up once, and the connection goes to an address that was checked: a name that
changes meanwhile changes nothing. No redirect is followed and no proxy is asked. One deadline holds
for all of it, and one limit for all bytes of the answer.
"""

from __future__ import annotations

import io
import logging
import socket
import ssl
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from http.client import HTTPException, HTTPResponse, LineTooLong
from threading import Thread
from typing import Protocol

from fairlead.errors import InvalidWebhook
from fairlead.model.webhooks import MOST_CHARACTERS, Sending, WebhookResponse
from fairlead.webhooks.addresses import Networks
from fairlead.webhooks.signing import headers
from fairlead.webhooks.urls import Target, parse

_log = logging.getLogger(__name__)

TIME_LIMIT = 15.0
BODY_SECONDS = 1.0
"""How long the body of an answer is waited for: its status has said all that counts."""
MOST_BYTES = 65_536
"""Of an answer, headers and all."""

Resolve = Callable[[str, int], list[str]]


class Send(Protocol):
    """Makes an attempt."""

    def __call__(self, sending: Sending) -> WebhookResponse:
        """What came of it; never raises for what a receiver does."""
        ...


class _Refused(Exception):
    """The address may not be spoken to."""


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, by the system's resolver."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


class Sender:
    """Makes attempts, from any thread. `clock` gives the time that receivers are told."""

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
        """Make one attempt; what goes wrong is an answer too."""
        deadline = _Deadline(self._time_limit)
        try:
            target = parse(sending.url)
            with closing(self._connect(target, deadline)) as connection:
                _post(connection, self._request(target, sending), deadline)
                return _answer(connection, deadline)
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

    def _connect(self, target: Target, deadline: _Deadline) -> socket.socket:
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

    def _addresses(self, target: Target, deadline: _Deadline) -> list[str]:
        """Where a host leads; nowhere, if nobody knows its name: why is for the operator's eyes."""
        try:
            return _looked_up(self._resolver, target, deadline)
        except TimeoutError:
            raise
        except (OSError, UnicodeError) as error:
            _log.warning("fairlead: the webhook's host %s is not found: %s", target.host, error)
            return []

    def _check(self, target: Target, addresses: list[str]) -> None:
        """Refuse a host that leads elsewhere than out; where to is only for the operator's eyes.

        In the same words as one that leads nowhere: else names of the operator's own would show.
        """
        networks = self._networks()
        bad = [each for each in addresses if not networks.allows(each)]
        if bad:
            _log.warning(
                "fairlead: the webhook's host %s leads to %s, which is not public; "
                "nothing was sent; to allow it, set webhook_networks",
                target.host,
                ", ".join(bad),
            )
        if bad or not addresses:  # one bad address of several: somebody is trying something
            raise _Refused(f"{target.host} is not known, or does not lead to a public address")

    def _request(self, target: Target, sending: Sending) -> bytes:
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
    """The end of the time for one attempt."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def at_most(self, seconds: float) -> None:
        """Let the end come this soon, if it would come later."""
        self._end = min(self._end, time.monotonic() + seconds)

    def left(self) -> float:
        """Seconds that are left; raises when there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


def _looked_up(resolver: Resolve, target: Target, deadline: _Deadline) -> list[str]:
    """The addresses of a host. Looked up in a thread: the system's resolver knows no deadline."""
    found: Future[list[str]] = Future()

    def look_up() -> None:
        try:
            found.set_result(resolver(target.host, target.port))
        except Exception as error:  # raised where it is waited for
            found.set_exception(error)

    Thread(target=look_up, name="fairlead-lookup", daemon=True).start()
    return found.result(deadline.left())


def _first_that_answers(addresses: list[str], port: int, deadline: _Deadline) -> socket.socket:
    for address in addresses[:-1]:
        try:
            return socket.create_connection((address, port), timeout=deadline.left() / 2)
        except OSError:
            continue
    return socket.create_connection((addresses[-1], port), timeout=deadline.left())


def _post(connection: socket.socket, request: bytes, deadline: _Deadline) -> None:
    """Send it all. `sendall` would grant a secure connection the time anew for each part."""
    left = memoryview(request)
    while left:
        connection.settimeout(deadline.left())
        left = left[connection.send(left[:16_384]) :]


class _Bounded(io.RawIOBase):
    """What a receiver sends, as long as time and bytes last."""

    def __init__(self, connection: socket.socket, deadline: _Deadline) -> None:
        self._connection = connection
        self._deadline = deadline
        self._left = MOST_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override] # any buffer
        if not self._left:
            raise LineTooLong("answer")
        self._connection.settimeout(self._deadline.left())
        got = self._connection.recv_into(buffer, min(self._left, len(buffer)))
        self._left -= got
        return got


class _Readable:
    """As much of a socket as an HTTP response asks for."""

    def __init__(self, raw: _Bounded) -> None:
        self._raw = raw

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self._raw)


def _answer(connection: socket.socket, deadline: _Deadline) -> WebhookResponse:
    response = HTTPResponse(_Readable(_Bounded(connection, deadline)), method="POST")  # type: ignore[arg-type] # it asks for no more
    with closing(response):
        response.begin()
        deadline.at_most(BODY_SECONDS)
        return WebhookResponse(response.status, _beginning(response))


def _beginning(response: HTTPResponse) -> str:
    """The first bytes of the body as safe text; a body that breaks off or lingers is none."""
    try:
        found = response.read(MOST_CHARACTERS)
    except (OSError, HTTPException, ValueError):
        found = b""
    text = found.decode("utf-8", "replace")
    return "".join(each if each.isprintable() else " " for each in text).strip()

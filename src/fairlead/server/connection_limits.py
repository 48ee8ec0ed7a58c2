"""Limits that uvicorn does not have for httptools: connections, headers, time between pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_BYTES_BETWEEN_REQUESTS = 1 << 20
"""Headers of a request, or the rest of a body that was refused. Several reads of the socket."""
_STATE_KEY = "fairlead_connection"


class LimitedConnection(asyncio.Protocol):
    """Passes a connection to uvicorn's protocol, and limits how long a request may take to arrive.

    The middleware reports when a request begins and ends. Bytes that arrive in between belong to
    headers, or to the rest of a body that was refused: both must end within `timeout` seconds, else
    the connection is closed. Within a request, each piece of the body must come within `timeout`
    seconds. One timer for each connection serves both, with less CPU than one for each piece.
    """

    def __init__(
        self, timeout: float, most: int, *, app_state: dict[str, Any], **arguments: Any
    ) -> None:
        self._http = HttpToolsProtocol(app_state=app_state | {_STATE_KEY: self}, **arguments)
        self.timeout = timeout
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._requests = 0
        """Being served; the next one may begin before the task of the one before has ended."""
        self._waiting_since: float | None = None
        self._waiting_bytes = 0
        self._cancel_request: Callable[[], object] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._waiting_since = self._loop.time()
        self._timer = self._loop.call_later(self.timeout, self._check_time)
        self._http.connection_made(transport)
        # uvicorn's limit_concurrency refuses requests, but keeps connections without one open.
        if len(self._http.connections) > self._most:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._http.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._requests:
            if self._waiting_since is None:
                self._waiting_since = self._loop.time()
            self._waiting_bytes += len(data)
            if self._waiting_bytes > MAX_BYTES_BETWEEN_REQUESTS:
                self._transport.abort()
                return
        self._http.data_received(data)

    def pause_writing(self) -> None:
        self._http.pause_writing()

    def resume_writing(self) -> None:
        self._http.resume_writing()

    def request_began(self) -> None:
        self._requests += 1
        self._waiting_since = None
        self._waiting_bytes = 0

    def request_ended(self) -> None:
        self._requests -= 1

    def body_awaited(self, cancel_request: Callable[[], object]) -> None:
        """The request waits for a piece of its body; it is cancelled when none comes in time."""
        self._cancel_request = cancel_request
        self._waiting_since = self._loop.time()

    def body_arrived(self) -> None:
        self._cancel_request = self._waiting_since = None

    @property
    def is_awaiting_body(self) -> bool:
        """Whether the request waits for a piece of its body, and has not been cancelled for it."""
        return self._cancel_request is not None

    def _check_time(self) -> None:
        now = self._loop.time()
        end = self.timeout + (now if self._waiting_since is None else self._waiting_since)
        if end <= now:
            if self._cancel_request is None:
                self._transport.abort()
                return
            self._cancel_request()
            self.body_arrived()
            end = now + self.timeout
        self._timer = self._loop.call_at(end, self._check_time)


def connection_of(scope: Scope) -> LimitedConnection | None:
    """The connection of a request; None without uvicorn, as in tests."""
    connection: LimitedConnection | None = scope.get("state", {}).get(_STATE_KEY)
    return connection

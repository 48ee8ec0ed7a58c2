"""HTTP on the wire: limits on headers and trailers, and on the time until they are there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from enum import Enum
from itertools import chain
from typing import ClassVar, cast

import httptools
from starlette.responses import Response
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from fairlead.errors import Message
from fairlead.server.headers import language_of
from fairlead.server.joined import Joined
from fairlead.server.plain import speak_plainly
from fairlead.server.problems import Problem
from fairlead.server.request_state import RequestConnection, hold_line

_log = logging.getLogger(__name__)

MOST_HEADER_BYTES = 32_768
"""Of the headers of a request, and just so of its trailers."""
LINGER_SECONDS = 5.0
"""Closed at once, what still comes would make the network drop the answer."""
STUCK_SECONDS = 3.0
"""Of a server that stops, for a reader who takes nothing."""


class _Part(Enum):
    """What of a request the next bytes belong to."""

    NONE = 0
    HEADERS = 1
    BODY = 2
    TRAILERS = 3  # or the content of a chunk, as long as none of it is there


_NONE, _HEADERS, _BODY, _TRAILERS = _Part


class Protocol(HttpToolsProtocol):
    """As uvicorn's, with problems for answers and patience with an end."""

    patience: ClassVar[float] = 20.0
    _timer: asyncio.TimerHandle | None = None
    _part = _NONE
    _has_moved = False
    """Whether the bytes at hand belong to more than one part."""
    _header_bytes = 0
    _trailer_bytes = 0
    _refusal: Response | None = None
    _is_over = False
    _line: RequestConnection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(cast("asyncio.Transport", Joined(transport, self.loop)))
        self._line = RequestConnection(transport.abort)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._wait_no_longer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes; headers without an end are refused before they fill the memory."""
        if self._refusal is not None:
            return
        self._has_moved = False
        self._unset_keepalive_if_required()
        self._read(data)
        if self._refusal is None:
            self._count(len(data))
            self._keep_waiting()

    def _read(self, data: bytes) -> None:
        """Nothing but HTTP/1 is spoken here: who wishes for another protocol is served in this one.

        The parser would take the body of such a request for something foreign, and what comes later
        for the next request. So its head is read once more, without the wish, and then the rest.
        """
        left = [memoryview(data)]
        while left and self._refusal is None:
            piece = left.pop()
            try:
                self.parser.feed_data(piece)
            except httptools.HttpParserUpgrade as wish:
                if self.parser.get_method() == b"CONNECT":
                    self._refuse_request()
                else:
                    left += [piece[wish.args[0] :], memoryview(self._head_without_wish())]
            except httptools.HttpParserError as error:
                fault = error.__context__
                if fault is not None and not isinstance(fault, httptools.HttpParserError):
                    _log.error("fairlead: a request could not be taken", exc_info=fault)  # by us
                self._refuse_request()

    def _head_without_wish(self) -> bytes:
        """The headers at hand as they came, but for `Upgrade`, for a parser that knows of none."""
        before = self.parser
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it
        version = b"HTTP/" + before.get_http_version().encode()
        lines = [b" ".join((before.get_method(), self.url, version))]
        lines += [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    def eof_received(self) -> bool:  # type: ignore[override]
        """Nothing more will come, but the other side may still read.

        What came whole gets its answer, what broke off its refusal; then the connection ends.
        """
        self._line.fall_silent()
        if self._part is not _NONE:
            self._refuse("invalid-request", Message("the connection ended before the request did"))
        if self._is_over or (self._refusal is None and self._is_free()):
            self.transport.close()
        elif self._refusal is None:
            self.cycle.keep_alive = False  # of the last request there is
        return True

    def on_message_begin(self) -> None:
        """The headers begin; most often they end with the bytes that are at hand."""
        if self._refusal is not None:
            return
        super().on_message_begin()
        hold_line(cast("Scope", self.scope), self._line)
        self._wait_no_longer()
        self._part = _HEADERS
        self._header_bytes = self._trailer_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; of a trailer, only how long it is."""
        if self._part is _HEADERS:
            HttpToolsProtocol.on_header(self, name, value)  # each time, `super` would cost more
            return
        self._trailer_bytes += len(name) + len(value)
        if self._trailer_bytes > MOST_HEADER_BYTES:
            self._refuse_headers()

    def on_headers_complete(self) -> None:
        """The headers are there."""
        if self._refusal is not None:
            return
        self._wait_no_longer()
        version = self.parser.get_http_version()
        size, is_clear = _looked_at(self.headers, version)
        if len(self.url) + size > MOST_HEADER_BYTES:
            self._refuse_headers()
        elif not is_clear:
            self._refuse_request()
        elif not self.parser.should_upgrade():  # else it is read once more
            super().on_headers_complete()
            self._move_to(_BODY)
            if version == "1.0":
                speak_plainly(self.cycle)

    def on_chunk_header(self) -> None:
        """After the length of a chunk comes its content, or trailers if it has none."""
        self._move_to(_TRAILERS)
        self._header_bytes = 0

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body."""
        self._move_to(_BODY)
        if self._refusal is None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is there."""
        if self._refusal is None and not self.parser.should_upgrade():
            self._wait_no_longer()
            self._move_to(_NONE)
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with the next request, or with the refusal that had to wait for this answer."""
        is_last = not self.pipeline
        super().on_response_complete()
        if is_last and not self.transport.is_closing():
            if self._refusal is not None:
                self._end(self._refusal)
            elif self._has_cycle():
                self._wait()  # nobody else waits for the rest of the request

    def shutdown(self) -> None:
        """The server stops: finish, unless the other side takes nothing of what is on its way."""
        super().shutdown()
        cast("Joined", self.transport).watch_reader(STUCK_SECONDS)

    def _refuse_request(self) -> None:
        self._refuse("invalid-request", Message("this is not a valid HTTP request"))

    def _refuse_headers(self) -> None:
        self._refuse(
            "header-too-large",
            Message(
                "headers may have {bytes} bytes in all, and so may trailers",
                bytes=MOST_HEADER_BYTES,
            ),
        )

    def _move_to(self, part: _Part) -> None:
        if self._part is not part:
            self._part = part
            self._has_moved = True

    def _has_cycle(self) -> bool:
        """Whether the request that is coming has been handed on."""
        return self._part in (_BODY, _TRAILERS)

    def _is_free(self) -> bool:
        """Whether all that was handed on is answered."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or cycle.response_complete

    def _count(self, size: int) -> None:
        """Bytes of several parts are not counted: where each of them began is not known."""
        if self._part in (_HEADERS, _TRAILERS) and not self._has_moved:
            self._header_bytes += size
            if self._header_bytes > MOST_HEADER_BYTES:
                self._refuse_headers()

    def _keep_waiting(self) -> None:
        """See to it that there is an end, now that bytes have come."""
        if self._refusal is not None:
            return
        if self._part is _HEADERS and self._timer is None:
            self._wait()
        elif self._part is _NONE and self._timer is None and self._is_free():
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _wait(self) -> None:
        self._wait_no_longer()
        self._timer = self.loop.call_later(self.patience, self._give_up)

    def _wait_no_longer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self._part is _HEADERS:
            seconds = float(self.patience)
            self._refuse(
                "too-slow", Message("the headers must come within {seconds} s", seconds=seconds)
            )
        else:
            self.transport.close()

    def _refuse(self, kind: str, detail: Message) -> None:
        """Let a problem be the last answer, after those to the requests before."""
        if self._refusal is not None or self.transport.is_closing():
            return
        self._wait_no_longer()
        self._refusal = Problem(kind, detail).response(language_of(self.headers or ()))
        if not self._has_cycle():
            if self._is_free():
                self._end(self._refusal)
        elif self.pipeline:
            self.pipeline.popleft()  # this request, which has not begun
        else:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self._end(None if self.cycle.response_started else self._refusal)

    def _end(self, answer: Response | None) -> None:
        """Answer, say no more, and close when the other side has or when it takes too long."""
        self._is_over = True
        if answer is not None:
            headers = [*answer.raw_headers, (b"connection", b"close")]
            lines = [name + b": " + value + b"\r\n" for name, value in headers]
            head = STATUS_LINE[answer.status_code] + b"".join(lines) + b"\r\n"
            self.transport.write(head + bytes(answer.body))
        self._unset_keepalive_if_required()
        if self._line.is_silent:
            self.transport.close()
            return
        self.transport.write_eof()
        self.flow.resume_reading()
        self._timer = self.loop.call_later(LINGER_SECONDS, self.transport.close)


def _looked_at(headers: Sequence[tuple[bytes, bytes]], version: str) -> tuple[int, bool]:
    """How long the headers are, and whether it is clear to all to whom and how far they lead.

    For that they must name one host, though HTTP/1.0 knew of none, and no coding but chunks.
    """
    names = [name for name, _ in headers]
    hosts, size = names.count(b"host"), sum(map(len, chain.from_iterable(headers)))
    is_led = hosts == 1 or (hosts == 0 and version == "1.0")
    return size, is_led and (b"transfer-encoding" not in names or _is_plain(headers))


def _is_plain(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    codings = [value for name, value in headers if name == b"transfer-encoding"]
    return all(each.strip().lower() == b"chunked" for each in codings)

"""HTTP on the wire: limits on headers and on the time until they are there."""

from __future__ import annotations

import asyncio
import json
from typing import Any, ClassVar, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from fairlead.api.joined import Joined
from fairlead.api.problems import MEDIA_TYPE, body

MOST_HEADER_BYTES = 32_768


class Protocol(HttpToolsProtocol):
    """As uvicorn's, with problems for answers and patience with an end."""

    patience: ClassVar[float] = 20.0
    _timer: asyncio.TimerHandle | None = None
    _header_bytes = 0
    _are_headers_due = True
    _is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(cast("asyncio.Transport", Joined(transport, self.loop)))
        self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._wait_no_longer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes; headers without an end are refused before they fill the memory."""
        if self._is_refused:
            return
        super().data_received(data)
        if self._are_headers_due and not self._is_refused:
            if self._timer is None:
                self._wait_for_headers()
            self._header_bytes += len(data)
            if self._header_bytes > MOST_HEADER_BYTES:
                self._refuse_headers()

    def on_message_begin(self) -> None:
        """The headers begin; most often they end with the bytes that are at hand."""
        super().on_message_begin()
        self._wait_no_longer()
        self._are_headers_due = True

    def on_headers_complete(self) -> None:
        """The headers are there."""
        self._wait_no_longer()
        self._are_headers_due = False
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > MOST_HEADER_BYTES:
            self._refuse_headers()
            return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body."""
        if not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is there."""
        if not self._is_refused:
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        self._refuse("invalid-request", f"this is not a valid HTTP request: {msg}")

    def _refuse_headers(self) -> None:
        self._refuse("header-too-large", f"headers may have {MOST_HEADER_BYTES:,} bytes in all")

    def _wait_for_headers(self) -> None:
        self._wait_no_longer()
        self._header_bytes = 0
        self._timer = self.loop.call_later(self.patience, self._give_up)

    def _wait_no_longer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self._header_bytes:
            self._refuse("too-slow", f"the headers must come within {self.patience:g} s")
        elif not self.transport.is_closing():
            self.transport.close()

    def _refuse(self, kind: str, detail: str) -> None:
        if self._is_refused or self.transport.is_closing():
            return
        self._is_refused = True
        self._wait_no_longer()
        shown: dict[str, Any] = body(kind, detail)
        content = json.dumps(shown).encode()
        self.transport.write(
            STATUS_LINE[shown["status"]]
            + f"content-type: {MEDIA_TYPE}\r\ncontent-length: {len(content)}\r\n".encode()
            + b"connection: close\r\n\r\n"
            + content
        )
        self.transport.close()

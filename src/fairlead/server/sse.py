"""Server-sent events: a response that goes on until its reader leaves or is too slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from prometheus_client import Gauge
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

PING_SECONDS = 15.0


class SseStream(Response):
    """Sends what `contents` yields; `closed` is called at the end, however it comes.

    A reader that takes nothing is cut off by TCP_USER_TIMEOUT, which the server's socket has.
    """

    media_type = "text/event-stream"

    def __init__(self, open_streams: Gauge) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._open_streams = open_streams

    def contents(self) -> AsyncIterator[bytes]:
        raise NotImplementedError

    def closed(self) -> None:
        raise NotImplementedError

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 (ASGI)
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        disconnected = asyncio.ensure_future(_disconnected(receive))
        self._open_streams.inc()
        try:
            async for content in self.contents():
                if disconnected.done():
                    break
                await send({"type": "http.response.body", "body": content, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            disconnected.cancel()
            self._open_streams.dec()
            self.closed()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

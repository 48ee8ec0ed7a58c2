"""Server-sent events: an answer that goes on until its reader goes or is too slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from prometheus_client import Gauge
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from fairlead.server.request_state import line_of

PING_SECONDS = 15.0
SLOW_SECONDS = 30.0
"""How long a reader may let its line be full before the connection is closed."""


class SseStream(Response):
    """Sends what `contents` yields; `closed` is called at the end, however it comes."""

    media_type = "text/event-stream"

    def __init__(self, open_streams: Gauge) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._open_streams = open_streams

    def contents(self) -> AsyncIterator[bytes]:
        """What is sent."""
        raise NotImplementedError

    def closed(self) -> None:
        """Let go of what the stream held."""
        raise NotImplementedError

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        watch, line = asyncio.ensure_future(_gone(receive)), line_of(scope)
        if line is not None:
            line.on_silence(watch.cancel)  # who says no more is gone, most often
        self._open_streams.inc()
        try:
            async for content in self.contents():
                if watch.done():
                    break
                async with asyncio.timeout(SLOW_SECONDS):
                    await send({"type": "http.response.body", "body": content, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except TimeoutError:  # its line was full for too long; nothing more would get through
            if line is not None:
                line.abort()
                await asyncio.wait([watch])
        finally:
            watch.cancel()
            self._open_streams.dec()
            self.closed()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

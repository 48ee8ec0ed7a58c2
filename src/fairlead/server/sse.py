"""Server-sent events: responses that end when the reader leaves or is too slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Generic, TypeVar

from prometheus_client import Gauge
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

T = TypeVar("T")


class StreamQueue(Generic[T]):
    """The items to send to one reader. If `customer` is None, the reader is an operator.

    The stream ends when more than `limit` items wait.
    """

    def __init__(self, limit: int, customer: str | None, key_id: str, session: str = "") -> None:
        self.customer = customer
        self.key_id = key_id
        self.session = session
        self.end: str | None = None
        self._limit = limit
        self._items: list[T] = []
        self._changed = asyncio.Event()

    def put(self, item: T) -> None:
        if self.end is None:
            self._items.append(item)
            if len(self._items) > self._limit:
                self.close("too-slow")
            self._changed.set()

    def close(self, reason: str) -> None:
        """End the stream. Waiting items are sent only if the server stops."""
        self.end = self.end or reason
        if reason != "stopping":
            self._items.clear()
        self._changed.set()

    async def take(self, seconds: float) -> list[T]:
        """The waiting items, or the next one; empty after so many seconds, or at the end."""
        if not self._items and self.end is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
        self._changed.clear()
        items, self._items = self._items, []
        return items


class SseResponse(Response):
    """Sends what a generator yields, and closes the generator at the end or on an error.

    The TCP_USER_TIMEOUT of the server's socket cuts off a reader that reads nothing.
    """

    media_type = "text/event-stream"

    def __init__(self, contents: AsyncGenerator[bytes, None], open_streams: Gauge) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._contents = contents
        self._open_streams = open_streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 (ASGI)
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        disconnected = asyncio.ensure_future(_disconnected(receive))
        self._open_streams.inc()
        try:
            async for content in self._contents:
                if disconnected.done():
                    break
                await send({"type": "http.response.body", "body": content, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            disconnected.cancel()
            self._open_streams.dec()
            await self._contents.aclose()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

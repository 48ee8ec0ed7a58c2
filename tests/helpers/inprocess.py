"""A server's application within the test: HTTP without a process and without a port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx

from fairlead import AsyncClient, Fairlead
from fairlead.server.app import create_app
from fairlead.server.context import ServerContext

T = TypeVar("T")
URL = "http://fairlead.test"


class InProcess:
    """An application with its installation, and clients of it."""

    def __init__(self, fairlead: Fairlead) -> None:
        self.fairlead = fairlead
        self.context = ServerContext(fairlead)
        self._transport = httpx.ASGITransport(create_app(self.context))

    def http(self, key: str | None = None) -> httpx.AsyncClient:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return httpx.AsyncClient(transport=self._transport, base_url=URL, headers=headers)

    def client(self, key: str) -> AsyncClient:
        return AsyncClient(URL, key, patience=0.0, http=self.http())


def in_process(
    data: Path,
    test: Callable[[InProcess], Awaitable[T]],
    settings: Mapping[str, Any] | None = None,
) -> T:
    """Run the test with an application on a fresh data folder."""

    async def run(fairlead: Fairlead) -> T:
        async with _opened(fairlead) as server:
            return await test(server)

    with Fairlead(data, settings=settings) as fairlead:
        return asyncio.run(run(fairlead))


@asynccontextmanager
async def _opened(fairlead: Fairlead) -> AsyncIterator[InProcess]:
    server = InProcess(fairlead)
    server.context.open()
    try:
        yield server
    finally:
        server.context.close()

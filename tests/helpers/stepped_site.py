"""An installation whose HTTP application runs in the thread that asks: for interleaved clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import httpx
import postgreskit
import pytest
from inprocess import URL
from steps_of_clients import make_steps
from storekit import fast_folder

from fairlead import Fairlead
from fairlead.intake import Offer
from fairlead.model.documents import Document
from fairlead.server.app import create_app
from fairlead.server.context import ServerContext

P = ParamSpec("P")
T = TypeVar("T")


class SteppedContext(ServerContext):
    """Blocking calls run where they are asked for, so that they are steps of the client."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.batcher.accept = self._accept  # type: ignore[method-assign]

    async def ask(self, call: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        return self._isolated(partial(call, *args, **named))()

    async def fetch(self, call: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        return await self.ask(call, *args, **named)

    async def _accept(self, offer: Offer) -> list[Document]:
        [outcome] = self.batcher._accept_each([offer])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


class SteppedSite:
    """Requests of clients with keys; each returns when it is answered."""

    def __init__(self, fairlead: Fairlead) -> None:
        self.fairlead = fairlead
        self._context = SteppedContext(fairlead)
        self._transport = httpx.ASGITransport(create_app(self._context))
        self.operator = fairlead.keys.add()[0]

    def request(self, key: str, method: str, path: str, **options: Any) -> httpx.Response:
        async def answered() -> httpx.Response:
            headers = {"Authorization": f"Bearer {key}"}
            client = httpx.AsyncClient(transport=self._transport, base_url=URL, headers=headers)
            async with client:
                return await client.request(method, path, **options)

        return asyncio.run(answered())

    def upload(self, key: str, content: bytes, **fields: str) -> httpx.Response:
        files = {"file": ("a.txt", content)}
        return self.request(key, "POST", "/v1/documents", files=files, data=fields)

    def close(self) -> None:
        self._context.close()


@contextmanager
def stepped_site(store: str, settings: dict[str, Any]) -> Iterator[SteppedSite]:
    """An installation on this kind of store, whose locks, statements and files are steps."""
    with pytest.MonkeyPatch.context() as patch, fast_folder() as folder:
        make_steps(patch, folder)
        if store == "sqlite":
            with _opened(folder, settings) as site:
                yield site
            return
        with postgreskit.lent(folder):
            own = settings | {"store": postgreskit.url_for(folder)}
            with _opened(folder, own) as site:
                yield site


@contextmanager
def _opened(folder: Path, settings: dict[str, Any]) -> Iterator[SteppedSite]:
    with Fairlead(folder / "data", settings=settings) as fairlead:
        fairlead.services.use_quotas()
        site = SteppedSite(fairlead)
        try:
            yield site
        finally:
            site.close()

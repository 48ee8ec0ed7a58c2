"""An installation whose HTTP application runs in the thread that asks: for interleaved clients."""

from __future__ import annotations

import asyncio
import time
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
from storekit import Clock, fast_folder

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

    def __init__(
        self, fairlead: Fairlead, clock: Clock, operator: str, settings: dict[str, Any]
    ) -> None:
        self.fairlead = fairlead
        self.clock = clock
        self.operator = operator
        self._settings = settings
        self._context = SteppedContext(fairlead)
        self._transport = httpx.ASGITransport(create_app(self._context))

    def request(self, key: str, method: str, path: str, **options: Any) -> httpx.Response:
        async def answered() -> httpx.Response:
            async with httpx.AsyncClient(transport=self._transport, base_url=URL) as client:
                client.headers["Authorization"] = f"Bearer {key}"
                return await client.request(method, path, **options)

        return asyncio.run(answered())

    def upload(
        self, key: str, content: bytes, *, idempotency_key: str | None = None, **fields: str
    ) -> httpx.Response:
        files = {"file": ("a.txt", content)}
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        path = "/v1/documents"
        return self.request(key, "POST", path, files=files, data=fields, headers=headers)

    @contextmanager
    def other_server(self) -> Iterator[SteppedSite]:
        """Another server with the same data."""
        path, settings = self.fairlead.folder.path, self._settings
        with Fairlead(path, settings=settings, clock=self.clock) as fairlead:
            site = SteppedSite(fairlead, self.clock, self.operator, settings)
            try:
                yield site
            finally:
                site.close()

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
    clock = Clock(time.time())
    with Fairlead(folder / "data", settings=settings, clock=clock) as fairlead:
        fairlead.services.use_quotas()
        site = SteppedSite(fairlead, clock, fairlead.keys.add()[0], settings)
        try:
            yield site
        finally:
            site.close()

"""Runs the tests of `Client` with `AsyncClient` too."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from typing import Any, cast

from fairlead import AsyncClient, Client

Connect = Callable[..., Client]


class Blocking:
    """An async object with the calls of its sync twin, each run to its end on one event loop."""

    def __init__(self, runner: asyncio.Runner, wrapped: Any) -> None:
        self._runner = runner
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        return self._plain(getattr(self._wrapped, name))

    def __iter__(self) -> Iterator[Any]:
        items = aiter(self._wrapped)
        while (item := self._runner.run(_next(items))) is not END:
            yield item

    def __next__(self) -> Any:
        return next(iter(self))

    def __enter__(self) -> Blocking:
        return self

    def __exit__(self, *_error: object) -> None:
        self._runner.run(self._wrapped.close())
        self._runner.close()

    def _plain(self, value: Any) -> Any:
        if inspect.isawaitable(value):
            value = self._runner.run(_awaited(value))
        if inspect.ismethod(value):
            return lambda *args, **options: self._plain(value(*args, **options))
        is_async = hasattr(value, "__aiter__") or type(value).__name__.startswith("Async")
        return Blocking(self._runner, value) if is_async else value


END = object()


async def _next(items: Any) -> Any:
    return await anext(items, END)


async def _awaited(value: Any) -> Any:
    return await value


def connect_async(*args: Any, **options: Any) -> Client:
    """An `AsyncClient` that tests use as they use a `Client`."""
    return cast("Client", Blocking(asyncio.Runner(), AsyncClient(*args, **options)))

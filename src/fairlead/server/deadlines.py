"""Patience with an end, for many who nearly never wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar, cast

T = TypeVar("T")


class Patience:
    """Ends waits that take too long. As `asyncio.timeout`, with one timer for all who wait.

    Most of what is waited for is there already, and a timer each would cost more than the rest.
    """

    def __init__(self) -> None:
        self._until: dict[asyncio.Task[object], float] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def within(self, seconds: float, coming: Awaitable[T]) -> T:
        """What is coming; raises TimeoutError if it does not come within so many seconds."""
        loop = asyncio.get_running_loop()
        task = cast("asyncio.Task[object]", asyncio.current_task())
        self._until[task] = until = loop.time() + seconds
        if self._timer is None or until < self._timer.when():
            self._look_at(until)
        try:
            return await coming
        except asyncio.CancelledError:
            if self._until[task] or task.uncancel():
                raise  # somebody else ends it
            raise TimeoutError from None
        finally:
            del self._until[task]

    def _look_at(self, moment: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(moment, self._look)

    def _look(self) -> None:
        """End the waits that are over, and come again for the next."""
        self._timer = None
        now = asyncio.get_running_loop().time()
        for task, until in self._until.items():
            if 0 < until <= now:
                self._until[task] = 0
                task.cancel()
        left = [until for until in self._until.values() if until]
        if left:
            self._look_at(min(left))

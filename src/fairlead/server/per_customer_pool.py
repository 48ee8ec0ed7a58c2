"""A thread pool for calls that wait for another machine, with a limit for each customer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

THREADS = 32
THREADS_PER_CUSTOMER = THREADS // 4
"""Slow files of one customer must not delay the others."""


class PerCustomerPool:
    """Runs calls in threads. Calls of a customer beyond THREADS_PER_CUSTOMER wait."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix=name)
        self._is_closed = False
        self._running: dict[str | None, tuple[asyncio.Semaphore, int]] = {}

    async def run(self, customer: str | None, call: Callable[[], T]) -> T:
        """The call's result. A call that is cancelled before it starts never runs."""
        semaphore, number = self._running.get(
            customer, (asyncio.Semaphore(THREADS_PER_CUSTOMER), 0)
        )
        self._running[customer] = (semaphore, number + 1)
        try:
            async with semaphore:
                if self._is_closed:
                    raise asyncio.CancelledError
                return await asyncio.get_running_loop().run_in_executor(self._pool, call)
        finally:
            semaphore, number = self._running.pop(customer)
            if number > 1:
                self._running[customer] = (semaphore, number - 1)

    def close(self) -> None:
        self._is_closed = True
        self._pool.shutdown(cancel_futures=True)

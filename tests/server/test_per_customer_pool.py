"""The pool that customers share: none can use all threads, none waits for another's calls."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from queue import Queue
from threading import Event
from typing import Any

import pytest

from fairlead.server.per_customer_pool import THREADS_PER_CUSTOMER, PerCustomerPool


class Slow:
    """A call that reports its start, and ends when the test permits."""

    def __init__(self) -> None:
        self.starts = Queue[int]()
        self.may_end = Event()

    def __call__(self) -> int:
        self.starts.put(1)
        self.may_end.wait()
        return 1

    async def all_begun(self) -> None:
        for _ in range(THREADS_PER_CUSTOMER):
            await asyncio.to_thread(self.starts.get)


def run(test: Coroutine[Any, Any, None], pool: PerCustomerPool) -> None:
    asyncio.run(test)
    pool.close()
    assert pool._running == {}


def test_no_customer_has_more_than_its_share() -> None:
    pool, slow = PerCustomerPool("test"), Slow()

    async def share() -> None:
        number = 5 * THREADS_PER_CUSTOMER
        calls = asyncio.gather(*(pool.run("acme", slow) for _ in range(number)))
        await slow.all_begun()
        assert await pool.run("globex", lambda: "at once") == "at once"
        assert await pool.run(None, lambda: "too") == "too"
        assert slow.starts.empty()
        slow.may_end.set()
        assert sum(await calls) == number

    run(share(), pool)


def test_an_error_is_for_who_asked_and_ends_nothing() -> None:
    pool = PerCustomerPool("test")

    async def fail() -> None:
        for _ in range(2 * THREADS_PER_CUSTOMER):
            with pytest.raises(ZeroDivisionError):
                await pool.run("acme", lambda: 1 // 0)
        assert await pool.run("acme", lambda: 2) == 2

    run(fail(), pool)


def test_what_has_not_begun_can_be_taken_back() -> None:
    pool, slow = PerCustomerPool("test"), Slow()

    async def take_back() -> None:
        running = asyncio.gather(*(pool.run("acme", slow) for _ in range(THREADS_PER_CUSTOMER)))
        await slow.all_begun()
        waiting = asyncio.ensure_future(pool.run("acme", slow))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        slow.may_end.set()
        await running
        assert waiting.cancelled()
        assert slow.starts.empty()

    run(take_back(), pool)

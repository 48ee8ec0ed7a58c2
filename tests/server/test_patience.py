"""Patience with an end: many who wait, one timer."""

from __future__ import annotations

import asyncio

import pytest

from fairlead.server.deadlines import Patience

LONG, SHORT = 3600.0, 0.001


async def never() -> None:
    await asyncio.get_running_loop().create_future()


async def at_once() -> str:
    return "here"


def test_what_comes_in_time_comes_through() -> None:
    async def wait() -> str:
        return await Patience().within(LONG, at_once())

    assert asyncio.run(wait()) == "here"


def test_what_does_not_come_ends_in_a_timeout_and_the_task_goes_on() -> None:
    async def wait() -> int:
        with pytest.raises(TimeoutError):
            await Patience().within(SHORT, never())
        task = asyncio.current_task()
        assert task is not None
        await asyncio.sleep(0)  # a cancellation that is left would end it here
        return task.cancelling()

    assert asyncio.run(wait()) == 0


def test_who_has_less_patience_ends_first_though_another_came_before() -> None:
    async def wait() -> bool:
        patience = Patience()
        patient = asyncio.create_task(patience.within(LONG, never()))
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await patience.within(SHORT, never())
        is_left = not patient.done()
        patient.cancel()
        await asyncio.wait([patient])
        return is_left and patient.cancelled()

    assert asyncio.run(wait())


def test_each_of_many_ends_in_its_time() -> None:
    async def wait() -> list[object]:
        patience = Patience()
        many = [patience.within(SHORT * number, never()) for number in range(1, 21)]
        return list(await asyncio.gather(*many, return_exceptions=True))

    assert all(isinstance(each, TimeoutError) for each in asyncio.run(wait()))


def test_an_end_that_another_asks_for_is_no_timeout() -> None:
    async def wait() -> bool:
        patience = Patience()
        task = asyncio.create_task(patience.within(LONG, never()))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(wait())


def test_an_end_for_both_reasons_is_no_timeout() -> None:
    async def wait() -> bool:
        patience = Patience()
        task = asyncio.create_task(patience.within(0.0, never()))
        await asyncio.sleep(0)  # it waits
        patience._look()  # both in one turn of the loop
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(wait())

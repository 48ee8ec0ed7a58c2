"""Uploads that arrive together share a batch, and no upload waits for ones that never arrive."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from fairlead.app import Fairlead
from fairlead.intake import Offer
from fairlead.server import upload_batcher
from fairlead.server.upload_batcher import UploadBatcher


class Noting:
    """Accepts every offer, and records the sizes of batches."""

    is_far = False

    def __init__(self) -> None:
        self.batches: list[int] = []

    @property
    def intake(self) -> Noting:
        return self

    def goes_far(self, _offer: Offer) -> bool:
        return self.is_far

    def accept_each(self, offers: list[Offer]) -> list[list[Any]]:
        self.batches.append(len(offers))
        return [[] for _ in offers]


class Gate(Noting):
    """Starts a batch, and ends it when the test permits."""

    def __init__(self, *, is_far: bool = False) -> None:
        super().__init__()
        self.is_far = is_far
        self.has_begun, self.may_end = threading.Event(), threading.Event()

    def accept_each(self, offers: list[Offer]) -> list[list[Any]]:
        self.has_begun.set()
        self.may_end.wait()
        return [[offer.customer] for offer in offers]


class Busy:
    """The clock of a busy event loop; calls `then` after some readings."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self._now = 0.0
        self._looks = 0
        self._then = then

    def __call__(self) -> float:
        self._now += 1.0
        self._looks += 1
        if self._looks == 10:
            self._then()
        return self._now


@pytest.fixture
def noting() -> Noting:
    return Noting()


@pytest.fixture
def batcher(noting: Noting) -> Iterator[UploadBatcher]:
    upload_batcher = UploadBatcher(cast("Fairlead", noting))
    yield upload_batcher
    upload_batcher.close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the batcher wait as long as uploads may still arrive."""
    monkeypatch.setattr(upload_batcher, "QUIET_SECONDS", 3600)


async def one_after_another(batcher: UploadBatcher, number: int) -> None:
    for _ in range(number):
        await batcher.accept(Offer("acme", []))


async def beside_each_other(batcher: UploadBatcher, *numbers: int) -> None:
    """Clients that send so many documents each, one after another."""
    await asyncio.gather(*(one_after_another(batcher, number) for number in numbers))


@pytest.mark.usefixtures("patient")
def test_who_sends_alone_waits_for_nobody(batcher: UploadBatcher, noting: Noting) -> None:
    asyncio.run(beside_each_other(batcher, 3))
    assert noting.batches == [1, 1, 1]


@pytest.mark.usefixtures("patient")
def test_a_batch_waits_for_those_who_were_just_answered(
    batcher: UploadBatcher, noting: Noting
) -> None:
    asyncio.run(beside_each_other(batcher, 3, 3, 3))
    assert noting.batches == [3, 3, 3]


def test_those_who_do_not_come_are_not_waited_for(batcher: UploadBatcher, noting: Noting) -> None:
    asyncio.run(beside_each_other(batcher, 1, 2, 2, 3))
    assert noting.batches == [4, 3, 1]


def test_a_busy_loop_may_still_bring_them(
    batcher: UploadBatcher, noting: Noting, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def late() -> None:
        await beside_each_other(batcher, 1, 1)
        came = asyncio.Event()
        monkeypatch.setattr(upload_batcher, "monotonic", Busy(came.set))
        first = asyncio.ensure_future(beside_each_other(batcher, 1))
        await came.wait()
        await beside_each_other(batcher, 1)
        await first

    monkeypatch.setattr(upload_batcher, "MAX_WAIT", 3600)
    asyncio.run(late())
    assert noting.batches == [2, 2]


def test_but_not_for_ever(
    batcher: UploadBatcher, noting: Noting, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def alone_after_two() -> None:
        await beside_each_other(batcher, 1, 1)
        monkeypatch.setattr(upload_batcher, "monotonic", Busy())
        await beside_each_other(batcher, 1)

    asyncio.run(alone_after_two())
    assert noting.batches == [2, 1]


@pytest.mark.usefixtures("patient")
def test_no_batch_is_larger_than_the_largest(
    batcher: UploadBatcher, noting: Noting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload_batcher, "MAX_BATCH", 2)
    asyncio.run(beside_each_other(batcher, 1, 1, 1, 1))
    assert noting.batches == [2, 2]


def test_who_waits_when_it_closes_is_not_left_waiting() -> None:
    gate = Gate()
    batcher = UploadBatcher(cast("Fairlead", gate))

    async def closed_meanwhile() -> list[Any]:
        first = asyncio.ensure_future(batcher.accept(Offer("first", [])))
        await asyncio.to_thread(gate.has_begun.wait)
        others = [asyncio.ensure_future(batcher.accept(Offer("other", []))) for _ in range(2)]
        await asyncio.sleep(0)
        gate.may_end.set()
        batcher.close()
        return await asyncio.gather(first, *others, return_exceptions=True)

    first, *others = asyncio.run(closed_meanwhile())
    assert first == ["first"]
    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in others)


def test_who_comes_after_it_closed_is_not_left_waiting(batcher: UploadBatcher) -> None:
    batcher.close()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(beside_each_other(batcher, 1))


def test_no_batch_waits_for_what_goes_far() -> None:
    class Far(Noting):
        """Another machine, which answers to one customer and lets two wait."""

        waits = threading.Barrier(3)

        def goes_far(self, offer: Offer) -> bool:
            return offer.customer != "near"

        def accept_each(self, offers: list[Offer]) -> list[list[Any]]:
            if self.goes_far(offers[0]):
                self.waits.wait()
            return super().accept_each(offers)

    far = Far()
    batcher = UploadBatcher(cast("Fairlead", far))

    async def beside() -> None:
        others = [
            asyncio.ensure_future(batcher.accept(Offer(customer, []))) for customer in ("a", "b")
        ]
        for _ in range(2):
            assert await batcher.accept(Offer("near", [])) == []
        assert far.batches == [1, 1]
        await asyncio.to_thread(far.waits.wait)
        assert await asyncio.gather(*others) == [[], []]

    asyncio.run(beside())
    batcher.close()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(batcher.accept(Offer("far", [])))


def test_who_is_cut_off_far_away_is_told_what_became_of_it() -> None:
    gate = Gate(is_far=True)
    batcher = UploadBatcher(cast("Fairlead", gate))

    async def cut_off() -> list[Any]:
        task = asyncio.ensure_future(batcher.accept(Offer("acme", [])))
        await asyncio.to_thread(gate.has_begun.wait)
        task.cancel()
        await asyncio.sleep(0)
        gate.may_end.set()
        return await task

    assert asyncio.run(cut_off()) == ["acme"]
    batcher.close()


def test_what_has_not_begun_far_away_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the server stops, whether the client is still connected or not."""
    monkeypatch.setattr("fairlead.server.per_customer_pool.THREADS_PER_CUSTOMER", 1)
    gate = Gate(is_far=True)
    batcher = UploadBatcher(cast("Fairlead", gate))

    async def taken_back() -> list[Any]:
        running, cut_off, left = [
            asyncio.ensure_future(batcher.accept(Offer("acme", []))) for _ in range(3)
        ]
        await asyncio.to_thread(gate.has_begun.wait)
        cut_off.cancel()
        closing = asyncio.ensure_future(asyncio.to_thread(batcher.close))
        while not batcher._far._is_closed:
            await asyncio.sleep(0)
        gate.may_end.set()
        await closing
        return list(await asyncio.gather(running, cut_off, left, return_exceptions=True))

    outcome, *others = asyncio.run(taken_back())
    assert outcome == ["acme"]
    assert all(isinstance(other, asyncio.CancelledError) for other in others)


def test_who_is_cut_off_is_told_what_became_of_its_documents() -> None:
    """A request must not be refused when its documents are stored."""
    gate = Gate()
    batcher = UploadBatcher(cast("Fairlead", gate))

    async def cut_off() -> list[Any]:
        accept = batcher.accept
        tasks = [asyncio.ensure_future(accept(Offer(name, []))) for name in ("first", "second")]
        await asyncio.to_thread(gate.has_begun.wait)
        for _ in range(3):  # as often as a server may do that
            for task in tasks:
                task.cancel()
            await asyncio.sleep(0)
        gate.may_end.set()
        outcomes: list[Any] = await asyncio.gather(*tasks)
        return outcomes

    assert asyncio.run(cut_off()) == [["first"], ["second"]]
    batcher.close()


def test_a_batch_that_fails_as_a_whole_fails_for_each_request(
    batcher: UploadBatcher, noting: Noting, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_offers: Any) -> list[list[Any]]:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(noting, "accept_each", fail)

    async def both() -> list[Any]:
        calls = [batcher.accept(Offer("acme", [])) for _ in range(2)]
        return await asyncio.gather(*calls, return_exceptions=True)

    assert [str(error) for error in asyncio.run(both())] == ["can't start new thread"] * 2

"""Uploads that come together share a batch, and nobody waits for others who do not come."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from fairlead.app import Fairlead
from fairlead.intake import Offer
from fairlead.model.ports import OnPlaced
from fairlead.server import per_customer_pool as shares
from fairlead.server import upload_batcher as module
from fairlead.server.upload_batcher import UploadBatcher


class Noting:
    """Accepts everything, and notes how many came together."""

    is_far = False

    def __init__(self) -> None:
        self.batches: list[int] = []

    def goes_far(self, _offer: Offer) -> bool:
        return self.is_far

    def accept_each(
        self,
        offers: list[Offer],
        on_placed: OnPlaced | None = None,
    ) -> list[list[Any]]:
        self.batches.append(len(offers))
        return [[] for _ in offers]


def as_they_are(documents: list[Any]) -> list[Any]:
    return documents


class Busy:
    """The time of a loop that is late with everything; calls `then` after a while."""

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
def upload_batcher(noting: Noting) -> Iterator[UploadBatcher]:
    made = UploadBatcher(cast("Fairlead", noting))
    yield made
    made.close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody comes too late."""
    monkeypatch.setattr(module, "QUIET_SECONDS", 3600)


async def one_after_another(upload_batcher: UploadBatcher, number: int) -> None:
    for _ in range(number):
        await upload_batcher.accept(Offer("acme", []), as_they_are)


async def beside_each_other(upload_batcher: UploadBatcher, *numbers: int) -> None:
    """Clients who send so many each, always the next when they got their answer."""
    await asyncio.gather(*(one_after_another(upload_batcher, number) for number in numbers))


@pytest.mark.usefixtures("patient")
def test_who_sends_alone_waits_for_nobody(upload_batcher: UploadBatcher, noting: Noting) -> None:
    asyncio.run(beside_each_other(upload_batcher, 3))
    assert noting.batches == [1, 1, 1]


@pytest.mark.usefixtures("patient")
def test_a_batch_waits_for_those_who_were_just_answered(
    upload_batcher: UploadBatcher, noting: Noting
) -> None:
    asyncio.run(beside_each_other(upload_batcher, 4, 3, 3))
    assert noting.batches == [1, 3, 3, 3]


def test_those_who_do_not_come_are_not_waited_for(
    upload_batcher: UploadBatcher, noting: Noting
) -> None:
    asyncio.run(beside_each_other(upload_batcher, 1, 2, 2, 3))
    assert noting.batches == [1, 3, 3, 1]


def test_who_was_just_answered_gets_the_time_to_come_back(
    upload_batcher: UploadBatcher, noting: Noting, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def over_a_line() -> None:
        """As many turns of the loop as an answer and the next request take."""
        for _ in range(3):
            await upload_batcher.accept(Offer("acme", []), as_they_are)
            await asyncio.sleep(0)

    async def three() -> None:
        await asyncio.gather(over_a_line(), over_a_line(), over_a_line())

    monkeypatch.setattr(module, "QUIET_SECONDS", 0)
    monkeypatch.setattr(module, "monotonic", lambda: 0.0)  # the loop is never late
    asyncio.run(three())
    assert noting.batches == [1, 3, 3, 2]


def test_a_busy_loop_may_still_bring_them(
    upload_batcher: UploadBatcher, noting: Noting, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def late() -> None:
        came = asyncio.Event()
        monkeypatch.setattr(module, "monotonic", Busy(came.set))
        others = asyncio.ensure_future(beside_each_other(upload_batcher, 1, 1))
        await came.wait()
        await beside_each_other(upload_batcher, 1)
        await others

    monkeypatch.setattr(module, "LONGEST_WAIT", 3600)
    asyncio.run(late())
    assert noting.batches == [1, 2]


def test_but_not_for_ever(
    upload_batcher: UploadBatcher, noting: Noting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "monotonic", Busy())
    asyncio.run(beside_each_other(upload_batcher, 1, 1))
    assert noting.batches == [1, 1]


@pytest.mark.usefixtures("patient")
def test_no_batch_is_larger_than_the_largest(
    upload_batcher: UploadBatcher, noting: Noting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_TOGETHER", 2)
    asyncio.run(beside_each_other(upload_batcher, 1, 1, 1, 1, 1))
    assert noting.batches == [1, 2, 2]


def test_who_waits_when_it_closes_is_not_left_waiting(
    upload_batcher: UploadBatcher, noting: Noting
) -> None:
    async def closed_meanwhile() -> list[Any]:
        offers = [upload_batcher.accept(Offer("acme", []), as_they_are) for _ in range(3)]
        answers = asyncio.gather(*offers, return_exceptions=True)
        await asyncio.sleep(0)  # the first has begun, the others wait
        upload_batcher.close()
        return await answers

    first, *others = asyncio.run(closed_meanwhile())
    assert first == []
    assert all(isinstance(each, asyncio.CancelledError) for each in others)
    assert noting.batches == [1]


def test_who_comes_after_it_closed_is_not_left_waiting(upload_batcher: UploadBatcher) -> None:
    upload_batcher.close()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(beside_each_other(upload_batcher, 1))


class Gate(Noting):
    """Begins a batch, and goes on when it may."""

    def __init__(self, *, is_far: bool = False) -> None:
        super().__init__()
        self.is_far = is_far
        self.begun, self.may_end = threading.Event(), threading.Event()

    def accept_each(
        self,
        offers: list[Offer],
        on_placed: OnPlaced | None = None,
    ) -> list[list[Any]]:
        self.begun.set()
        self.may_end.wait()
        return [[offer.customer] for offer in offers]


def test_no_batch_waits_for_what_goes_far() -> None:
    class Far(Noting):
        """Another machine, which answers to one customer and lets two wait."""

        waits = threading.Barrier(3)

        def goes_far(self, offer: Offer) -> bool:
            return offer.customer != "near"

        def accept_each(
            self,
            offers: list[Offer],
            on_placed: OnPlaced | None = None,
        ) -> list[list[Any]]:
            if self.goes_far(offers[0]):
                self.waits.wait()
            return super().accept_each(offers, on_placed)

    far = Far()
    upload_batcher = UploadBatcher(cast("Fairlead", far))

    async def beside() -> None:
        others = [
            asyncio.ensure_future(upload_batcher.accept(Offer(each, []), as_they_are))
            for each in ("a", "b")
        ]
        for _ in range(2):
            assert await upload_batcher.accept(Offer("near", []), as_they_are) == []
        assert far.batches == [1, 1]
        await asyncio.to_thread(far.waits.wait)
        assert await asyncio.gather(*others) == [[], []]

    asyncio.run(beside())
    upload_batcher.close()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(upload_batcher.accept(Offer("far", []), as_they_are))


class File:
    """Of which only matters whether it is gone."""

    is_discarded = False

    def discard(self) -> None:
        self.is_discarded = True


def test_who_is_cut_off_far_away_is_told_what_became_of_it() -> None:
    gate = Gate(is_far=True)
    upload_batcher = UploadBatcher(cast("Fairlead", gate))

    async def cut_off() -> list[Any]:
        task = asyncio.ensure_future(upload_batcher.accept(Offer("acme", []), as_they_are))
        await asyncio.to_thread(gate.begun.wait)
        task.cancel()
        await asyncio.sleep(0)
        gate.may_end.set()
        return await task

    assert asyncio.run(cut_off()) == ["acme"]
    upload_batcher.close()


def test_what_has_not_begun_far_away_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """When its request is cut off, and when the server stops."""
    monkeypatch.setattr(shares, "SHARE", 1)
    gate = Gate(is_far=True)
    upload_batcher = UploadBatcher(cast("Fairlead", gate))
    files = [File(), File(), File()]

    async def taken_back() -> list[Any]:
        offers = [Offer("acme", [(cast("Any", each), "a")]) for each in files]
        begun, cut_off, left = [
            asyncio.ensure_future(upload_batcher.accept(each, as_they_are)) for each in offers
        ]
        await asyncio.to_thread(gate.begun.wait)
        cut_off.cancel()
        await asyncio.wait([cut_off])
        closing = asyncio.ensure_future(asyncio.to_thread(upload_batcher.close))
        await asyncio.wait([left])
        gate.may_end.set()
        await closing
        found: list[Any] = await asyncio.gather(begun, cut_off, left, return_exceptions=True)
        return found

    told, *others = asyncio.run(taken_back())
    assert told == ["acme"]
    assert all(isinstance(each, asyncio.CancelledError) for each in others)
    assert [each.is_discarded for each in files] == [False, True, True]


def test_who_is_cut_off_is_accepted_or_takes_its_documents_back() -> None:
    """It is never told that its documents were refused when they are stored."""
    gate = Gate()
    upload_batcher = UploadBatcher(cast("Fairlead", gate))
    first, second = File(), File()

    async def cut_off() -> list[Any]:
        offers = [Offer(name, [(cast("Any", each), "a")]) for name, each in named.items()]
        tasks = [asyncio.ensure_future(upload_batcher.accept(each, as_they_are)) for each in offers]
        await asyncio.to_thread(gate.begun.wait)
        for _ in range(3):  # as often as a server may do that
            for each in tasks:
                each.cancel()
            await asyncio.sleep(0)
        gate.may_end.set()
        found: list[Any] = await asyncio.gather(*tasks, return_exceptions=True)
        return found

    named = {"first": first, "second": second}
    told, other = asyncio.run(cut_off())
    upload_batcher.close()
    assert told == ["first"]
    assert isinstance(other, asyncio.CancelledError)
    assert (first.is_discarded, second.is_discarded) == (False, True)


def test_a_batch_that_fails_as_a_whole_leaves_nothing_behind(
    upload_batcher: UploadBatcher, noting: Noting, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_given: Any) -> list[list[Any]]:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(noting, "accept_each", fail)
    file = File()
    with pytest.raises(RuntimeError, match="new thread"):
        asyncio.run(upload_batcher.accept(Offer("acme", [(cast("Any", file), "a")]), as_they_are))
    assert file.is_discarded


def test_who_is_cut_off_alone_leaves_no_batch_of_nobody(
    upload_batcher: UploadBatcher, noting: Noting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "QUIET_SECONDS", 0)

    async def cut_off() -> None:
        await beside_each_other(upload_batcher, 1, 1)  # so one more is expected next time
        task = asyncio.ensure_future(upload_batcher.accept(Offer("acme", []), as_they_are))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await beside_each_other(upload_batcher, 1)

    asyncio.run(cut_off())
    assert 0 not in noting.batches


class Placing(Gate):
    """Tells what will be accepted, and accepts it when it may; or something else."""

    def __init__(self, answers: list[list[Any]]) -> None:
        super().__init__()
        self.answers = answers

    def accept_each(
        self, offers: list[Offer], on_placed: OnPlaced | None = None
    ) -> list[list[Any]]:
        placed: list[list[Any]] = [[offer.customer] for offer in offers]
        assert on_placed is not None
        on_placed(cast("Any", placed))
        self.may_end.wait()
        return self.answers or placed


@pytest.mark.parametrize("answers", [[], [["another"]]])
def test_answers_are_prepared_while_the_disk_is_waited_for(answers: list[list[Any]]) -> None:
    """They leave when the documents are safe, and only if they were accepted as they were shown."""
    gate = Placing(answers)
    upload_batcher = UploadBatcher(cast("Fairlead", gate))
    shown: list[list[Any]] = []

    async def accept() -> Any:
        prepared = asyncio.Event()

        def show(documents: list[Any]) -> int:
            shown.append(documents)
            prepared.set()
            return len(shown)

        task = asyncio.ensure_future(upload_batcher.accept(Offer("acme", []), show))
        await prepared.wait()
        assert not task.done()
        gate.may_end.set()
        return await task

    assert asyncio.run(accept()) == len(shown) == (2 if answers else 1)
    assert shown == [["acme"], *answers]
    upload_batcher.close()

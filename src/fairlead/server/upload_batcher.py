"""Submissions that arrive together share the waits for the disk, of files and of the store."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, TypeVar

from fairlead.app import Fairlead
from fairlead.intake import Offer
from fairlead.model.documents import Document
from fairlead.model.ports import OnPlaced
from fairlead.server.per_customer_pool import SharedThreads

MOST_TOGETHER = 64
QUIET_SECONDS = 0.001
"""How long nobody comes or is answered, and the loop is idle, before a batch begins."""
LONGEST_WAIT = 0.02
"""Then it begins in any case."""

T = TypeVar("T")
Show = Callable[[list[Document]], Any]
Answer = asyncio.Future[list[Document]]
Outcomes = list[list[Document] | Exception]


class _Waiting:
    """Somebody with an offer, how it shows what was accepted, and where its answer goes."""

    __slots__ = ("answer", "offer", "placed", "show", "shown")

    def __init__(self, offer: Offer, show: Show, answer: Answer) -> None:
        self.offer = offer
        self.show = show
        self.answer = answer
        self.placed: list[Document] | None = None
        self.shown: Any = None

    def prepare(self, placed: list[Document]) -> None:
        """Show the documents as they will be, should they be accepted."""
        self.placed, self.shown = placed, self.show(placed)


class UploadBatcher:
    """Accepts what requests offer, one batch after another. Who sends alone waits for nobody.

    Whoever has just got an answer often sends the next document at once. So a batch waits for as
    many as were answered last, as long as they come or requests keep the event loop busy: one large
    batch costs less than two small ones, flushes the disk once, and does not work against the loop.
    While the disk is waited for, the loop prepares the answers.

    What goes far, to another machine that keeps its files, is accepted beside all this: no batch
    waits for it, nor does another customer's offer.
    """

    def __init__(self, fairlead: Fairlead) -> None:
        self._fairlead = fairlead
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="accept")
        self._far = SharedThreads("accept-far")
        self._waiting: deque[_Waiting] = deque()
        self._is_busy = False
        self._is_closed = False
        self._expected = 1
        self._moves = 0
        """How often somebody came or was answered."""
        self._timer: asyncio.TimerHandle | None = None

    async def accept(self, offer: Offer, show: Callable[[list[Document]], T]) -> T:
        """Return when the documents are safe, as they are shown; raise when they were refused.

        They may be shown before they are safe, while the disk is waited for.
        """
        if self._fairlead.goes_far(offer):
            return show(await self._accept_beside(offer))
        waiting = _Waiting(offer, show, asyncio.get_running_loop().create_future())
        accepted = await self._accept_in_batch(waiting)
        shown: T = waiting.shown if waiting.placed is accepted else show(accepted)
        return shown

    async def _accept_in_batch(self, waiting: _Waiting) -> list[Document]:
        self._waiting.append(waiting)
        self._moves += 1
        self._start()
        try:
            return await waiting.answer
        except asyncio.CancelledError:
            return await self._cut_off(waiting)
        finally:
            self._moves += 1

    async def _accept_beside(self, offer: Offer) -> list[Document]:
        """Who is cut off before it begins takes its documents back; else it is told the end."""
        work = self._far.submit(offer.customer, partial(self._accept, [offer]))
        while True:
            try:
                (outcome,) = await asyncio.shield(asyncio.wrap_future(work))
            except asyncio.CancelledError:
                if work.cancel():
                    discard(offer)
                    raise
            else:
                break
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _cut_off(self, waiting: _Waiting) -> list[Document]:
        """Who is in a batch is told what became of it; who is not takes its documents back."""
        if waiting in self._waiting:
            self._waiting.remove(waiting)
            discard(waiting.offer)
            raise asyncio.CancelledError
        while True:
            if waiting.answer.cancelled():
                waiting.answer = asyncio.get_running_loop().create_future()
            with suppress(asyncio.CancelledError):
                return await waiting.answer

    def close(self) -> None:
        """Finish what was begun, and begin nothing more."""
        self._is_closed = True
        self._stop_waiting()
        self._start()
        self._pool.shutdown()
        self._far.close()

    def _start(self) -> None:
        """Begin with those who wait, unless more are to be expected in a moment."""
        if self._is_closed:
            for each in self._waiting:
                each.answer.cancel()
            return
        if self._is_busy or not self._waiting:
            return
        if len(self._waiting) >= min(self._expected, MOST_TOGETHER):
            self._begin()
        elif self._timer is None:
            self._wait(until=monotonic() + LONGEST_WAIT)

    def _wait(self, until: float) -> None:
        loop, now = asyncio.get_running_loop(), monotonic()
        self._timer = loop.call_later(QUIET_SECONDS, self._look, self._moves, now, until)

    def _look(self, before: int, since: float, until: float) -> None:
        """Begin, unless more came or may come: who was answered, or is not heard by a busy loop."""
        now = monotonic()
        is_quiet = self._moves == before and now <= since + 2 * QUIET_SECONDS
        if is_quiet or now >= until:
            self._begin()
        else:
            self._wait(until)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self) -> None:
        self._stop_waiting()
        if not self._waiting:  # they were cut off
            return
        number = min(len(self._waiting), MOST_TOGETHER)
        batch = [self._waiting.popleft() for _ in range(number)]
        self._is_busy = True
        loop, offers = asyncio.get_running_loop(), [each.offer for each in batch]

        def on_placed(placed: Outcomes) -> None:
            with suppress(RuntimeError):  # the loop has ended; what was begun is still accepted
                loop.call_soon_threadsafe(_prepare, batch, placed)

        done = loop.run_in_executor(self._pool, self._accept, offers, on_placed)
        done.add_done_callback(lambda found: self._settle(batch, found))

    def _accept(self, offers: list[Offer], on_placed: OnPlaced | None = None) -> Outcomes:
        try:
            return self._fairlead.accept_each(offers, on_placed)
        except Exception as error:  # each request gets it
            for offer in offers:
                discard(offer)
            return [error] * len(offers)

    def _settle(self, batch: list[_Waiting], found: asyncio.Future[Outcomes]) -> None:
        self._is_busy = False
        self._expected = len(batch) + len(self._waiting)
        for each, outcome in zip(batch, found.result(), strict=True):
            if each.answer.done():
                continue  # nobody waits for it any more; what was accepted stays
            if isinstance(outcome, Exception):
                each.answer.set_exception(outcome)
            else:
                each.answer.set_result(outcome)
        self._start()


def _prepare(batch: list[_Waiting], placed: Outcomes) -> None:
    for each, documents in zip(batch, placed, strict=True):
        if not isinstance(documents, Exception):
            each.prepare(documents)


def discard(offer: Offer) -> None:
    """Leave nothing of its documents behind."""
    for file, _ in offer.files:
        file.discard()

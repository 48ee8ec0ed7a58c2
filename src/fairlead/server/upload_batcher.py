"""Batches uploads that arrive together: they share one flush of the disk and one commit."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import TypeVar

from fairlead.app import Fairlead
from fairlead.intake import Offer
from fairlead.model.documents import Document
from fairlead.server.per_customer_pool import PerCustomerPool

MAX_BATCH = 64
QUIET_SECONDS = 0.001
"""A batch begins when no upload came for so long, and the event loop was idle."""
MAX_WAIT = 0.02
"""A batch begins after so many seconds in any case."""

T = TypeVar("T")
Outcome = list[Document] | Exception


class UploadBatcher:
    """Accepts uploads, one batch after another.

    A client that has just got its response often sends the next document at once. So a batch waits
    for as many uploads as the last one had, as long as they keep coming or the event loop is busy.
    An upload that comes alone does not wait. One large batch costs less than two small ones.

    Uploads whose files go to another machine are accepted beside the batches, each by itself.
    """

    def __init__(self, fairlead: Fairlead) -> None:
        self._fairlead = fairlead
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="accept")
        self._far = PerCustomerPool("accept-far")
        self._waiting: deque[tuple[Offer, asyncio.Future[Outcome]]] = deque()
        self._is_busy = False
        self._is_closed = False
        self._expected = 1
        self._timer: asyncio.TimerHandle | None = None

    async def accept(self, offer: Offer) -> list[Document]:
        """The documents once they are safe; raises when they were refused.

        A request that is cancelled meanwhile still gets the outcome. When the server stops before
        they were handed to the store, the documents are discarded and the request is cancelled.
        """
        try:
            outcome = await self._outcome(offer)
        except asyncio.CancelledError:
            _discard(offer)
            raise
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def close(self) -> None:
        """Finish what has begun, and discard the uploads that wait."""
        self._is_closed = True
        self._stop_timer()
        for _, future in self._waiting:
            future.cancel()
        self._waiting.clear()
        self._thread.shutdown()
        self._far.close()

    async def _outcome(self, offer: Offer) -> Outcome:
        if self._is_closed:
            raise asyncio.CancelledError
        if self._fairlead.intake.goes_far(offer):
            call = self._far.run(offer.customer, lambda: self._accept_each([offer])[0])
            return await _in_spite_of_cancellation(asyncio.ensure_future(call))
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((offer, future))
        self._begin_or_wait()
        return await _in_spite_of_cancellation(future)

    def _begin_or_wait(self) -> None:
        if self._is_busy or not self._waiting:
            return
        if len(self._waiting) >= min(self._expected, MAX_BATCH):
            self._begin()
        elif self._timer is None:
            self._wait(until=monotonic() + MAX_WAIT)

    def _wait(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        arguments = (len(self._waiting), monotonic(), until)
        self._timer = loop.call_later(QUIET_SECONDS, self._check_quiet, *arguments)

    def _check_quiet(self, number: int, since: float, until: float) -> None:
        """Begin, unless more came or a busy event loop may not have seen them yet."""
        now = monotonic()
        is_quiet = len(self._waiting) == number and now <= since + 2 * QUIET_SECONDS
        if is_quiet or now >= until:
            self._begin()
        else:
            self._wait(until)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self) -> None:
        self._stop_timer()
        batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_BATCH))]
        self._is_busy = True
        loop, offers = asyncio.get_running_loop(), [offer for offer, _ in batch]
        call = loop.run_in_executor(self._thread, self._accept_each, offers)
        call.add_done_callback(lambda done: self._end([f for _, f in batch], done.result()))

    def _end(self, futures: Sequence[asyncio.Future[Outcome]], outcomes: Sequence[Outcome]) -> None:
        for future, outcome in zip(futures, outcomes, strict=True):
            future.set_result(outcome)
        self._is_busy = False
        self._expected = len(futures) + len(self._waiting)
        self._begin_or_wait()

    def _accept_each(self, offers: Sequence[Offer]) -> list[Outcome]:
        try:
            return self._fairlead.intake.accept_each(offers)
        except Exception as error:  # every request gets it
            for offer in offers:
                _discard(offer)
            return [error] * len(offers)


async def _in_spite_of_cancellation(future: asyncio.Future[T]) -> T:
    """The future's result, for a request that may be cancelled while it waits."""
    while True:
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if future.cancelled():
                raise


def _discard(offer: Offer) -> None:
    for file, _ in offer.files:
        file.discard()

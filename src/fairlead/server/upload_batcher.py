"""Batches uploads that arrive together: they share one flush of the disk and one commit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
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


class _WaitingUpload:
    """An upload that waits for its batch, as with `asyncio.shield`, but with less CPU."""

    __slots__ = ("_future", "_is_dropped", "_outcome", "offer")

    def __init__(self, offer: Offer) -> None:
        self.offer = offer
        self._outcome: Outcome | None = None
        self._is_dropped = False
        self._future = asyncio.get_running_loop().create_future()

    async def settled(self) -> Outcome:
        """The outcome, also for a task that is cancelled meanwhile; not when it was dropped."""
        while self._outcome is None:
            try:
                await self._future
            except asyncio.CancelledError:
                if self._is_dropped:
                    raise
                self._future = asyncio.get_running_loop().create_future()  # this one is cancelled
        return self._outcome

    def settle(self, outcome: Outcome) -> None:
        self._outcome = outcome
        if not self._future.done():
            self._future.set_result(None)

    def drop(self) -> None:
        self._is_dropped = True
        self._future.cancel()


class UploadBatcher:
    """Accepts uploads, one batch after another: one large batch costs less than two small ones.

    Clients often send the next document as soon as they get a response. So a batch waits for as
    many uploads as the last one had, while they keep coming or the event loop is busy. An upload
    that comes alone does not wait. Uploads whose files go to another machine are not batched.
    """

    def __init__(self, fairlead: Fairlead) -> None:
        self._fairlead = fairlead
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="accept")
        self._far = PerCustomerPool("accept-far")
        self._waiting: list[_WaitingUpload] = []
        self._expected = 1
        self._has_expected = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    async def accept(self, offer: Offer) -> list[Document]:
        """The documents once they are durable; raises when they were refused.

        A request that is cancelled meanwhile still gets the outcome; it is cancelled only when the
        server stops before its batch begins. Whatever is raised, the caller discards the files.
        """
        if self._is_closed:
            raise asyncio.CancelledError
        if self._fairlead.intake.goes_far(offer):
            call = self._far.run(offer.customer, lambda: self._accept_each([offer])[0])
            outcome = await _despite_cancellation(asyncio.ensure_future(call))
        else:
            outcome = await self._add(offer).settled()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def close(self) -> None:
        """Finish what has begun, and discard the uploads that wait."""
        self._is_closed = True
        for upload in self._waiting:
            upload.drop()
        self._waiting.clear()
        self._has_expected.set()
        self._thread.shutdown()
        self._far.close()

    def _add(self, offer: Offer) -> _WaitingUpload:
        upload = _WaitingUpload(offer)
        self._waiting.append(upload)
        if len(self._waiting) >= self._expected:
            self._has_expected.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return upload

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            await self._wait_for_more()
            batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
            if batch:  # else it was closed
                offers = [upload.offer for upload in batch]
                call = loop.run_in_executor(self._thread, self._accept_each, offers)
                outcomes = await _despite_cancellation(call)
                for upload, outcome in zip(batch, outcomes, strict=True):
                    upload.settle(outcome)
                self._expected = min(MAX_BATCH, len(batch) + len(self._waiting))
        self._task = None

    async def _wait_for_more(self) -> None:
        deadline = monotonic() + MAX_WAIT
        self._has_expected.clear()
        while 0 < len(self._waiting) < self._expected:
            number, since = len(self._waiting), monotonic()
            with suppress(TimeoutError):
                async with asyncio.timeout(QUIET_SECONDS):
                    await self._has_expected.wait()
            now = monotonic()
            # A loop that is late has perhaps not read the next uploads yet.
            is_quiet = len(self._waiting) == number and now <= since + 2 * QUIET_SECONDS
            if is_quiet or now >= deadline:
                return

    def _accept_each(self, offers: Sequence[Offer]) -> list[Outcome]:
        try:
            return self._fairlead.intake.accept_each(offers)
        except Exception as error:  # every request gets it
            return [error] * len(offers)


async def _despite_cancellation(future: asyncio.Future[T]) -> T:
    while True:
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if future.cancelled():
                raise

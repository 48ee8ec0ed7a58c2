"""Reports to the store how many pages of documents in work are read."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from fairlead.model.documents import Claim, Progress
from fairlead.worker.slot import WorkerSlot

if TYPE_CHECKING:
    from fairlead.storage import Store

EVERY_SECONDS = 1.0


class ProgressReporter:
    """Reports what changed, at most once a second; a short document is never reported."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reported: dict[Claim, tuple[int, int]] = {}
        self._next = time.monotonic() + EVERY_SECONDS

    def report(self, slots: Iterable[WorkerSlot]) -> None:
        """Report what is new, if the time has come."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + EVERY_SECONDS
        current = {slot.claim: slot.progress for slot in slots if slot.claim and slot.progress}
        news = [
            Progress(claim, *pages)
            for claim, pages in current.items()
            if self._reported.get(claim) != pages
        ]
        self._reported = current
        if news:
            self._store.progress(news)

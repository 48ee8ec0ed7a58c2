"""The herald: tells the store how far documents at work are, now and then."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from fairlead.model.documents import Claim, Progress
from fairlead.worker.slot import WorkerSlot

if TYPE_CHECKING:
    from fairlead.storage import Store

TELL_SECONDS = 1.0
"""How often a document's progress is told at most."""


class ProgressReporter:
    """Tells each step once; a document that is done between two looks leaves none."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._told: dict[Claim, tuple[int, int]] = {}
        self._next = time.monotonic() + TELL_SECONDS

    def tell(self, slots: Iterable[WorkerSlot]) -> None:
        """Write down what is new, when the time has come."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + TELL_SECONDS
        at_work = {slot.claim: slot.progress for slot in slots if slot.claim and slot.progress}
        news = [
            Progress(claim, *pages)
            for claim, pages in at_work.items()
            if self._told.get(claim) != pages
        ]
        self._told = at_work
        if news:
            self._store.progress(news)

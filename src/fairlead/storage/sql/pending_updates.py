"""Kept numbers that many ends change: added up, and written once for all of them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from fairlead.policy.costs import CostBucket, LearnedCosts, learn
from fairlead.storage.sql import customer_queue
from fairlead.storage.sql.queries import sql
from fairlead.storage.sql.transaction import Transaction

FADING = 0.9995
"""One document longer than all others fades from the record over some thousand of them."""


@dataclass(slots=True)
class _Change:
    waiting: int = 0
    processing: int = 0
    work: float = 0.0


class PendingUpdates:
    """Changes of a transaction. Before anything else looks at the numbers, `write` them."""

    def __init__(self, tx: Transaction) -> None:
        self._moment = tx
        self._changes: defaultdict[int, _Change] = defaultdict(_Change)
        self._lessons: dict[CostBucket, LearnedCosts] = {}

    def count(self, customer: int, *, waiting: int = 0, processing: int = 0) -> None:
        """So many more documents of a customer wait and are processed."""
        change = self._changes[customer]
        change.waiting += waiting
        change.processing += processing

    def work(self, customer: int, seconds: float) -> None:
        """Work was done for a customer."""
        self._changes[customer].work += seconds

    def learn(self, row: CostBucket, seconds: float) -> None:
        """Remember how long a document took."""
        known = self._lessons.get(row)
        if known is None:
            found = self._moment.connection.execute(sql("cost_row"), row).fetchone()
            known = None if found is None else LearnedCosts(*found)
        self._lessons[row] = learn(known, seconds)
        self._moment.longest = max(seconds, self._moment.longest * FADING)

    def write(self) -> None:
        """Bring all that was added up into the store, and begin anew."""
        run = self._moment.connection.execute
        if self._lessons:
            run(sql("save_longest"), (self._moment.longest,))
        for row, learnt in self._lessons.items():
            run(sql("save_cost"), (*row, *learnt))
        for customer, change in self._changes.items():
            customer_queue.refresh(
                self._moment,
                customer,
                waiting=change.waiting,
                processing=change.processing,
                work=change.work,
            )
        self._lessons.clear()
        self._changes.clear()

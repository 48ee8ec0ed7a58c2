"""The order of the queue: each customer's place by its best waiting document, and its numbers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from fairlead.policy.costs import CostBucket, LearnedCosts, learn
from fairlead.storage.sql.queries import sql
from fairlead.storage.sql.transaction import Transaction

FADING = 0.9995
"""One document longer than all others fades from the record over some thousand of them."""


def refresh(
    tx: Transaction, customer: int, *, waiting: int = 0, processing: int = 0, work: float = 0.0
) -> None:
    """Update the customer's place, after anything of it changed.

    `waiting` and `processing` are what its numbers of documents change by, `work` are seconds of
    work done for it.
    """
    if waiting or processing or work:
        values = (customer, waiting, processing, work)
        tx.connection.execute(sql("count_for_account"), values)
    tx.connection.execute(sql("refresh_customer"), (customer, waiting, processing, None))


@dataclass(slots=True)
class _Change:
    waiting: int = 0
    processing: int = 0
    work: float = 0.0


class PendingUpdates:
    """Changes of numbers, added up over a transaction and written once for each customer.

    `write` them before anything else looks at the numbers.
    """

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._changes: defaultdict[int, _Change] = defaultdict(_Change)
        self._learned: dict[CostBucket, LearnedCosts] = {}

    def count(self, customer: int, *, waiting: int = 0, processing: int = 0) -> None:
        change = self._changes[customer]
        change.waiting += waiting
        change.processing += processing

    def work(self, customer: int, seconds: float) -> None:
        self._changes[customer].work += seconds

    def learn(self, row: CostBucket, seconds: float) -> None:
        """Remember how long a document took."""
        known = self._learned.get(row)
        if known is None:
            stored = self._tx.connection.execute(sql("cost_row"), row).fetchone()
            known = None if stored is None else LearnedCosts(*stored)
        self._learned[row] = learn(known, seconds)
        self._tx.longest = max(seconds, self._tx.longest * FADING)

    def write(self) -> None:
        run = self._tx.connection.execute
        if self._learned:
            run(sql("save_longest"), (self._tx.longest,))
        for row, learned in self._learned.items():
            run(sql("save_cost"), (*row, *learned))
        for customer, change in self._changes.items():
            refresh(
                self._tx,
                customer,
                waiting=change.waiting,
                processing=change.processing,
                work=change.work,
            )
        self._learned.clear()
        self._changes.clear()

"""Fills stores with many documents, for the other benches."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from fairlead.model.documents import NewDocument, Submission
from fairlead.model.names import new_id
from fairlead.storage import Store

BATCH = 500


def submit_all(store: Store, submissions: Sequence[Submission]) -> None:
    """Submit them in one transaction; a refused one ends the benchmark."""
    for outcome in store.submit_each(submissions):
        if isinstance(outcome, Exception):
            raise outcome


def new_documents(number: int) -> tuple[NewDocument, ...]:
    now = time.time()
    return tuple(NewDocument(new_id(now), "invoice.pdf", 48_213, "0" * 64) for _ in range(number))


def fill(store: Store, documents: int, customers: int) -> float:
    """Submit evenly for all customers; return documents per second of submission alone."""
    per_customer = max(1, documents // customers)
    at_once = max(1, BATCH // per_customer)
    spent = 0.0
    for first in range(0, customers, at_once):
        numbers = range(first, min(first + at_once, customers))
        batch = [Submission(f"customer {n}", new_documents(per_customer)) for n in numbers]
        began = time.perf_counter()
        submit_all(store, batch)
        spent += time.perf_counter() - began
        progress(f"filling: {first * per_customer:,} of {documents:,}")
    return documents / spent


def fill_behind_a_paused_head(store: Store, documents: int, customers: int) -> None:
    store.submit(Submission("head", new_documents(1)))  # first in the queue, then paused
    store.pause("head")
    for _ in range(documents * 9 // 10 // BATCH):
        store.submit(Submission("head", new_documents(BATCH)))
    fill(store, documents // 10, customers)


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text}", end="\x1b[K\r", file=sys.stderr)

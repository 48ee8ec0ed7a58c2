"""Fairlead's stores, through the methods that the worker and the server call."""

from __future__ import annotations

import os
import sys
import time
from itertools import count as numbers

from bench.peers.counting import count, ready
from bench.peers.stores import fill, finish, opened, short_documents
from bench.peers.workers.settings import (
    AT_ONCE,
    BATCH,
    CUSTOMERS,
    DOCUMENTS,
    POLICY,
    PROCESSES,
    SECONDS,
    URL,
)
from fairlead.model.documents import Submission
from fairlead.storage import Store


def work(store: Store) -> None:
    """Claim a batch, work on it, finish it, until the benchmark ends this process."""
    workers = [f"worker {os.getpid()}"] * BATCH
    while True:
        claims = store.claim_for(workers)
        for _ in claims:
            count()
        if claims:
            finish(store, claims)
        else:
            time.sleep(0.002)


def submit(store: Store) -> None:
    """Bulk acceptance: each call has documents of one customer, who is this process's own."""
    prepared = [
        Submission(f"customer {os.getpid()}-{call % 10}", short_documents(0, AT_ONCE))
        for call in range(DOCUMENTS // PROCESSES // AT_ONCE)
    ]
    ready()
    for submission in prepared:
        store.submit(submission)
        count(AT_ONCE)


def submit_until_ended(store: Store) -> None:
    """As `submit`, without an end, in calls of one batch."""
    ready()
    for call in numbers():
        customer = f"customer {os.getpid()}-{call % 10}"
        store.submit(Submission(customer, short_documents(0, BATCH)))
        count(BATCH)


def main(command: str) -> None:
    store = opened(URL, POLICY)
    if command == "fill":
        print(fill(store, DOCUMENTS, CUSTOMERS, AT_ONCE, SECONDS))
        store.close()
    elif command == "work":
        work(store)
    elif command == "submit":
        submit(store)
    else:
        submit_until_ended(store)


if __name__ == "__main__":
    main(sys.argv[1])

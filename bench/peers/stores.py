"""Opens Fairlead's stores and makes short documents, for all programs of this benchmark."""

from __future__ import annotations

import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from bench.filling import submit_all
from bench.peers.workers.settings import payload
from fairlead.model.documents import Claim, Done, NewDocument, Submission
from fairlead.model.names import new_id
from fairlead.policy.rules import Rules, check_policy
from fairlead.storage import Store
from fairlead.storage.postgres import PostgresStore
from fairlead.storage.sqlite import SqliteStore

DONE = Done("txt", {}, "key", "0" * 64)

LEASE = 3600.0
"""Seconds: no claim of a benchmark is lost, however long another store takes to fill."""


def opened(url: str, policy: str) -> Store:
    """The store of a PostgreSQL URL, or of a path for SQLite."""
    rules = Rules(policy=check_policy(policy), lease=LEASE)
    if url.startswith("postgresql:"):
        return PostgresStore(url, rules=lambda: rules)
    return SqliteStore(Path(url), rules=lambda: rules, clock=time.time)


def short_documents(first: int, number: int) -> tuple[NewDocument, ...]:
    """Documents whose content is their payload, kept in the store itself."""
    now = time.time()
    contents = [payload(index).encode() for index in range(first, first + number)]
    return tuple(
        NewDocument(
            new_id(now), "id.txt", len(content), sha256(content).hexdigest(), content=content
        )
        for content in contents
    )


def fill(store: Store, documents: int, customers: int, at_once: int, seconds: float) -> int:
    """Submit evenly for all customers, in turns; 0 customers: each document is another's.

    Stops when the time is over. Returns the number of documents.
    """
    done, end = 0, time.monotonic() + seconds
    while done < documents and time.monotonic() < end:
        number = min(at_once, documents - done)
        submit_all(store, submissions(done, number, customers))
        done += number
    return done


def submissions(first: int, number: int, customers: int) -> list[Submission]:
    """A bulk call for all customers; 0: each document is another customer's."""
    documents = short_documents(first, number)
    if not customers:
        return [
            Submission(f"customer {first + position}", (document,))
            for position, document in enumerate(documents)
        ]
    per_customer = -(-number // customers)
    return [
        Submission(f"customer {start // per_customer}", documents[start : start + per_customer])
        for start in range(0, number, per_customer)
    ]


def finish(store: Store, claims: Sequence[Claim]) -> None:
    store.finish_all([(claim, DONE) for claim in claims])

"""The line: customers in the order of their best waiting document."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.storage.sql.queries import sql
from fairlead.storage.sql.transaction import Transaction


def refresh(
    tx: Transaction,
    customer: int,
    *,
    waiting: int = 0,
    processing: int = 0,
    started_at: float | None = None,
    work: float = 0.0,
) -> None:
    """Put the customer where it belongs, after anything of it changed.

    `waiting` and `processing` are what its numbers of documents change by; `started_at` is the
    time of a start, `work` are seconds of work done for it.
    """
    if waiting or processing or work:
        count_for_account(tx, customer, waiting=waiting, processing=processing, work=work)
    place(tx, customer, waiting=waiting, processing=processing, started_at=started_at)


def arrived(tx: Transaction, customers: Sequence[tuple[int, int]]) -> None:
    """Put customers where they belong, after so many new documents of each."""
    counted = [(customer, number, 0, 0.0) for customer, number in customers]
    tx.connection.executemany(sql("count_for_account"), counted)
    placed = [(customer, number, 0, None) for customer, number in customers]
    tx.connection.executemany(sql("refresh_customer"), placed)


def place(
    tx: Transaction,
    customer: int,
    *,
    waiting: int,
    processing: int,
    started_at: float | None,
) -> None:
    """The same, but for the numbers of its account."""
    values = (customer, waiting, processing, started_at)
    tx.connection.execute(sql("refresh_customer"), values)


def count_for_account(
    tx: Transaction, customer: int, *, waiting: int, processing: int, work: float = 0.0
) -> None:
    """Change the numbers of the customer's account."""
    tx.connection.execute(sql("count_for_account"), (customer, waiting, processing, work))

"""Acceptance: the check of the customer and the rows of its documents, in one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import apsw

from fairlead.core.classic import Check, Counter, Policy
from fairlead.core.documents import Document, EventKind, NewDocument, Submission
from fairlead.core.rules import Rules
from fairlead.core.states import State
from fairlead.errors import IdempotencyConflict, PendingCapReached, UnknownCustomer
from fairlead.stores.sqlite import line, rows
from fairlead.stores.sqlite.queries import sql
from fairlead.stores.sqlite.record import add_event


class _Checked(NamedTuple):
    """A customer's row as the check needs it."""

    id: int
    counter: Counter | None
    reset_interval: float | None
    thresholds: tuple[int, ...] | None
    pending_cap: int | None
    pending: int


def accept(
    connection: apsw.Connection, rules: Rules, submission: Submission, now: float
) -> list[Document]:
    """Accept all documents of the submission, or refuse them all; a known key repeats itself."""
    customer = _customer(connection, submission, now)
    if submission.key is not None:
        earlier = _accepted_before(connection, customer, submission)
        if earlier is not None:
            return earlier
    _check_cap(customer, submission)
    first = _take_seqs(connection, len(submission.documents))
    documents = _insert(connection, rules, submission, customer, first, now)
    if submission.key is not None:
        connection.execute(
            sql("add_key"),
            (customer.id, submission.key, submission.fingerprint, first, len(documents), now),
        )
    line.refresh(connection, customer.id, waiting=len(documents))
    return documents


def add_customer(connection: apsw.Connection, name: str, now: float) -> int:
    """A new customer's row, with its event."""
    customer: int = connection.execute(sql("add_customer"), (name, now)).get
    add_event(connection, now, EventKind.CUSTOMER_ADDED, customer)
    return customer


def _customer(connection: apsw.Connection, submission: Submission, now: float) -> _Checked:
    row = connection.execute(sql("customer_for_check"), (submission.customer,)).fetchone()
    if row is None:
        if submission.strict:
            raise UnknownCustomer(
                f"customer {submission.customer!r} is not known; "
                f"add it first: fairlead customers add {submission.customer}"
            )
        return _Checked(
            add_customer(connection, submission.customer, now), None, None, None, None, 0
        )
    number, count, counted_at, interval, thresholds, cap, pending = row
    return _Checked(
        number,
        rows.counter(count, counted_at),
        interval,
        rows.thresholds_from(thresholds),
        cap,
        pending,
    )


def _accepted_before(
    connection: apsw.Connection, customer: _Checked, submission: Submission
) -> list[Document] | None:
    row = connection.execute(sql("find_key"), (customer.id, submission.key)).fetchone()
    if row is None:
        return None
    fingerprint, first, number = row
    if fingerprint != submission.fingerprint:
        raise IdempotencyConflict(
            f"idempotency key {submission.key!r} was used before for other documents; "
            "send a new key with a new submission"
        )
    query = sql("select_document") + " WHERE d.seq BETWEEN ? AND ? ORDER BY d.seq"
    return [rows.document(row) for row in connection.execute(query, (first, first + number - 1))]


def _check_cap(customer: _Checked, submission: Submission) -> None:
    cap = customer.pending_cap
    if cap is not None and customer.pending + len(submission.documents) > cap:
        raise PendingCapReached(
            f"customer {submission.customer!r} has a cap of {cap} pending documents (pending: "
            f"{customer.pending}, sent: {len(submission.documents)}); submit when some are done"
        )


def _take_seqs(connection: apsw.Connection, number: int) -> int:
    after: int = connection.execute(sql("take_seqs"), (number,)).get
    return after - number


def _insert(
    connection: apsw.Connection,
    rules: Rules,
    submission: Submission,
    customer: _Checked,
    first: int,
    now: float,
) -> list[Document]:
    policy = rules.policy(customer.reset_interval, customer.thresholds)
    checks = _checks(policy, customer.counter, now)
    placed = list(zip(submission.documents, checks, strict=False))
    connection.executemany(
        sql("insert_document"),
        [
            (
                *(first + place, new.id, customer.id, new.name, new.size, new.sha256),
                *(check.priority, check.count, policy.label, int(new.urgent), now),
                *(check.rank, 0 if new.urgent else None),
            )
            for place, (new, check) in enumerate(placed)
        ],
    )
    kind = EventKind.SUBMITTED.value
    connection.executemany(
        sql("add_event"),
        [(now, kind, customer.id, seq, None) for seq in range(first, first + len(placed))],
    )
    if placed:
        _, last = placed[-1]
        record = (last.counter.count, last.counter.updated_at, customer.id)
        connection.execute(sql("save_check"), record)
    return [_document(submission.customer, policy.label, new, check, now) for new, check in placed]


def _checks(policy: Policy, counter: Counter | None, now: float) -> Iterator[Check]:
    """One check after another, as many as are asked for."""
    while True:
        check = policy.check(counter, now=now)
        counter = check.counter
        yield check


def _document(customer: str, policy: str, new: NewDocument, check: Check, now: float) -> Document:
    return Document(
        id=new.id,
        customer=customer,
        name=new.name,
        size=new.size,
        sha256=new.sha256,
        kind=None,
        state=State.WAITING,
        priority=check.priority,
        count=check.count,
        policy=policy,
        urgent=new.urgent,
        submitted_at=now,
    )

"""Acceptance: the check of the customer and the rows of its documents, in one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from fairlead.core.classic import Check, Counter, Policy
from fairlead.core.costs import Row, row_of
from fairlead.core.documents import Document, EventKind, NewDocument, Submission
from fairlead.core.states import State
from fairlead.errors import (
    DailyBytesReached,
    DeletedDocument,
    IdempotencyConflict,
    PendingCapReached,
    UnknownCustomer,
    Words,
)
from fairlead.stores.sql import ledger, line, rows
from fairlead.stores.sql.moment import Moment
from fairlead.stores.sql.queries import sql


class _Checked(NamedTuple):
    """A customer's row as the check needs it."""

    id: int
    name: str
    counter: Counter | None = None
    reset_interval: float | None = None
    thresholds: tuple[int, ...] | None = None
    pending_cap: int | None = None
    pending: int = 0
    lift: float = 0.0
    day: int = 0
    day_bytes: int = 0
    bytes_a_day: int | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    """What a document gets; `classic_count` is the classic rule's count where another one rules."""

    count: int
    priority: int
    rank: float
    policy: str
    classic_count: int | None
    estimate: float


class Origin(NamedTuple):
    """Where parts come from: the seq of what they were in, the seq of its root, and their depth."""

    parent: int | None = None
    root: int | None = None
    depth: int = 0


SUBMITTED = Origin()


def accept(moment: Moment, submission: Submission) -> list[Document]:
    """Accept all documents of the submission, or refuse them all; a known key repeats itself."""
    customer = _customer(moment, submission)
    if submission.key is not None:
        earlier = _accepted_before(moment, customer, submission)
        if earlier is not None:
            return earlier
    _check_cap(customer, submission)
    _check_day(moment, customer, submission)
    first = _take_seqs(moment, len(submission.documents))
    documents = _insert(moment, submission.documents, customer, first, SUBMITTED)
    if submission.key is not None:
        moment.connection.execute(
            sql("add_key"),
            (
                *(customer.id, submission.key, submission.fingerprint),
                *(first, len(documents), moment.now),
            ),
        )
    line.refresh(moment, customer.id, waiting=len(documents))
    return documents


def accept_parts(
    moment: Moment, customer: int, parts: Sequence[NewDocument], origin: Origin
) -> list[Document]:
    """Accept what came out of a document. It was accepted with it, so no cap refuses it."""
    query = sql("select_for_check") + " WHERE id = ?"
    row = moment.connection.execute(query, (customer,)).fetchone()
    assert row is not None  # noqa: S101 (its document was found in this transaction)
    first = _take_seqs(moment, len(parts))
    documents = _insert(moment, parts, _checked(row), first, origin)
    line.refresh(moment, customer, waiting=len(documents))
    return documents


def add_customer(moment: Moment, name: str) -> int:
    """A new customer's row, with an account of its own and its event."""
    account: int = moment.connection.execute(sql("add_account"), (None,)).get
    customer: int = moment.connection.execute(sql("add_customer"), (name, moment.now, account)).get
    moment.tell(EventKind.CUSTOMER_ADDED, customer)
    return customer


def _customer(moment: Moment, submission: Submission) -> _Checked:
    query = sql("select_for_check") + " WHERE name = ?"
    row = moment.connection.execute(query, (submission.customer,)).fetchone()
    if row is None:
        if submission.strict:
            raise UnknownCustomer(
                Words(
                    "customer {name} is not known",
                    name=repr(submission.customer),
                    hint=f"add it first: fairlead customers add {submission.customer}",
                )
            )
        return _Checked(add_customer(moment, submission.customer), submission.customer)
    return _checked(row)


def _checked(row: rows.Row) -> _Checked:
    number, name, count, counted_at, interval, thresholds, *numbers = row
    return _Checked(
        number,
        name,
        rows.counter(count, counted_at),
        interval,
        rows.thresholds_from(thresholds),
        *numbers,
    )


def _accepted_before(
    moment: Moment, customer: _Checked, submission: Submission
) -> list[Document] | None:
    row = moment.connection.execute(sql("find_key"), (customer.id, submission.key)).fetchone()
    if row is None:
        return None
    fingerprint, first, number = row
    if fingerprint != submission.fingerprint:
        raise IdempotencyConflict(
            Words(
                "idempotency key {key} was used before for other documents; send a new key with a "
                "new submission",
                key=repr(submission.key),
            )
        )
    query = sql("select_document") + " WHERE d.seq BETWEEN ? AND ? ORDER BY d.seq"
    found = moment.connection.execute(query, (first, first + number - 1))
    documents = [rows.document(row) for row in found]
    if len(documents) < number:
        raise DeletedDocument(
            Words(
                "idempotency key {key} was used for documents that were deleted since; send a new "
                "key to submit them again",
                key=repr(submission.key),
            )
        )
    return documents


def _day_bytes(moment: Moment, customer: _Checked, news: Sequence[NewDocument]) -> tuple[int, int]:
    """Today, and the bytes that the customer would have sent today."""
    today = int(moment.now // 86_400)
    before = customer.day_bytes if customer.day == today else 0
    return today, before + sum(each.size for each in news)


def _check_day(moment: Moment, customer: _Checked, submission: Submission) -> None:
    own = customer.bytes_a_day
    limit = moment.rules.bytes_a_day if own is None else own
    if limit is not None and _day_bytes(moment, customer, submission.documents)[1] > limit:
        raise DailyBytesReached(
            Words(
                "customer {name} may send {bytes} bytes a day and would exceed that; submit the "
                "rest after midnight UTC",
                name=repr(submission.customer),
                bytes=limit,
            )
        )


def _check_cap(customer: _Checked, submission: Submission) -> None:
    cap = customer.pending_cap
    if cap is not None and customer.pending + len(submission.documents) > cap:
        raise PendingCapReached(
            Words(
                "customer {name} has a cap of {cap} pending documents (pending: {pending}, sent: "
                "{sent}); submit when some are done",
                name=repr(submission.customer),
                cap=cap,
                pending=customer.pending,
                sent=len(submission.documents),
            )
        )


def _take_seqs(moment: Moment, number: int) -> int:
    after: int = moment.connection.execute(sql("take_seqs"), (number,)).get
    return after - number


def _insert(
    moment: Moment, news: Sequence[NewDocument], customer: _Checked, first: int, origin: Origin
) -> list[Document]:
    placed = list(zip(news, _places(moment, news, customer), strict=True))
    moment.connection.executemany(
        sql("insert_document"),
        [
            (
                *(first + number, new.id, customer.id, new.name, new.size, new.sha256),
                *(place.priority, place.count, place.policy, new.urgent, moment.now),
                *(place.rank, 0 if new.urgent else None, place.classic_count),
                *(new.look.shape, new.look.pages, place.estimate, new.password, *origin),
            )
            for number, (new, place) in enumerate(placed)
        ],
    )
    _keep_originals(moment, news, first)
    kind = EventKind.SUBMITTED.value
    moment.connection.executemany(
        sql("add_event"),
        [
            (moment.now, kind, customer.id, seq, None, None)
            for seq in range(first, first + len(placed))
        ],
    )
    return [_document(customer.name, new, place, moment.now) for new, place in placed]


def _keep_originals(moment: Moment, news: Sequence[NewDocument], first: int) -> None:
    """Keep the bytes that came along."""
    kept = [(seq, new.content) for seq, new in enumerate(news, first) if new.content is not None]
    if kept:
        moment.connection.executemany(sql("keep_original"), kept)


def _places(moment: Moment, news: Sequence[NewDocument], customer: _Checked) -> list[_Place]:
    """A place for each document; the customer's records are kept.

    The classic rule counts whatever policy is in force, so that going back to it is exact.
    """
    policy = moment.rules.classic(customer.reset_interval, customer.thresholds)
    every = _checks(policy, customer.counter, moment.now)
    checks = list(islice(every, len(news)))
    if not checks:
        return []
    last = checks[-1].counter
    day = _day_bytes(moment, customer, news)
    record = (last.count, last.updated_at, *day, customer.id)
    moment.connection.execute(sql("save_check"), record)
    estimates = _estimates(moment, news)
    if moment.is_fair:
        return _fair_places(moment, customer, checks, estimates)
    return [
        _Place(check.count, check.priority, check.rank, policy.label, None, estimate)
        for check, estimate in zip(checks, estimates, strict=True)
    ]


def _fair_places(
    moment: Moment, customer: _Checked, checks: list[Check], estimates: list[float]
) -> list[_Place]:
    rule = moment.rules.fair(customer.reset_interval, customer.thresholds)
    placed = ledger.charge(moment, rule, customer.id, estimates)
    return [
        _Place(
            *(each.count, each.priority, each.tag - customer.lift),
            *(rule.label, check.count, estimate),
        )
        for check, estimate, each in zip(checks, estimates, placed, strict=True)
    ]


def _estimates(moment: Moment, news: Sequence[NewDocument]) -> list[float]:
    """Seconds of work for each document; those that look alike are looked up once."""
    known: dict[Row, float] = {}
    found = []
    for new in news:
        row = row_of(new.look, new.size)
        if row not in known:
            known[row] = ledger.estimated(moment, row)
        found.append(known[row])
    return found


def _checks(policy: Policy, counter: Counter | None, now: float) -> Iterator[Check]:
    """One check after another, as many as are asked for."""
    while True:
        check = policy.check(counter, now=now)
        counter = check.counter
        yield check


def _document(customer: str, new: NewDocument, place: _Place, now: float) -> Document:
    return Document(
        id=new.id,
        customer=customer,
        name=new.name,
        size=new.size,
        sha256=new.sha256,
        kind=None,
        state=State.WAITING,
        priority=place.priority,
        count=place.count,
        policy=place.policy,
        urgent=new.urgent,
        submitted_at=now,
        estimate=place.estimate,
    )

"""Claims: whose turn it is, who holds it for how long, and what became of it."""

from __future__ import annotations

import json
from collections.abc import Iterable

import apsw

from fairlead.core.documents import (
    Broken,
    Claim,
    Done,
    EventKind,
    Failed,
    Outcome,
    Progress,
    Saved,
)
from fairlead.core.rules import Rules
from fairlead.stores.sqlite import line, rows
from fairlead.stores.sqlite.queries import sql
from fairlead.stores.sqlite.record import add_event

WORKER_LOST = "worker-lost"


def claim(connection: apsw.Connection, rules: Rules, worker: str, now: float) -> Claim | None:
    """The next document for a free worker; None: nothing may run now."""
    queue_due_retries(connection, now)
    rescue(connection, rules, connection.execute(sql("expired_leases"), (now,)).fetchall(), now)
    chosen = _choose(connection, rules, now)
    if chosen is None:
        return None
    customer, document, by_lane = chosen
    lease = (worker, now + rules.lease, now, document)
    row: rows.Row | None = connection.execute(sql("claim_document"), lease).fetchone()
    assert row is not None  # noqa: S101 (chosen in this transaction)
    found = Claim(*row)  # the columns come in the order of its fields
    line.refresh(connection, customer, waiting=-1, processing=1, started_at=now)
    details = {"fence": found.fence, "worker": worker} | ({"lane": True} if by_lane else {})
    add_event(connection, now, EventKind.CLAIMED, customer, document, **details)
    return found


def settle(
    connection: apsw.Connection, rules: Rules, claim: Claim, outcome: Outcome, now: float
) -> Saved:
    """Save what became of a claim, unless it is no longer the newest one of its document."""
    held = connection.execute(sql("held_claim"), (claim.id, claim.fence)).fetchone()
    if held is None:
        return Saved.STALE
    document, customer, attempts = held
    match outcome:
        case Done():
            _finish(connection, document, customer, outcome, now)
        case Failed():
            _fail(connection, document, customer, outcome, now)
        case Broken():
            _try_again(connection, rules, (document, customer, attempts), outcome, now)
    return Saved.SAVED


def progress(connection: apsw.Connection, steps: Iterable[Progress], now: float) -> None:
    """Record how far claims are, but those that are no longer the newest of their document."""
    for claim, done, pages in steps:
        held = connection.execute(sql("held_claim"), (claim.id, claim.fence)).fetchone()
        if held is not None:
            document, customer, _ = held
            data = {"pages_done": done, "pages": pages}
            add_event(connection, now, EventKind.PROGRESS, customer, document, **data)


def release(connection: apsw.Connection, id_: str, fence: int, now: float) -> Saved:
    """Give back a claim on which nothing was decided; the attempt does not count."""
    held = connection.execute(sql("held_claim"), (id_, fence)).fetchone()
    if held is None:
        return Saved.STALE
    document, customer, _ = held
    _requeue(connection, document, customer, attempts_back=1)
    add_event(connection, now, EventKind.RELEASED, customer, document, fence=fence)
    return Saved.SAVED


def release_from(connection: apsw.Connection, workers: Iterable[str], now: float) -> int:
    """Give back all that these workers hold; return how many documents that were."""
    held: list[rows.Row] = []
    for worker in workers:
        held += connection.execute(sql("claims_of_worker"), (worker,)).fetchall()
    for id_, fence in held:
        release(connection, id_, fence, now)
    return len(held)


def renew(
    connection: apsw.Connection, rules: Rules, held: Iterable[Claim], now: float
) -> list[Claim]:
    """Lengthen the leases; return the claims that are held no more."""
    until = now + rules.lease
    return [
        claim
        for claim in held
        if connection.execute(sql("renew_claim"), (until, claim.id, claim.fence)).get is None
    ]


def rescue(
    connection: apsw.Connection,
    rules: Rules,
    lost: Iterable[rows.Row],
    now: float,
) -> int:
    """Put documents whose worker is gone back into the queue; fail those that had every try."""
    number = 0
    for document, customer, attempts, worker in lost:
        number += 1
        if rules.retry.delay(attempts) is None:
            detail = f"its worker died {attempts} times while reading it"
            _fail(connection, document, customer, Failed(WORKER_LOST, detail), now)
        else:
            _requeue(connection, document, customer, attempts_back=0)
            add_event(connection, now, EventKind.RESCUED, customer, document, worker=worker)
    return number


def queue_due_retries(connection: apsw.Connection, now: float) -> None:
    """Put documents whose time to retry has come back into the queue."""
    due: list[rows.Row] = connection.execute(sql("due_retries"), (now,)).fetchall()
    for document, customer in due:
        connection.execute(sql("requeue_document"), (document, 0))
        line.refresh(connection, customer)


def _choose(connection: apsw.Connection, rules: Rules, now: float) -> tuple[int, int, bool] | None:
    """Customer and document to go next, and whether through the overdue lane."""
    if rules.lane is None:
        return _first_in_line(connection)
    credit: float = connection.execute(sql("line_state")).get
    if rules.lane.is_open(credit):
        overdue = connection.execute(sql("most_overdue"), (rules.lane.overdue_before(now),)).get
        if overdue is not None:
            document = connection.execute(sql("oldest_of_customer"), (overdue,)).get
            connection.execute(sql("save_lane_credit"), (rules.lane.spend(credit),))
            return overdue, document, True
    chosen = _first_in_line(connection)
    if chosen is not None and rules.lane.earn(credit) != credit:
        connection.execute(sql("save_lane_credit"), (rules.lane.earn(credit),))
    return chosen


def _first_in_line(connection: apsw.Connection) -> tuple[int, int, bool] | None:
    customer: int | None = connection.execute(sql("first_in_line")).get
    if customer is None:
        return None
    return customer, _next_of_customer(connection, customer), False


def _next_of_customer(connection: apsw.Connection, customer: int) -> int:
    """The customer's next document: urgent ones first, then by the policy's order.

    Whoever goes, the customer's best place is used up. A document that jumps the queue swaps
    places with the one it displaced: so the customer as a whole neither gains nor loses.
    """
    head = connection.execute(sql("head_of_customer"), (customer,)).fetchone()
    assert head is not None  # noqa: S101 (a customer in the line has a waiting document)
    document, slot_rank, slot_seq = head
    jumper = connection.execute(sql("ahead_of_customer"), (customer,)).fetchone()
    if jumper is None or jumper[0] == document:
        return int(document)
    jumping, ahead, rank, its_slot_rank, its_slot_seq = jumper
    if ahead == 0 or (rank, jumping) < (slot_rank, slot_seq):
        connection.execute(sql("give_slot"), (its_slot_rank, its_slot_seq, document))
        connection.execute(sql("give_slot"), (slot_rank, slot_seq, jumping))
        return int(jumping)
    return int(document)


def _finish(
    connection: apsw.Connection, document: int, customer: int, done: Done, now: float
) -> None:
    facts = json.dumps(done.facts, ensure_ascii=False) if done.facts else None
    connection.execute(
        sql("finish_document"),
        (done.kind, facts, done.text_key, done.text_sha256, done.seconds, now, document),
    )
    line.refresh(connection, customer, processing=-1)
    add_event(connection, now, EventKind.DONE, customer, document, seconds=done.seconds)


def _fail(
    connection: apsw.Connection,
    document: int,
    customer: int,
    failed: Failed,
    now: float,
) -> None:
    code, detail, kind, seconds = failed
    connection.execute(sql("fail_document"), (kind, code, detail, seconds, now, document))
    line.refresh(connection, customer, processing=-1)
    add_event(connection, now, EventKind.FAILED, customer, document, error=code, seconds=seconds)


def _try_again(
    connection: apsw.Connection,
    rules: Rules,
    held: tuple[int, int, int],
    broken: Broken,
    now: float,
) -> None:
    document, customer, attempts = held
    code, detail, seconds = broken
    delay = rules.retry.delay(attempts)
    if delay is None:
        _fail(connection, document, customer, Failed(code, detail, seconds=seconds), now)
        return
    connection.execute(sql("delay_document"), (now + delay, code, detail, document))
    line.refresh(connection, customer, waiting=1, processing=-1)
    add_event(connection, now, EventKind.RETRIED, customer, document, error=code, delay=delay)


def _requeue(
    connection: apsw.Connection, document: int, customer: int, *, attempts_back: int
) -> None:
    connection.execute(sql("requeue_document"), (document, attempts_back))
    line.refresh(connection, customer, waiting=1, processing=-1)

"""Claims: whose turn it is, who holds it for how long, and what became of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fairlead.model.documents import (
    Broken,
    Claim,
    Done,
    EventKind,
    Failed,
    NewDocument,
    Outcome,
    Progress,
    Saved,
    Sniff,
)
from fairlead.policy.attachments import Family
from fairlead.policy.costs import cost_bucket
from fairlead.storage.sql import customer_queue, fair_accounts, rows
from fairlead.storage.sql.accept import accept_parts
from fairlead.storage.sql.accept_batch import Origin
from fairlead.storage.sql.connection import Connection
from fairlead.storage.sql.pending_updates import PendingUpdates
from fairlead.storage.sql.queries import sql
from fairlead.storage.sql.transaction import Transaction

WORKER_LOST = "worker-lost"


class _Turn(NamedTuple):
    """Whose turn it is. `tag` is the place that it uses up; None: it comes through the lane."""

    customer: int
    document: int
    tag: float | None


class _Held(NamedTuple):
    """A document at work, as its end needs it."""

    document: int
    customer: int
    attempts: int
    estimate: float
    shape: str
    pages: int | None
    size: int
    urgent: int
    root: int | None
    depth: int


def may_find(connection: Connection, now: float) -> bool:
    """Whether a claim would find something, or something to put right."""
    return bool(connection.execute(sql("may_find"), (now,)).get)


def claim_all(
    tx: Transaction,
    workers: Iterable[str],
    ahead: Iterable[str] = (),
    asked: float = float("inf"),
) -> list[Claim]:
    """The next document for each of the free workers, while there are any.

    Then some to lie ready, for the workers `ahead`, up to the first suspect. Leases that had ended
    when it was asked for are taken back before.
    """
    queue_due_retries(tx)
    ended = (min(tx.now, asked),)
    rescue(tx, tx.connection.execute(sql("expired_leases"), ended).fetchall())
    _watch_the_bound(tx)
    found: list[Claim] = []
    starts: Counter[int] = Counter()
    lane_work = all_work = 0.0
    for worker, ready in [(each, False) for each in workers] + [(each, True) for each in ahead]:
        turn = _choose(tx)
        if turn is None or (claimed := _claim(tx, turn, worker, ready=ready)) is None:
            break
        claim, cost = claimed
        found.append(claim)
        starts[turn.customer] += 1
        all_work += cost
        lane_work += cost if turn.tag is None else 0.0
    for customer, number in starts.items():
        customer_queue.count_for_account(tx, customer, waiting=-number, processing=number)
    if found:
        state = (tx.credit, tx.clock.value, lane_work, all_work)
        tx.connection.execute(sql("save_turns"), state)
    return found


def _claim(tx: Transaction, turn: _Turn, worker: str, *, ready: bool) -> tuple[Claim, float] | None:
    """The document whose turn it is, and what it costs; None: a suspect does not lie ready."""
    lease = (worker, tx.now + tx.rules.lease, tx.now, ready, turn.document)
    row: rows.Row | None = tx.connection.execute(sql("claim_document"), lease).fetchone()
    if row is None:
        return None
    *fields, broke_before, suspect, content, estimate = row
    # The columns come in the order of its fields.
    found = Claim._make((*fields, bool(broke_before), bool(suspect), content))
    cost = estimate if tx.is_fair else 1.0
    _take_turn(tx, turn, cost)
    customer_queue.place(tx, turn.customer, waiting=-1, processing=1, started_at=tx.now)
    details = {"fence": found.fence, "worker": worker}
    details |= {"lane": True} if turn.tag is None else {}
    tx.tell(EventKind.CLAIMED, turn.customer, turn.document, **details)
    return found, cost


def settle_all(tx: Transaction, outcomes: Iterable[tuple[Claim, Outcome]]) -> list[Saved]:
    """Save what became of claims, but those that are no longer the newest of their document."""
    sums = PendingUpdates(tx)
    saved: list[Saved] = []
    for claim, outcome in outcomes:
        saved.append(_settle(tx, sums, claim, outcome))
        if tx.is_fair and not tx.backlog:  # nobody waits: each end moves the clock
            sums.write()
            fair_accounts.rest(tx)
    sums.write()
    return saved


def _settle(tx: Transaction, sums: PendingUpdates, claim: Claim, outcome: Outcome) -> Saved:
    held = _held(tx, claim.id, claim.fence)
    if held is None:
        return Saved.STALE
    match outcome:
        case Done():
            _finish(tx, sums, held, outcome)
        case Failed():
            _fail(tx, sums, held, outcome)
        case Broken():
            _try_again(tx, sums, held, outcome)
    return Saved.SAVED


def progress(tx: Transaction, steps: Iterable[Progress]) -> None:
    """Record how far claims are, but those that are no longer the newest of their document."""
    for claim, done, pages in steps:
        held = _held(tx, claim.id, claim.fence)
        if held is not None:
            data = {"pages_done": done, "pages": pages}
            tx.tell(EventKind.PROGRESS, held.customer, held.document, **data)


def release(tx: Transaction, id_: str, fence: int) -> Saved:
    """Give back a claim on which nothing was decided; the attempt does not count."""
    held = _held(tx, id_, fence)
    if held is None:
        return Saved.STALE
    _requeue(tx, held.document, held.customer, attempts_back=1)
    tx.tell(EventKind.RELEASED, held.customer, held.document, fence=fence)
    return Saved.SAVED


def release_from(tx: Transaction, workers: Iterable[str]) -> int:
    """Give back all that these workers hold; return how many documents that were."""
    held: list[rows.Row] = []
    for worker in workers:
        held += tx.connection.execute(sql("claims_of_worker"), (worker,)).fetchall()
    for id_, fence in held:
        release(tx, id_, fence)
    return len(held)


def renew(tx: Transaction, held: Iterable[Claim]) -> list[Claim]:
    """Lengthen the leases; return the claims that are held no more."""
    until = tx.now + tx.rules.lease
    query, run = sql("renew_claim"), tx.connection.execute
    return [claim for claim in held if run(query, (until, claim.id, claim.fence)).get is None]


def rescue(tx: Transaction, lost: Iterable[rows.Row]) -> int:
    """Put documents whose worker is gone back into the queue; fail those that had every try.

    An attempt at one that lay ready does not count. As a suspect it lies ready no more: so this
    happens to a document once.
    """
    number = 0
    sums = PendingUpdates(tx)
    for document, customer, attempts, ready, worker in lost:
        number += 1
        if not ready and tx.rules.retry.delay(attempts) is None:
            detail = f"its worker died {attempts} times while reading it"
            _end(tx, sums, document, customer, Failed(WORKER_LOST, detail))
        else:
            tx.connection.execute(sql("suspect_document"), (document,))
            _requeue(tx, document, customer, attempts_back=int(ready))
            details = {"worker": worker} | ({"ready": True} if ready else {})
            tx.tell(EventKind.RESCUED, customer, document, **details)
    sums.write()
    return number


def rescue_from(tx: Transaction, worker: str) -> int:
    """Rescue all that one worker held."""
    return rescue(tx, tx.connection.execute(sql("leases_of_worker"), (worker,)).fetchall())


def attend(tx: Transaction, engine: str, workers: int) -> None:
    """Count an engine's workers among those alive, until its word is too old."""
    until = tx.now + tx.rules.lease
    tx.connection.execute(sql("attend"), (engine, workers, until))


def leave(tx: Transaction, engine: str) -> None:
    """Count an engine's workers no more."""
    tx.connection.execute(sql("leave"), (engine, tx.now))


def queue_due_retries(tx: Transaction) -> None:
    """Put documents whose time to retry has come back into the queue."""
    due: list[rows.Row] = tx.connection.execute(sql("due_retries"), (tx.now,)).fetchall()
    for document, customer in due:
        tx.connection.execute(sql("requeue_document"), (document, 0))
        customer_queue.refresh(tx, customer)


def _watch_the_bound(tx: Transaction) -> None:
    """Tell once of a customer that has waited for a start longer than it ever should."""
    bound = tx.start_bound
    if bound is None:
        return
    row = tx.connection.execute(sql("longest_waiting")).fetchone()
    if row is None:
        return
    customer, since, runnable_since, told_of, _ = row
    waited = tx.now - max(since, runnable_since)
    if waited > bound and told_of != since:
        tx.connection.execute(sql("told_of"), (customer,))
        tx.tell(EventKind.BOUND_BROKEN, customer, waited=round(waited, 3), bound=round(bound, 3))


def _choose(tx: Transaction) -> _Turn | None:
    """Both questions are asked before either is answered: they can travel together."""
    lane, first = tx.lane, tx.connection.execute(sql("first_in_line"))
    if lane is not None and tx.credit > 0:
        before = lane.overdue_before(tx.now)
        overdue: int | None = tx.connection.execute(sql("most_overdue"), (before,)).get
        if overdue is not None:
            oldest = tx.connection.execute(sql("oldest_of_customer"), (overdue,)).fetchone()
            assert oldest is not None  # noqa: S101 (who is in the line has a waiting document)
            document, estimate = oldest
            if lane.is_open(tx.credit, estimate if tx.is_fair else 1.0):
                return _Turn(overdue, document, None)
    row = first.fetchone()
    return None if row is None else _turn_of(tx, row)


def _take_turn(tx: Transaction, turn: _Turn, cost: float) -> None:
    """Settle the lane's credit and move the clock; a turn through the lane does not move it."""
    if tx.lane is not None:
        settle = tx.lane.spend if turn.tag is None else tx.lane.earn
        tx.credit = settle(tx.credit, cost)
    if tx.is_fair and turn.tag is not None:
        tx.clock = tx.rules.fair().claimed(tx.clock, turn.tag)


def _turn_of(tx: Transaction, row: rows.Row) -> _Turn:
    """The customer's next document: urgent ones first, then by the policy's order.

    Whoever goes, the customer's best place is used up. A document that jumps the queue swaps
    places with the one it displaced: so the customer as a whole neither gains nor loses.
    """
    customer, tag, document, slot_rank, slot_seq, *jumper = row
    jumping, ahead, rank, its_slot_rank, its_slot_seq = jumper
    if jumping in (None, document):
        return _Turn(customer, document, tag)
    if ahead == 0 or (rank, jumping) < (slot_rank, slot_seq):
        run = tx.connection.execute
        run(sql("give_slot"), (its_slot_rank, its_slot_seq, document))
        run(sql("give_slot"), (slot_rank, slot_seq, jumping))
        return _Turn(customer, jumping, tag)
    return _Turn(customer, document, tag)


def _held(tx: Transaction, id_: str, fence: int) -> _Held | None:
    row = tx.connection.execute(sql("held_claim"), (id_, fence)).fetchone()
    return None if row is None else _Held(*row)


def _finish(tx: Transaction, sums: PendingUpdates, held: _Held, done: Done) -> None:
    parts = _taken_parts(tx, held, done.parts)
    left_out = len(done.parts) - len(parts)
    facts = dict(done.facts) | ({"parts_left_out": left_out} if left_out else {})
    tx.connection.execute(
        sql("finish_document"),
        (
            *(done.kind, rows.data_text(facts)),
            *(done.text_key, done.text_sha256, done.markdown_key, done.markdown_sha256),
            *(done.seconds, tx.now, held.document),
        ),
    )
    if done.short is not None:
        tx.connection.execute(sql("keep_texts"), (held.document, *done.short))
    _reckon(tx, sums, held, done.seconds)
    sums.count(held.customer, processing=-1)
    tx.tell(EventKind.DONE, held.customer, held.document, seconds=done.seconds)
    if parts:
        sums.write()  # they are accepted by what holds without the one they come from
        root = held.document if held.root is None else held.root
        origin = Origin(held.document, root, held.depth + 1)
        accept_parts(tx, held.customer, parts, origin)


def _taken_parts(
    tx: Transaction, held: _Held, parts: Sequence[NewDocument]
) -> Sequence[NewDocument]:
    """Those that become documents; they are as urgent as the one they come from."""
    if not parts:
        return ()
    root = held.document if held.root is None else held.root
    family = tx.connection.execute(sql("family_of"), (root,)).fetchone()
    assert family is not None  # noqa: S101 (an aggregate always has a row)
    sizes = [part.size for part in parts]
    number = tx.rules.parts.taken(held.depth, Family(*family), sizes)
    return [part._replace(urgent=bool(held.urgent)) for part in parts[:number]]


def _fail(tx: Transaction, sums: PendingUpdates, held: _Held, failed: Failed) -> None:
    _reckon(tx, sums, held, failed.seconds)
    _end(tx, sums, held.document, held.customer, failed)


def _end(
    tx: Transaction, sums: PendingUpdates, document: int, customer: int, failed: Failed
) -> None:
    code, detail, kind, seconds = failed
    tx.connection.execute(sql("fail_document"), (kind, code, detail, seconds, tx.now, document))
    sums.count(customer, processing=-1)
    tx.tell(EventKind.FAILED, customer, document, error=code, seconds=seconds)


def _try_again(tx: Transaction, sums: PendingUpdates, held: _Held, broken: Broken) -> None:
    code, detail, seconds = broken
    delay = tx.rules.retry.delay(held.attempts)
    if delay is None:
        _fail(tx, sums, held, Failed(code, detail, seconds=seconds))
        return
    if seconds is not None:  # what a broken attempt took is work all the same
        sums.work(held.customer, seconds)
        fair_accounts.correct(tx, held.customer, estimated=0.0, actual=seconds)
    tx.connection.execute(sql("delay_document"), (tx.now + delay, code, detail, held.document))
    sums.count(held.customer, waiting=1, processing=-1)
    tx.tell(EventKind.REQUEUED, held.customer, held.document, error=code, delay=delay)


def _reckon(tx: Transaction, sums: PendingUpdates, held: _Held, seconds: float | None) -> None:
    """Charge what the work took, and learn from it."""
    if seconds is not None:
        sums.work(held.customer, seconds)
        fair_accounts.correct(tx, held.customer, estimated=held.estimate, actual=seconds)
        sums.learn(cost_bucket(Sniff(held.shape, held.pages), held.size), seconds)


def _requeue(tx: Transaction, document: int, customer: int, *, attempts_back: int) -> None:
    tx.connection.execute(sql("requeue_document"), (document, attempts_back))
    customer_queue.refresh(tx, customer, waiting=1, processing=-1)

"""Claims: the next documents for free workers, chosen by the pure queue, and their leases."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fairlead.model.documents import Claim, EventKind, Progress
from fairlead.model.pipelines import DEFAULT_PIPELINE
from fairlead.policy.fairness import start_bound
from fairlead.policy.queue import QueuedDocument, Start
from fairlead.policy.queue_events import Arrived
from fairlead.storage.sql.ends import rescue_expired
from fairlead.storage.sql.queries import Connection, sql
from fairlead.storage.sql.queue_rows import EVENTS_AT_ONCE, LoadedQueue
from fairlead.storage.sql.transaction import NOBODY, Transaction

_LEASE_BITS = 52
"""Fences are whole numbers that JSON keeps exactly."""
LEAST_WIDTH = 8
_DISPLACED, _ATTEMPTS, _SUSPECT, _ERROR = 7, 10, 11, 12
"""Positions in a row of `waiting`."""


class Requested(NamedTuple):
    """Who asks for documents: free workers, then workers that prefetch."""

    workers: Sequence[str]
    ahead: Sequence[str] = ()

    @property
    def number(self) -> int:
        return len(self.workers) + len(self.ahead)

    def without(self, served: int) -> Requested:
        """Those who are left when so many got a document."""
        of_ahead = max(0, served - len(self.workers))
        return Requested(self.workers[served:], self.ahead[of_ahead:])


class Extent(NamedTuple):
    """From how many customers a claim took documents, and how many from one at most.

    The next claim loads about as much at once; what is missing is loaded when it is needed.
    """

    customers: int = 1
    documents: int = 1


class ClaimResult(NamedTuple):
    """What a claim came to. `is_partial`: more may be claimed at once."""

    claims: list[Claim]
    is_partial: bool = False
    extent: Extent = Extent()


class Overtaken(Exception):
    """Another claim was quicker, or a document was cancelled meanwhile: decide anew."""


def claim_documents(
    tx: Transaction, requested: Requested, width: int, extent: Extent, asked_at: float
) -> ClaimResult:
    """Fold what happened, choose the next documents and write the difference.

    `width` entries are loaded. `extent` is that of the claim before. Leases that ended before the
    claim was asked for are rescued first.
    """
    expired_at = min(tx.now, asked_at)
    look = _FirstLook(tx, requested.number, max(width, LEAST_WIDTH), expired_at)
    if look.has_expired_leases and rescue_expired(tx, expired_at):
        tx.write()
        return ClaimResult([], is_partial=True, extent=extent)
    loaded, due = look.loaded, look.due
    look.load_members()
    loaded.fold()
    _queue_due(loaded, tx, due)
    if loaded.has_more_events:  # a long backlog is folded in portions, before anything is chosen
        loaded.load_unknown(1)
        _save(loaded, tx, [])
        return ClaimResult([], is_partial=True, extent=extent)
    _report_broken_bound(loaded, tx)
    starts = _choose(loaded, tx, requested, extent)
    is_partial = bool(loaded.queue.needs_entries)
    if not (starts or loaded.event_ids or due):
        return ClaimResult([], is_partial, extent)
    claims = _started(loaded, tx, starts, requested)
    taken = Counter(start.customer for start in starts)
    is_partial = is_partial and len(claims) < requested.number
    if taken:
        extent = Extent(len(taken), max(taken.values()))
    return ClaimResult(claims, is_partial, extent)


class _FirstLook:
    """What every claim reads.

    All of it is asked for before any of it is awaited: on a server that is one round trip.
    """

    def __init__(self, tx: Transaction, number: int, width: int, expired_at: float) -> None:
        ask, lane = tx.connection.execute, tx.rules.lane
        expired = ask(sql("has_expired"), (expired_at,))
        due = ask(sql("due_documents"), (tx.now,))
        self._best = self._overdue = None
        self._width, self._most_overdue = width, 0 if lane is None else number // lane.share + 2
        self._before = 0.0 if lane is None else tx.now - lane.after
        if number:
            self._best = ask(sql("best_entries"), (DEFAULT_PIPELINE, width))
            if lane is not None:
                values = (DEFAULT_PIPELINE, self._before, self._most_overdue)
                self._overdue = ask(sql("overdue_entries"), values)
        self.loaded = LoadedQueue(tx.connection, tx.rules, EVENTS_AT_ONCE)
        self.has_expired_leases = bool(expired.get)
        self.due = due.fetchall()

    def load_members(self) -> None:
        """The members that events concern, those with the best places, and the most overdue."""
        loaded = self.loaded
        wanted = loaded.touched() | {row[0] for row in self.due}
        if self._best is not None and not loaded.has_more_events:
            wanted |= loaded.note_best(DEFAULT_PIPELINE, self._best, self._width)
            if self._overdue is not None:
                most = self._most_overdue
                wanted |= loaded.note_overdue(DEFAULT_PIPELINE, self._overdue, most)
            others = [name for name in loaded.pipelines if name != DEFAULT_PIPELINE]
            loaded.load_best(others, self._width)
            if self._overdue is not None:
                loaded.load_overdue(others, self._before, self._most_overdue)
        loaded.load_members(wanted)


def _queue_due(loaded: LoadedQueue, tx: Transaction, due: Sequence[tuple[Any, ...]]) -> None:
    """Documents whose time has come wait from now on, with their old slot."""
    if not due:
        return
    deleted = tx.connection.query_many(sql("delete_delayed"), [(row[4],) for row in due])
    if len(list(deleted)) < len(due):
        raise Overtaken
    tx.connection.executemany(sql("insert_waiting"), due)
    loaded.queue.fold(
        Arrived(
            *(tx.now, row[0], row[1], 1, row[8], row[2:4], (row[4], row[9]), 1),
            has_ahead=bool(row[6] or row[7]),
        )
        for row in due
    )


def _report_broken_bound(loaded: LoadedQueue, tx: Transaction) -> None:
    """Add one event for a customer that has waited for a start longer than the bound."""
    loaded.load_unknown(1)
    longest = loaded.queue.longest_wait()
    lane = tx.rules.lane
    if longest is None or lane is None or tx.now - longest[0] <= lane.after:
        return
    since, entry = longest
    waited, member = tx.now - since, entry.member
    workers = tx.connection.execute(sql("workers"), (tx.now,)).get
    least = start_bound(lane, accounts=1, longest=loaded.longest, workers=workers)
    if least is None or waited <= least or member.told_of == since:
        return
    accounts = tx.connection.execute(sql("number_of_entries")).get
    bound = start_bound(lane, accounts=accounts, longest=loaded.longest, workers=workers)
    if bound is not None and waited > bound:
        member.told_of = since
        loaded.queue.changed.add(member)
        customer = NOBODY if member.is_account else member.id
        data: dict[str, Any] = {"waited": round(waited, 3), "bound": round(bound, 3)}
        tx.add_event(EventKind.BOUND_BROKEN, customer, **data)


def _choose(
    loaded: LoadedQueue, tx: Transaction, requested: Requested, extent: Extent
) -> list[Start]:
    """The next documents; a suspect is not prefetched, and ends the choice."""
    queue, starts = loaded.queue, list[Start]()
    at_once, not_suspect = len(requested.workers), _not_suspect(loaded)
    customers, depth = extent.customers + 1, extent.documents + 1
    while True:
        first = queue.first_entries(customers)
        queue.needs_documents.update(entry for entry in first if not entry.is_loaded)
        loaded.load_unknown(depth)
        starts += queue.choose(at_once - len(starts), tx.now)
        if len(starts) >= at_once:
            left = requested.number - len(starts)
            starts += queue.choose(left, tx.now, may_start=not_suspect)
        if not queue.needs_documents:
            return starts
        if any(entry.is_loaded for entry in queue.needs_documents):
            most = requested.number + 2  # more only where displaced documents have the best slots
            depth = min(4 * depth, most) if depth < most else 4 * depth
        else:
            customers = min(4 * customers, requested.number + 1)


def _not_suspect(loaded: LoadedQueue) -> Any:
    def may_start(document: QueuedDocument) -> bool:
        row = loaded.rows[document.number]
        return not (row[_ATTEMPTS] or row[_SUSPECT])

    return may_start


def _started(
    loaded: LoadedQueue, tx: Transaction, starts: Sequence[Start], requested: Requested
) -> list[Claim]:
    """Move the rows from `waiting` to `running`, save the queue; the claims that workers get.

    Everything is asked for before any of it is awaited.
    """
    numbers = [start.document.number for start in starts]
    described: Iterable[tuple[Any, ...]] = ()
    if starts:
        described = tx.connection.execute(sql("claimed_documents"), (tx.connection.array(numbers),))
    keys = [loaded.rows[number][:5] for number in numbers]
    deleted = tx.connection.query_many(sql("delete_waiting"), keys)
    workers = [(worker, False) for worker in requested.workers]
    workers += [(worker, True) for worker in requested.ahead]
    leases: dict[str, int] = {}
    running = []
    for start, (worker, is_ready) in zip(starts, workers, strict=False):
        if worker not in leases:
            leases[worker] = secrets.randbits(_LEASE_BITS)
        running.append(_running_row(loaded, tx, start, leases[worker], worker, is_ready=is_ready))
    tx.connection.executemany(sql("insert_running"), running)
    until = tx.now + tx.rules.lease
    rows = [(lease, worker, until) for worker, lease in sorted(leases.items())]
    tx.connection.executemany(sql("add_lease"), rows)
    _save(loaded, tx, starts)
    details = {row[0]: row for row in described}
    if len(list(deleted)) < len(keys):
        raise Overtaken
    return [
        _claim(tx, details[number], loaded.rows[number], worker, leases[worker])
        for number, (worker, _) in zip(numbers, workers, strict=False)
    ]


def _running_row(
    loaded: LoadedQueue, tx: Transaction, start: Start, lease: int, worker: str, *, is_ready: bool
) -> tuple[Any, ...]:
    """The row of `running`; adds the event of the start."""
    row = loaded.rows[start.document.number]
    attempts = row[_ATTEMPTS] + 1
    data: dict[str, Any] = {"attempt": attempts, "fence": lease, "worker": worker}
    if start.through_lane:
        data["lane"] = True
    tx.add_event(EventKind.CLAIMED, start.customer, row[4], **data)
    # The slot that it uses up is the one it has after a swap, which may be of this claim.
    slot, is_displaced = start.document.slot, int(start.document.is_displaced)
    others = (*row[4:_DISPLACED], is_displaced, *row[_DISPLACED + 1 : _ATTEMPTS])
    used = (*row[:2], *slot, *others, attempts, *row[_SUSPECT:])
    return (*used, lease, worker, int(is_ready), tx.now, *_charged(start))


def _charged(start: Start) -> tuple[Any, ...]:
    """The columns of `running` from `payer` on."""
    charge, inner = start.charge, start.inner
    own: tuple[Any, ...] = (None, None, None)
    if charge is not None:
        own = (charge.seconds, charge.weight, int(charge.to_tag))
    inside = (None, None) if inner is None else (inner.seconds, int(inner.to_tag))
    return (start.payer, *own, *inside)


def _claim(
    tx: Transaction, detail: tuple[Any, ...], row: tuple[Any, ...], worker: str, lease: int
) -> Claim:
    number, id_, customer, name, size, sha256, depth, password, content = detail
    return Claim(
        id=id_,
        fence=lease,
        worker=worker,
        customer=customer,
        name=name,
        size=size,
        sha256=sha256,
        priority=row[5],
        submitted_at=row[9],
        started_at=tx.now,
        attempts=row[_ATTEMPTS] + 1,
        depth=depth,
        password=password,
        broke_before=row[_ERROR] is not None,
        suspect=bool(row[_ATTEMPTS] or row[_SUSPECT]),
        content=content,
        number=number,
    )


def _save(loaded: LoadedQueue, tx: Transaction, starts: Sequence[Start]) -> None:
    loaded.count_starts(start.document.priority for start in starts)
    tx.connection.executemany(sql("move_slot"), list(loaded.moved_slots()))
    through_lane = sum(start.through_lane for start in starts)
    if not loaded.save(len(starts), through_lane):
        raise Overtaken
    tx.write_events()


# --- leases ---


def renew(tx: Transaction, held: Sequence[Claim]) -> list[Claim]:
    """Renew the leases; the claims that are held no more."""
    leases = sorted({claim.fence for claim in held})
    values = (tx.now + tx.rules.lease, tx.connection.array(leases))
    tx.connection.execute(sql("renew_leases"), values)
    return lost(tx.connection, held)


def lost(connection: Connection, held: Sequence[Claim]) -> list[Claim]:
    """The claims that are held no more: cancelled, or rescued from this worker."""
    numbers = connection.array(sorted({claim.number for claim in held}))
    running = set(connection.execute(sql("held_claims"), (numbers,)).fetchall())
    return [claim for claim in held if (claim.number, claim.fence) not in running]


def progress(tx: Transaction, steps: Iterable[Progress]) -> None:
    """Record how far claims are, but those that are no longer the newest of their document."""
    steps = list(steps)
    stale = set(lost(tx.connection, [step.claim for step in steps]))
    owners = _customers_of(tx, [step.claim for step in steps])
    for claim, done, pages in steps:
        if claim not in stale:
            data = {"pages_done": done, "pages": pages}
            tx.add_event(EventKind.PROGRESS, owners[claim.customer], claim.number, **data)


def _customers_of(tx: Transaction, claims: Iterable[Claim]) -> dict[str, int]:
    names = {claim.customer for claim in claims}
    return {name: tx.connection.execute(sql("customer_id"), (name,)).get for name in names}


def attend(tx: Transaction, engine: str, workers: int) -> None:
    """Count an engine's workers among those alive, for as long as a lease."""
    until = tx.now + tx.rules.lease
    tx.connection.execute(sql("attend"), (engine, workers, until))


def leave(tx: Transaction, engine: str) -> None:
    tx.connection.execute(sql("leave"), (engine, tx.now))

"""Claims: the next documents for free workers, chosen by the pure queue, and their leases."""

from __future__ import annotations

import json
import secrets
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from math import inf
from typing import Any, NamedTuple

from fairlead.model.documents import WORKER_LOST, Claim, EventKind, Progress
from fairlead.model.engines import EngineReport
from fairlead.model.json import to_json
from fairlead.model.pipelines import DEFAULT_PIPELINE, ClaimLimit, ClaimRequest
from fairlead.policy.fairness import start_bound
from fairlead.policy.queue import MayStart, Start
from fairlead.policy.queue_entry import QueuedDocument
from fairlead.policy.queue_events import Served
from fairlead.storage.sql.ends import Running, rescue_expired
from fairlead.storage.sql.queries import Connection, sql
from fairlead.storage.sql.queue_rows import EVENTS_AT_ONCE, LoadedQueue
from fairlead.storage.sql.quotas import served_queues, serving_workers
from fairlead.storage.sql.transaction import NOBODY, Transaction
from fairlead.storage.sql.waiting_rows import Waiting, arrived

_LEASE_BITS = 52
"""Fences are whole numbers that JSON keeps exactly."""
LEAST_WIDTH = 8


class Requested(NamedTuple):
    """The workers that request documents. A pipeline has at most one request of each sort."""

    requests: Sequence[ClaimRequest]

    @property
    def number(self) -> int:
        return sum(len(request.workers) + len(request.ahead) for request in self.requests)

    @property
    def pipelines(self) -> Sequence[str] | None:
        """The pipelines whose documents may start; None: all."""
        return _all_pipelines([request.pipelines for request in self.requests])

    def without(self, claims: Sequence[Claim]) -> Requested:
        """The request that remains after these claims."""
        now, ahead = _idle_workers(self)
        for claim in claims:
            now.take(claim.pipeline) or ahead.take(claim.pipeline)
        return Requested(
            [
                ClaimRequest(
                    list(workers), list(workers_ahead), request.pipelines, limits.remaining()
                )
                for request, workers, workers_ahead, limits in zip(
                    self.requests, now.by_request, ahead.by_request, now.limits, strict=True
                )
            ]
        )


class _Limits:
    """The limits of one request, and how much of them is left."""

    def __init__(self, limits: Sequence[ClaimLimit]) -> None:
        self._limits = limits
        self._now = [limit.now for limit in limits]
        self._total = [limit.total for limit in limits]

    def remaining(self) -> list[ClaimLimit]:
        return [
            limit._replace(now=now, total=total)
            for limit, now, total in zip(self._limits, self._now, self._total, strict=True)
        ]

    def number(self, queue: str, *, ahead: bool) -> float:
        """How many documents of this queue may still be taken."""
        return min(
            (
                limit.total if ahead else min(limit.now, limit.total)
                for limit in self.remaining()
                if queue in limit.queues
            ),
            default=inf,
        )

    def take(self, queue: str, *, ahead: bool) -> None:
        for number, limit in enumerate(self._limits):
            if queue in limit.queues:
                self._total[number] -= 1
                self._now[number] -= not ahead


class _IdleWorkers:
    """The workers of each request without a document, and the limits of the requests."""

    def __init__(self, requested: Requested, limits: Sequence[_Limits], *, ahead: bool) -> None:
        self._requests = requested.requests
        self.limits = limits
        self.is_ahead = ahead
        self.by_request = [
            deque(request.ahead if ahead else request.workers) for request in self._requests
        ]

    def open_requests(self) -> list[tuple[Sequence[str] | None, int]]:
        """The pipelines of requests that are not full; None: all.

        The number is how many documents may be chosen before one of these may be full.
        """
        requests = []
        for request, workers, limits in zip(
            self._requests, self.by_request, self.limits, strict=True
        ):
            if workers and not request.limits:
                requests.append((request.pipelines, len(workers)))
            elif workers:
                numbers = {
                    name: limits.number(name, ahead=self.is_ahead)
                    for name in request.pipelines or ()
                }
                names = [name for name, number in numbers.items() if number > 0]
                if names:
                    least = min(numbers[name] for name in names)
                    requests.append((names, int(min(len(workers), least))))
        return requests

    def take(self, pipeline: str) -> str | None:
        """The next idle worker for a document of this pipeline; None: there is none."""
        for request, workers, limits in zip(
            self._requests, self.by_request, self.limits, strict=True
        ):
            is_open = workers and request.takes(pipeline)
            if is_open and limits.number(pipeline, ahead=self.is_ahead) > 0:
                limits.take(pipeline, ahead=self.is_ahead)
                return workers.popleft()
        return None


def _idle_workers(requested: Requested) -> tuple[_IdleWorkers, _IdleWorkers]:
    """The free workers, and those that prefetch; documents of both count for the limits."""
    limits = [_Limits(request.limits) for request in requested.requests]
    return (
        _IdleWorkers(requested, limits, ahead=False),
        _IdleWorkers(requested, limits, ahead=True),
    )


class _Assignment(NamedTuple):
    """A document that was chosen, and the worker that gets it."""

    start: Start
    worker: str
    is_ready: bool


class Extent(NamedTuple):
    """From how many customers a claim took documents, and the most documents of one of them.

    The next claim loads about as much at once, and the rest when it is needed.
    """

    customers: int = 1
    documents: int = 1


class ClaimResult(NamedTuple):
    """The result of a claim. `is_partial`: more may be claimed at once.

    `opens_in`: the seconds until a quota that holds documents back lets one start.
    """

    claims: list[Claim]
    is_partial: bool = False
    extent: Extent = Extent()
    opens_in: float = inf


def claim_documents(
    tx: Transaction, requested: Requested, width: int, extent: Extent, asked_at: float
) -> Callable[[], ClaimResult]:
    """Fold the events, choose the next documents and write the changes.

    `width` entries are loaded. `extent` is that of the previous claim. Leases that ended before
    `asked_at` are rescued first. Call the returned function after the commit: on a server, the
    writes and the rows that it reads then share one round trip.
    """
    loaded = LoadedQueue(tx.connection, tx.rules, EVENTS_AT_ONCE)
    first_reads = _FirstReads(tx, loaded, requested, max(width, LEAST_WIDTH), extent)
    loaded.read()
    expired_at = min(tx.now, asked_at)
    due = first_reads.load(expired_at)
    if first_reads.has_expired_leases and rescue_expired(tx, expired_at):
        tx.write()
        return lambda: ClaimResult([], is_partial=True, extent=extent)
    loaded.fold()
    _queue_due(loaded, tx, due)
    if loaded.has_more_events:  # a long backlog is folded in portions, before anything is chosen
        loaded.load_unknown(1)
        _save(loaded, tx, [])
        return lambda: ClaimResult([], is_partial=True, extent=extent)
    _report_broken_bound(loaded, tx, requested)
    assignments = _choose(loaded, tx, requested, extent)
    is_partial = bool(loaded.queue.needs_entries)
    opens_in = loaded.queue.opens_at(tx.now, requested.pipelines) - tx.now
    if not (assignments or loaded.event_ids or due):
        return lambda: ClaimResult([], is_partial, extent, opens_in)
    read_claims = _write_starts(loaded, tx, assignments)
    customers = Counter(assignment.start.customer for assignment in assignments)
    is_partial = is_partial and len(assignments) < requested.number
    if customers:
        extent = Extent(len(customers), max(customers.values()))
    return lambda: ClaimResult(read_claims(), is_partial, extent, opens_in)


class _FirstReads:
    """The reads of every claim, in two round trips to a server.

    The first one returns the time and what does not depend on it: the state, the events and the
    best entries. The second one returns the members of those, what depends on the time, and the
    documents that are likely to be chosen.
    """

    def __init__(
        self,
        tx: Transaction,
        loaded: LoadedQueue,
        requested: Requested,
        width: int,
        extent: Extent,
    ) -> None:
        self._tx, self._loaded, self._extent = tx, loaded, extent
        self._width, self._pipelines = width, requested.pipelines
        lane, number = tx.rules.lane, requested.number
        self._most_overdue = 0 if lane is None or not number else number // lane.share + 2
        self._first = self._likely_pipeline() if number else None
        self._best: Iterable[tuple[Any, ...]] = ()
        if self._first is not None:
            self._best = tx.connection.execute(sql("best_entries"), (self._first, width))
        self.has_expired_leases = False

    def _likely_pipeline(self) -> str | None:
        """The pipeline to read before it is known which pipelines have documents."""
        if self._pipelines is None or DEFAULT_PIPELINE in self._pipelines:
            return DEFAULT_PIPELINE
        return next(iter(self._pipelines), None)

    def load(self, expired_at: float) -> list[Waiting]:
        """Load the members of events, those with the best places, and the most overdue ones.

        Return the documents that are due.
        """
        loaded, run = self._loaded, self._tx.connection.execute
        expired = run(sql("has_expired"), (expired_at,))
        due = run(sql("due_documents"), (self._tx.now,))
        members = loaded.touched()
        if self._first is None or loaded.has_more_events:
            loaded.load_members(members)
        else:
            members |= self._load_best(self._first, members)
        self.has_expired_leases = bool(expired.get)
        due_documents = [Waiting(*row) for row in due]
        loaded.load_members(members | {row.customer for row in due_documents})
        return due_documents

    def _load_best(self, pipeline: str, touched: set[int]) -> set[int]:
        """Load the members of the best entries; return those of the most overdue ones."""
        loaded, before = self._loaded, 0.0
        overdue: Iterable[tuple[Any, ...]] = ()
        if self._most_overdue:
            before = self._overdue_before()
            values = (pipeline, before, self._most_overdue)
            overdue = self._tx.connection.execute(sql("overdue_entries"), values)
        best = loaded.note_best(pipeline, self._best, self._width)
        likely = best[: self._extent.customers + 1]
        loaded.ask_documents(likely, pipeline, self._extent.documents + 1)
        loaded.load_members(touched.union(best))
        others = self._other_pipelines()
        loaded.load_best(others, self._width)
        if not self._most_overdue:
            return set()
        loaded.load_overdue(others, before, self._most_overdue)
        return loaded.note_overdue(pipeline, overdue, self._most_overdue)

    def _overdue_before(self) -> float:
        lane = self._tx.rules.lane
        return 0.0 if lane is None else self._tx.now - lane.after

    def _other_pipelines(self) -> list[str]:
        """The pipelines that may start documents; one without a token cannot."""
        return [
            name
            for name, quota in self._loaded.queue.state.quotas.items()
            if name != self._first
            and (self._pipelines is None or name in self._pipelines)
            and quota.has_token(self._tx.now)
        ]


def _queue_due(loaded: LoadedQueue, tx: Transaction, due: Sequence[Waiting]) -> None:
    """Move due documents into the queue, with their old slot."""
    if not due:
        return
    loaded.forget_asked_documents()
    tx.connection.executemany(sql("delete_delayed"), [(row.document,) for row in due])
    tx.connection.executemany(sql("insert_waiting"), due)
    loaded.queue.fold(arrived(tx.now, [row], were_delayed=1) for row in due)


def _report_broken_bound(loaded: LoadedQueue, tx: Transaction, requested: Requested) -> None:
    """Add one event for a customer that could start longer ago than the bound allows.

    Only of queues from which this claim may take a document.
    """
    loaded.load_unknown(1)
    lane = tx.rules.lane
    now, ahead = _idle_workers(requested)
    requests = [*now.open_requests(), *ahead.open_requests()]
    if lane is None or not requests:
        return
    queues = _all_pipelines([names for names, _ in requests])
    longest = loaded.queue.longest_untold_wait(tx.now, tx.now - lane.after, queues)
    if longest is None:
        return
    since, entry = longest
    waited, member = tx.now - since, entry.member
    served = serving_workers(tx.connection, tx.rules, tx.now)
    names = (tx.connection.array(sorted(served)),)
    accounts = tx.connection.execute(sql("number_of_entries"), names).get
    workers = served.get(entry.pipeline, 0)
    bound = start_bound(lane, accounts=accounts, longest=loaded.longest, workers=workers)
    if bound is not None and waited > bound:
        member.told_of = since
        loaded.queue.changed.add(member)
        customer = NOBODY if member.is_account else member.id
        data: dict[str, Any] = {"waited": round(waited, 3), "bound": round(bound, 3)}
        tx.add_event(EventKind.BOUND_BROKEN, customer, **data)


def _choose(
    loaded: LoadedQueue, tx: Transaction, requested: Requested, extent: Extent
) -> list[_Assignment]:
    """The next documents; a suspect is not prefetched, and ends the choice."""
    queue, assignments = loaded.queue, list[_Assignment]()
    now, ahead = _idle_workers(requested)
    customers, depth = extent.customers + 1, extent.documents + 1
    while True:
        first = queue.first_entries(customers)
        queue.needs_documents.update(entry for entry in first if not entry.is_loaded)
        loaded.load_unknown(depth)
        assignments += _assign(loaded, tx, now)
        if not queue.needs_documents:
            assignments += _assign(loaded, tx, ahead, _not_suspect(loaded))
        if not queue.needs_documents:
            return assignments
        if any(entry.is_loaded for entry in queue.needs_documents):
            most = requested.number + 2  # more only where displaced documents have the best slots
            depth = min(4 * depth, most) if depth < most else 4 * depth
        else:
            customers = min(4 * customers, requested.number + 1)


def _assign(
    loaded: LoadedQueue, tx: Transaction, idle: _IdleWorkers, may_start: MayStart | None = None
) -> list[_Assignment]:
    """Documents for idle workers; several requests are filled one document at a time."""
    assignments: list[_Assignment] = []
    while requests := idle.open_requests():
        number = requests[0][1] if len(requests) == 1 else 1
        starts = loaded.queue.choose(
            number, tx.now, _all_pipelines([names for names, _ in requests]), may_start
        )
        for start in starts:
            worker = idle.take(start.document.pipeline) or ""
            assignments.append(_Assignment(start, worker, idle.is_ahead))
        if len(starts) < number:
            break
    return assignments


def _all_pipelines(of_requests: Sequence[Sequence[str] | None]) -> Sequence[str] | None:
    """The pipelines of several requests; None: all."""
    if any(pipelines is None for pipelines in of_requests):
        return None
    return list(dict.fromkeys(chain.from_iterable(names or () for names in of_requests)))


def _not_suspect(loaded: LoadedQueue) -> MayStart:
    def may_start(document: QueuedDocument) -> bool:
        row = loaded.row(document.number)
        return not (row.attempts or row.suspect)

    return may_start


def _write_starts(
    loaded: LoadedQueue, tx: Transaction, assignments: Sequence[_Assignment]
) -> Callable[[], list[Claim]]:
    """Move the rows from `waiting` to `running` and save the queue; return how to read the claims.

    All statements are sent before any result is read.
    """
    numbers = [assignment.start.document.number for assignment in assignments]
    described: Iterable[tuple[Any, ...]] = ()
    if assignments:
        described = tx.connection.execute(sql("claimed_documents"), (tx.connection.array(numbers),))
    keys = [loaded.row(number).key for number in numbers]
    tx.connection.executemany(sql("delete_waiting"), keys)
    leases: dict[str, int] = {}
    running = []
    for start, worker, is_ready in assignments:
        if worker not in leases:
            leases[worker] = secrets.randbits(_LEASE_BITS)
        running.append(_running_row(loaded, tx, start, leases[worker], worker, is_ready=is_ready))
    tx.connection.executemany(sql("insert_running"), running)
    until = tx.now + tx.rules.lease
    rows = [(lease, worker, until) for worker, lease in sorted(leases.items())]
    tx.connection.executemany(sql("add_lease"), rows)
    _save(loaded, tx, [assignment.start for assignment in assignments])

    def read_claims() -> list[Claim]:
        details = {row[0]: row for row in described}
        return [
            _claim(tx, details[number], loaded.row(number), worker, leases[worker])
            for number, (_, worker, _) in zip(numbers, assignments, strict=True)
        ]

    if tx.connection.is_remote:
        return read_claims
    claims = read_claims()  # SQLite reads rows lazily, which must be before the commit
    return lambda: claims


def _running_row(
    loaded: LoadedQueue, tx: Transaction, start: Start, lease: int, worker: str, *, is_ready: bool
) -> Running:
    """The row of `running`; adds the event of the start."""
    document = start.document
    row = loaded.row(document.number)
    data: dict[str, Any] = {"attempt": row.attempts + 1, "fence": lease, "worker": worker}
    if start.through_lane:
        data["lane"] = True
    tx.add_event(EventKind.CLAIMED, start.customer, row.document, **data)
    # It uses up the slot that it has after a swap, which may be a swap of this claim.
    slot, slot_seq = document.slot
    return Running(
        row.customer,
        row.pipeline,
        slot,
        slot_seq,
        row.document,
        row.priority,
        row.urgent,
        int(document.is_displaced),
        row.estimate,
        row.submitted_at,
        row.attempts + 1,
        row.suspect,
        row.error,
        row.detail,
        lease,
        worker,
        int(is_ready),
        tx.now,
        start.payer,
        *_charged(start),
    )


def _charged(
    start: Start,
) -> tuple[float | None, float | None, int | None, float | None, int | None]:
    """The columns of `running` from `charge` on."""
    charge, inner = start.charge, start.inner
    seconds, weight, to_tag = None, None, None
    if charge is not None:
        seconds, weight, to_tag = charge.seconds, charge.weight, int(charge.to_tag)
    if inner is None:
        return seconds, weight, to_tag, None, None
    return seconds, weight, to_tag, inner.seconds, int(inner.to_tag)


def _claim(
    tx: Transaction, detail: tuple[Any, ...], row: Waiting, worker: str, lease: int
) -> Claim:
    return Claim(
        **_described(detail),
        fence=lease,
        worker=worker,
        priority=row.priority,
        submitted_at=row.submitted_at,
        started_at=tx.now,
        attempts=row.attempts + 1,
        broke_before=row.error not in (None, WORKER_LOST),
        suspect=bool(row.attempts or row.suspect),
        pipeline=row.pipeline,
    )


def _described(detail: tuple[Any, ...]) -> dict[str, Any]:
    """The fields of a claim that describe its document, from a row of `claimed_documents`."""
    number, id_, customer, name, size, sha256, depth, password, *own, content = detail
    metadata, has_result, interim = own
    return {
        "id": id_,
        "customer": customer,
        "name": name,
        "size": size,
        "sha256": sha256,
        "depth": depth,
        "password": password,
        "content": content,
        "number": number,
        "metadata": json.loads(metadata) if metadata else {},
        "interim": interim,
        "has_result": bool(has_result),
    }


def held_claim(connection: Connection, id_: str, fence: int) -> Claim | None:
    """The current claim of a document, for a worker that knows only its fence; None: it ended."""
    row = connection.execute(sql("held_claim"), (id_, fence)).fetchone()
    if row is None:
        return None
    worker, lease, queue, priority, submitted_at, started_at, attempts, error = row[12:]
    return Claim(
        **_described(row[:12]),
        fence=lease,
        worker=worker,
        priority=priority,
        submitted_at=submitted_at,
        started_at=started_at,
        attempts=attempts,
        broke_before=error not in (None, WORKER_LOST),
        pipeline=queue,
    )


def _save(loaded: LoadedQueue, tx: Transaction, starts: Sequence[Start]) -> None:
    loaded.count_starts(start.document.priority for start in starts)
    tx.connection.executemany(sql("move_slot"), list(loaded.moved_slots()))
    loaded.save(len(starts), sum(start.through_lane for start in starts))
    tx.write_events()


# --- leases ---


def renew(tx: Transaction, claims: Sequence[Claim]) -> list[Claim]:
    """Renew the leases; return the claims that are lost."""
    leases = sorted({claim.fence for claim in claims})
    values = (tx.now + tx.rules.lease, tx.connection.array(leases))
    tx.connection.execute(sql("renew_leases"), values)
    return lost(tx.connection, claims)


def lost(connection: Connection, claims: Sequence[Claim]) -> list[Claim]:
    """The claims that ended without this worker: cancelled, or rescued from it."""
    numbers = connection.array(sorted({claim.number for claim in claims}))
    running = set(connection.execute(sql("held_claims"), (numbers,)).fetchall())
    return [claim for claim in claims if (claim.number, claim.fence) not in running]


def progress(tx: Transaction, steps: Sequence[Progress]) -> None:
    """Record the progress of claims, except for stale ones."""
    stale = set(lost(tx.connection, [step.claim for step in steps]))
    owners = _customers_of(tx, [step.claim for step in steps])
    for claim, done, pages in steps:
        if claim not in stale:
            data = {"pages_done": done, "pages": pages}
            tx.add_event(EventKind.PROGRESS, owners[claim.customer], claim.number, **data)


def _customers_of(tx: Transaction, claims: Iterable[Claim]) -> dict[str, int]:
    names = {claim.customer for claim in claims}
    return {name: tx.connection.execute(sql("customer_id"), (name,)).get for name in names}


def attend(tx: Transaction, report: EngineReport) -> None:
    """Record an engine's workers as alive for the duration of a lease."""
    if report.workers:
        for queue in sorted(set(report.queues) - served_queues(tx.connection, tx.now)):
            tx.add_queue_event(Served(tx.now, queue))
    until = tx.now + tx.rules.lease
    queues, steps = to_json(report.queues).decode(), to_json(report.steps).decode()
    row = (report.engine, report.workers, until, queues, steps)
    tx.connection.execute(sql("attend"), row)


def leave(tx: Transaction, engine: str) -> None:
    tx.connection.execute(sql("leave"), (engine, tx.now))

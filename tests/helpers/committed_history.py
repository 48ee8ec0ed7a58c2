"""The committed history of a store's queue: recorded by claims, replayed by the plain model.

`record` lets the stores of this process write to the table `history`, in the transaction of each
claim what it folded and started, and in that of each submission what it saw of the queue. Which
documents it was about is read from the public events, by the time of the transaction: the clock of
the test gives no time twice. The replay knows nothing of `fairlead.policy.queue`.
"""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from queue_model import Customer, Document, QueueModel, QueueSettings, Record, Start

from fairlead.storage import Store
from fairlead.storage.sql import claims
from fairlead.storage.sql.queries import Connection
from fairlead.storage.sql.queue_rows import LoadedQueue
from fairlead.storage.sql.transaction import Transaction

PROCESSES = 16
"""The most processes with a clock of their own."""
TOLERANCE = 1e-6
AT_ONCE = 500
"""Delayed documents that one claim moves."""


class ProcessClock:
    """Seconds since a common moment; no two calls in any of the processes give the same time."""

    def __init__(self, base: float, process: int) -> None:
        self.base, self.process, self.last = base, process, 0

    def __call__(self) -> float:
        self.last = max(self.last + 1, int((time.monotonic() - self.base) * 1e6))
        return (self.last * PROCESSES + self.process) / (PROCESSES * 1e6)


# --- recording ---


def make_history_table(store: Store) -> None:
    create = "CREATE TABLE IF NOT EXISTS history (version BIGINT, kind TEXT, body TEXT)"
    store._writer.run(lambda connection: connection.execute(create))


def record() -> None:
    """From now on, what the stores of this process claim and see is written to `history`."""
    save, saved = LoadedQueue.save, list[LoadedQueue]()
    claim_documents: Any = claims.claim_documents
    load_queue = Transaction.load_queue

    def save_recorded(loaded: LoadedQueue, *values: Any) -> None:
        save(loaded, *values)
        saved.append(loaded)

    def claim_recorded(
        tx: Transaction, requested: claims.Requested, *values: Any
    ) -> Callable[[], claims.ClaimResult]:
        saved.clear()
        bodies = dict(tx.connection.execute("SELECT id, body FROM queue_events").fetchall())
        result: claims.ClaimResult = claim_documents(tx, requested, *values)()
        for loaded in saved:
            rows = [(id_, bodies[id_]) for id_ in loaded.event_ids]
            _write_claim(tx, loaded.stored.version + 1, rows, requested, result)
        return lambda: result

    def load_queue_recorded(tx: Transaction, members: Collection[int]) -> LoadedQueue:
        loaded = load_queue(tx, members)
        body = {"at": tx.now, "customers": sorted(members), "rows": loaded.event_ids}
        _write(tx.connection, loaded.stored.version, "check", body)
        return loaded

    setattr(LoadedQueue, "save", save_recorded)  # noqa: B010 (a method of the test's)
    setattr(claims, "claim_documents", claim_recorded)  # noqa: B010
    setattr(Transaction, "load_queue", load_queue_recorded)  # noqa: B010


def _write(connection: Connection, version: int, kind: str, body: dict[str, Any]) -> None:
    values = (version, kind, json.dumps(body))
    connection.execute("INSERT INTO history (version, kind, body) VALUES (?, ?, ?)", values)


def _write_claim(
    tx: Transaction,
    version: int,
    rows: list[tuple[int, str]],
    requested: claims.Requested,
    result: claims.ClaimResult,
) -> None:
    query = (
        "SELECT document, payer, charge, charge_weight, charged_tag, inner_charge, inner_tag "
        "FROM running WHERE document IN (SELECT value FROM json_each(?))"
    )
    numbers = [claim.number for claim in result.claims]
    running = tx.connection.execute(query, (tx.connection.array(numbers),))
    charges = {row[0]: row[1:] for row in running}
    body = {
        "at": tx.now,
        "rows": rows,
        "workers": sum(len(request.workers) for request in requested.requests),
        "ahead": sum(len(request.ahead) for request in requested.requests),
        "is_partial": result.is_partial,
        "starts": [(number, *charges[number]) for number in numbers],
    }
    _write(tx.connection, version, "claim", body)


# --- reading ---


class RecordedStart(NamedTuple):
    document: int
    payer: int
    charge: float | None
    weight: float | None
    to_tag: int | None
    inner_charge: float | None
    inner_to_tag: int | None


@dataclass(frozen=True)
class RecordedClaim:
    """A claim that was committed, or a fold without one."""

    version: int
    at: float
    rows: list[tuple[int, str]]
    workers: int
    ahead: int
    is_partial: bool
    starts: list[RecordedStart]


@dataclass(frozen=True)
class RecordedCheck:
    """What a submission saw: this version of the queue, and these rows that were not folded."""

    version: int
    at: float
    customers: list[int]
    rows: list[int]


@dataclass(frozen=True)
class StoredDocument:
    seq: int
    customer: int
    pipeline: str
    priority: int
    count: int
    urgent: int
    estimate: float
    submitted_at: float


class PublicEvent(NamedTuple):
    kind: str
    document: int | None
    data: dict[str, Any]


@dataclass
class History:
    claims: list[RecordedClaim] = field(default_factory=list)
    checks: dict[int, list[RecordedCheck]] = field(default_factory=lambda: defaultdict(list))
    documents: dict[int, StoredDocument] = field(default_factory=dict)
    events: dict[float, list[PublicEvent]] = field(default_factory=lambda: defaultdict(list))
    unfolded: list[tuple[int, str]] = field(default_factory=list)
    pending_caps: dict[int, int | None] = field(default_factory=dict)
    members: dict[int, dict[str, Any]] = field(default_factory=dict)
    places: dict[tuple[int, str], tuple[int, float, int] | None] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)


MEMBER = ("id", "processing", "delayed", "debt", "debt_at", "tag", "queued", "inner_clock")


def read_history(store: Store) -> History:
    """All that was committed, in one snapshot."""
    history = History()
    with store._reading(whole=True) as connection:
        run = connection.execute
        for version, kind, text in run("SELECT version, kind, body FROM history ORDER BY version"):
            body = json.loads(text)
            if kind == "claim":
                starts = [RecordedStart(*start) for start in body.pop("starts")]
                rows = [(id_, row) for id_, row in body.pop("rows")]
                history.claims.append(RecordedClaim(version, rows=rows, starts=starts, **body))
            else:
                history.checks[version].append(RecordedCheck(version, **body))
        columns = ", ".join(field.name for field in fields(StoredDocument))
        for row in run(f"SELECT {columns} FROM documents"):
            history.documents[row[0]] = StoredDocument(*row)
        for at, kind, number, data in run(
            "SELECT at, kind, document, data FROM events ORDER BY seq"
        ):
            history.events[at].append(PublicEvent(kind, number, json.loads(data or "{}")))
        for id_, text in run("SELECT id, settings FROM customers"):
            history.pending_caps[id_] = json.loads(text).get("pending_cap")
        history.unfolded = run("SELECT id, body FROM queue_events ORDER BY id").fetchall()
        for row in run(f"SELECT {', '.join(MEMBER)} FROM queue_members"):
            history.members[row[0]] = dict(zip(MEMBER, row, strict=True))
        for member, pipeline, *place in run(
            "SELECT member, pipeline, class, rank, ticket FROM queue_entries"
        ):
            history.places[member, pipeline] = None if place[0] is None else tuple(place)
        state = run(
            "SELECT version, credit, clock, claims, lane_claims FROM queue_state"
        ).fetchone()
        assert state is not None
        names = ("version", "credit", "clock", "claims", "lane_claims")
        history.state = dict(zip(names, state, strict=True))
    return history


# --- the model ---


class Documents:
    """All documents by their number; iterating gives those that have not ended, by customer."""

    def __init__(self) -> None:
        self.all: dict[int, Document] = {}
        self.live: dict[str, dict[int, Document]] = defaultdict(dict)

    def __getitem__(self, number: int) -> Document:
        return self.all[number]

    def __iter__(self) -> Iterator[Document]:
        for documents in self.live.values():
            yield from documents.values()

    def add(self, document: Document) -> None:
        self.all[document.number] = document
        self.live[document.customer.name][document.number] = document

    def ended(self, number: int) -> None:
        self.live[self.all[number].customer.name].pop(number, None)

    def of(self, name: str) -> Collection[Document]:
        return self.live[name].values()


class ReplayModel(QueueModel):
    """The model, with documents that have the numbers of the store, and its own intervals."""

    documents: Documents  # type: ignore[assignment]

    def __init__(self, settings: QueueSettings) -> None:
        super().__init__(settings)
        self.documents = Documents()

    def bring_to(self, customer: Customer, now: float) -> None:
        """Debts fade only to the times at which they are used, as in the rule.

        Times of transactions that ran at once may go back, and then it makes a difference.
        """

    def enter_or_leave_records(self, records: Iterable[Record], now: float) -> None:
        for record in records:
            if self.may_run(record) != (record.place is not None):
                self.bring_records([record], now)
        super().enter_or_leave_records(records, now)

    def take_in(self, stored: StoredDocument, now: float) -> None:
        """As `submit`, with the document that the store returned."""
        sender = self.customer(str(stored.customer))
        self.documents.add(
            Document(
                number=stored.seq,
                customer=sender,
                estimate=stored.estimate,
                urgent=bool(stored.urgent),
                pipeline=stored.pipeline,
                count=stored.count,
                priority=stored.priority,
                submitted_at=stored.submitted_at,
                slot=(stored.priority, stored.seq),
            )
        )
        self.enter_or_leave(sender, now)

    def count_next(self, customer: str, at: float) -> int:
        """The classic count of the next document, which is then counted."""
        sender = self.customer(customer)
        sender.count = self.count_of_next(customer, at)
        sender.counted_at = max(sender.counted_at, at)
        return sender.count

    def customer_may_run(self, customer: Customer) -> bool:
        """As in the model, by the documents of the customer alone."""
        own = [document.state for document in self.documents.of(customer.name)]
        is_at_cap = customer.cap is not None and own.count("processing") >= customer.cap
        return "waiting" in own and not customer.paused and not is_at_cap

    def part(self, names: Collection[str]) -> ReplayModel:
        """A copy with only these customers."""
        part = ReplayModel(self.settings)
        part.clocks, part.weights = dict(self.clocks), dict(self.weights)
        part.last_ticket, part.policy = self.last_ticket, self.policy
        own: tuple[dict[str, Customer], list[Document], dict[Any, Record]] = (
            {name: self.customer(name) for name in names},
            [document for name in names for document in self.documents.of(name)],
            {key: record for key, record in self.records.items() if self.concerns(record, names)},
        )
        part.customers, documents, part.records = deepcopy(own)
        for document in documents:
            part.documents.add(document)
        return part

    def concerns(self, record: Record, names: Collection[str]) -> bool:
        return any(self.is_of(self.customer(name), record) for name in names)


# --- the replay ---


class Operation(NamedTuple):
    """One event of a row of `queue_events`, with its documents."""

    kind: str
    at: float
    customer: str
    documents: tuple[int, ...] = ()
    event: tuple[Any, ...] = ()
    delay: float | None = None


class Replay:
    """Replays a history on the model, and collects what differs."""

    def __init__(self, history: History, settings: QueueSettings) -> None:
        self.history = history
        self.model = ReplayModel(settings)
        self.first_version = 1 if settings.policy == "fair" else 0
        """A new store is switched to fair, which makes it another version."""
        self.differences: list[str] = []
        self.started: set[int] = set()
        self.running: dict[str, int] = {}
        self.rows = {id_: body for claim in history.claims for id_, body in claim.rows}
        self.rows |= dict(history.unfolded)
        self.operations: dict[int, list[Operation]] = {}
        self.claims = self.starts = self.lane_starts = self.checks = 0
        self.kinds: dict[str, int] = defaultdict(int)

    def differs(self, where: object, difference: str) -> None:
        self.differences.append(f"{where}: {difference}")

    def run(self) -> None:
        folded: list[int] = []
        first = self.first_version
        for check in self.history.checks.get(first, ()):
            self.check(check)
        for version, claim in enumerate(self.history.claims, first + 1):
            if claim.version != version:
                self.differs(claim.version, f"version {version} should have been next")
                return
            folded += [id_ for id_, _ in claim.rows]
            self.claim(claim)
            for check in self.history.checks.get(claim.version, ()):
                self.check(check)
            if len(self.differences) > 20:
                return
        if len(folded) != len(set(folded)):
            self.differs("events", "some were folded twice")
        if set(folded) & {id_ for id_, _ in self.history.unfolded}:
            self.differs("events", "some were folded and are still there")
        self.compare_state()

    # Claims.

    def claim(self, claim: RecordedClaim) -> None:
        self.claims += 1
        for id_, _ in claim.rows:
            for operation in self.operations_of(id_):
                self.apply(self.model, operation, claim.version)
        for number in self.due(claim.at):
            self.model.wait_again(self.model.documents[number], claim.at)
        for start in claim.starts:
            self.start(claim, start)
        is_short = len(claim.starts) < claim.workers + claim.ahead and not claim.is_partial
        if is_short:
            left = self.model.candidates(claim.at, None)
            if left and len(claim.starts) < claim.workers:
                self.differs(claim.version, f"{left[0]} could have been claimed")
            if left and not any(document.number in self.started for document in left):
                self.differs(claim.version, f"{left[0]} could have been prefetched")
        self.check_caps(claim.version)

    def due(self, now: float) -> list[int]:
        delayed = [document for document in self.model.documents if document.state == "delayed"]
        due = [
            (document.retry_at, document.number) for document in delayed if document.retry_at <= now
        ]
        return [number for _, number in sorted(due)[:AT_ONCE]]

    def start(self, claim: RecordedClaim, start: RecordedStart) -> None:
        chosen = self.model.claim(claim.at)
        lane = any(
            event.kind == "claimed" and event.document == start.document and event.data.get("lane")
            for event in self.history.events[claim.at]
        )
        if chosen is None or (chosen.document, chosen.lane) != (start.document, lane):
            own = [
                (document.number, document.slot, document.turn, document.state, document.pipeline)
                for number in {start.document, chosen.document if chosen else start.document}
                for document in self.model.documents.of(self.model.documents[number].customer.name)
            ]
            self.differs(claim.version, f"{start} (lane: {lane}) and not {chosen}, of {own}")
            raise OutOfStep
        self.starts += 1
        self.lane_starts += lane
        self.started.add(start.document)
        self.check_charge(claim.version, start, chosen)

    def check_charge(self, version: int, start: RecordedStart, chosen: Start) -> None:
        if self.model.policy == "classic":
            if start.charge is not None:
                self.differs(version, f"{start} was charged")
            return
        charges = self.model.documents[start.document].charges
        expected = [(charge.amount, charge.weight, charge.charged == "tag") for charge in charges]
        actual = [(start.charge, start.weight, bool(start.to_tag))]
        if start.inner_charge is not None:
            actual.append((start.inner_charge, 1.0, bool(start.inner_to_tag)))
        if actual != expected:
            self.differs(version, f"{start} charged {actual} and not {expected}")
        if str(start.payer) != self.model.account_of(self.model.customer(chosen.customer)):
            self.differs(version, f"{start} is paid by {start.payer}")

    def check_caps(self, version: int) -> None:
        """Check the caps by the states of documents only, without the model's choices."""
        for name, customer in self.model.customers.items():
            states = [document.state for document in self.model.documents.of(name)]
            running, before = states.count("processing"), self.running.get(name, 0)
            if customer.cap is not None and running > max(customer.cap, before):
                self.differs(version, f"{running} of customer {name} run, cap {customer.cap}")
            self.running[name] = running
        for name, settings in self.model.settings.pipelines.items():
            most = settings.max_running
            running = sum(
                document.pipeline == name and document.state == "processing"
                for document in self.model.documents
            )
            if most is not None and running > most:
                self.differs(version, f"{running} of pipeline {name} run, at most {most}")

    # Events.

    def operations_of(self, row: int) -> list[Operation]:
        if row not in self.operations:
            events = [tuple(event) for event in json.loads(self.rows[row])]
            known = [event for event in events if event[0] not in ("tally", "cost")]
            self.operations[row] = list(self.translated(known))
        return self.operations[row]

    def translated(self, events: Sequence[tuple[Any, ...]]) -> Iterator[Operation]:
        """The events of one transaction, with the documents that the public events name."""
        if not events:
            return
        at: float = events[0][1]
        public = [event for event in self.history.events[at] if event.kind in ENDS]
        submitted: dict[int, list[int]] = defaultdict(list)
        for number in self.submitted_at(at):
            submitted[self.history.documents[number].customer].append(number)
        ended: PublicEvent | None = None
        for values in events:
            tag, _, customer = values[:3]
            name = str(customer)
            if tag in ("member", "reset"):
                yield Operation(tag, at, name, event=values)
            elif tag == "arrived" and customer in submitted:
                yield Operation("submitted", at, name, tuple(submitted.pop(customer)), values)
            elif tag == "arrived" and ended is not None and ended.kind in ("released", "rescued"):
                assert values[7][0] == ended.document, (values, ended)
                ended = None  # the end of the attempt has the event
            else:
                ended = public.pop(0)
                assert ended.document is not None
                delay = ended.data.get("delay")
                yield Operation(ended.kind, at, name, (ended.document,), values, delay)
        assert not public, f"events {public} that the queue was not told of"
        assert not submitted, f"submissions {submitted} that the queue was not told of"

    def submitted_at(self, at: float) -> list[int]:
        """The documents that the transaction of this time accepted."""
        return [
            event.document
            for event in self.history.events.get(at, ())
            if event.kind == "submitted" and event.document is not None
        ]

    def apply(self, model: ReplayModel, operation: Operation, where: object) -> None:
        """Apply events to the model; `where` None: a copy, without checks."""
        if where is not None:
            self.kinds[operation.kind] += 1
        kind, at, name, documents, _, _ = operation
        if kind == "submitted":
            self.submit(model, operation, where)
        elif kind == "member":
            self.change(model, operation)
        elif kind == "reset":
            model.bring_records(model.records_of(model.customer(name))[-1:], at)
            model.reset(name, at)
        elif kind == "retried":
            self.retry(model, documents[0], at)
        else:
            self.end(model, operation)

    def retry(self, model: ReplayModel, number: int, at: float) -> None:
        if number not in model.documents.all:  # a copy has only what was pending
            model.take_in(self.history.documents[number], at)
            return
        document = model.documents[number]
        model.documents.add(document)
        model.wait_again(document, at)

    def end(self, model: ReplayModel, operation: Operation) -> None:
        """The end of an attempt, or of a document that waited."""
        kind, at, _, (number,), event, delay = operation
        if kind in ("released", "rescued"):
            model.lose(number, at)
            return
        used = event[4] if event[0] == "ended" else 0.0
        if kind == "requeued":
            assert delay is not None
            model.fail_attempt(number, at, used, at + delay)
            return
        if kind == "cancelled":
            model.cancel(number, at, used)
        else:
            model.finish(number, at, used)
        model.documents.ended(number)

    def submit(self, model: ReplayModel, operation: Operation, where: object) -> None:
        stored = [self.history.documents[number] for number in operation.documents]
        name, at = operation.customer, operation.at
        for document in stored:
            if model.policy == "classic" and where is not None:
                count = model.count_next(name, at)
                self.check_count(document, count, where)
            model.take_in(document, at)
        arrived = operation.event[4:6]
        expected = (len(stored), sum(document.estimate for document in stored))
        if where is not None and not close(arrived, expected):
            self.differs(where, f"{arrived} arrived and not {expected}")

    def check_count(self, stored: StoredDocument, count: int, where: object) -> None:
        priority = 1 + sum(count < bound for bound in self.model.settings.thresholds)
        if (stored.count, stored.priority) != (count, priority):
            self.differs(where, f"{stored} should have count {count}, priority {priority}")

    def change(self, model: ReplayModel, operation: Operation) -> None:
        _, at, customer, account, is_paused, cap, weight, interval = operation.event
        name, owner = str(customer), None if account is None else str(account)
        if model.policy == "classic":
            owner = None  # it has no accounts
        known = model.customer(name)
        if known.account != owner:
            model.set_account(name, owner, at)
        model.set_weight(owner or name, weight, at)
        if known.interval != interval:
            model.set_interval(name, interval, at)
        if known.paused != is_paused:
            model.set_paused(name, at, paused=is_paused)
        if known.cap != cap:
            model.set_cap(name, cap, at)

    # What submissions saw.

    def check(self, check: RecordedCheck) -> None:
        """Count anew what was submitted then, by the version and the rows that were seen."""
        accounts = {self.model.account_of(self.model.customer(str(id_))) for id_ in check.customers}
        names = {
            customer.name
            for customer in self.model.customers.values()
            if self.model.account_of(customer) in accounts
        }
        part = self.model.part(names)
        for row in check.rows:
            for operation in self.operations_of(row):
                if operation.customer in names:
                    self.apply(part, operation, None)
        for number in self.submitted_at(check.at):
            stored = self.history.documents[number]
            if str(stored.customer) in names:
                self.check_submission(part, stored, check)

    def check_submission(
        self, part: ReplayModel, stored: StoredDocument, check: RecordedCheck
    ) -> None:
        self.checks += 1
        name = str(stored.customer)
        if part.policy == "fair":
            self.check_count(stored, part.count_of_next(name, check.at), check)
        part.take_in(stored, check.at)
        pending, cap = len(part.documents.of(name)), self.history.pending_caps[stored.customer]
        if cap is not None and pending > cap:
            self.differs(check, f"{pending} of customer {name} are pending, at most {cap}")

    # The end.

    def compare_state(self) -> None:
        """What the store keeps is what the model has."""
        model, history = self.model, self.history
        totals = (history.state["version"], history.state["claims"], history.state["lane_claims"])
        expected = (self.first_version + self.claims, self.starts, self.lane_starts)
        if totals != expected:
            self.differs("totals", f"{totals} and not {expected}")
        if model.settings.share and history.state["credit"] != model.credit:
            self.differs("credit", f"{history.state['credit']} and not {model.credit}")
        for customer in model.customers.values():
            self.compare_member(customer)
        if model.policy == "fair":
            if not close([history.state["clock"]], [model.clock()]):
                self.differs("clock", f"{history.state['clock']} and not {model.clock()}")
            for customer in model.customers.values():
                for record in model.records_of(customer):
                    self.compare_record(record)

    def compare_member(self, customer: Customer) -> None:
        member = self.history.members[int(customer.name)]
        states = [document.state for document in self.model.documents.of(customer.name)]
        expected = (states.count("processing"), states.count("delayed"))
        if (member["processing"], member["delayed"]) != expected:
            self.differs(customer.name, f"{member} and not {expected}")

    def compare_record(self, record: Record) -> None:
        id_ = int(record.customer or record.account)
        member = self.history.members.get(id_)
        if member is None:
            return
        at = max(member["debt_at"], record.debt_at)
        expected = (record.tag, self.model.queued(record))
        if not close((member["tag"], member["queued"]), expected):
            self.differs(record, f"{member} and not {expected}")
        debt, own = member["debt"], self.model.debt_of(record, at)
        if not self.model.stands_still(record):
            interval = self.model.interval_of_record(record)
            debt = self.model.faded(debt, at - member["debt_at"], interval)
        if not close([debt], [own]):
            self.differs(record, f"{member}, a debt of {debt} and not of {own} at {at}")
        places = {
            place[:2]
            for (member, _), place in self.history.places.items()
            if member == id_ and place is not None
        }
        place = record.place
        if len(places) != (place is not None) or (
            place is not None and not close(next(iter(places)), place[:2])
        ):
            self.differs(record, f"its place is {places}")


class OutOfStep(Exception):
    """The model would have chosen another document: nothing that follows can be compared."""


ENDS = ("done", "failed", "requeued", "released", "rescued", "cancelled", "retried")


def close(actual: Iterable[float], expected: Iterable[float]) -> bool:
    return all(
        math.isclose(one, other, rel_tol=1e-9, abs_tol=TOLERANCE)
        for one, other in zip(actual, expected, strict=True)
    )


def replay(store: Store, settings: QueueSettings) -> Replay:
    """Replay all that a store has committed."""
    replayed = Replay(read_history(store), settings)
    try:
        replayed.run()
    except OutOfStep:
        """It was noted."""
    return replayed

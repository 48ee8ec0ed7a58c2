"""Acceptance: documents of one transaction are checked one by one and written together.

Customers are locked and read once and followed in memory, so each submission sees the effect of
those before it, and a hundred of them cost little more than one.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fairlead.errors import Refused, Unauthorized
from fairlead.model.customers import Counter as ClassicCounter
from fairlead.model.documents import Document, EventKind, NewDocument, Submission
from fairlead.model.states import State
from fairlead.model.submissions import index_terms
from fairlead.policy import refusals
from fairlead.policy.classic import ClassicPolicy
from fairlead.policy.costs import CostBucket, cost_bucket, estimate
from fairlead.policy.queue import Queue, QueueState
from fairlead.policy.queue_events import Arrived, Deferred
from fairlead.storage.sql import rows
from fairlead.storage.sql.batches import check_open, lock_batches
from fairlead.storage.sql.queries import sql
from fairlead.storage.sql.queue_rows import CostTable
from fairlead.storage.sql.reads import unknown_customer
from fairlead.storage.sql.transaction import Transaction
from fairlead.storage.sql.waiting_rows import Waiting, arrived


class Origin(NamedTuple):
    """Where attachments come from: the seq of their parent and of its root, and their depth."""

    parent: int | None = None
    root: int | None = None
    depth: int = 0


@dataclass(slots=True)
class _Place:
    """What a document gets by the policy in force."""

    count: int
    priority: int
    policy: str
    estimate: float


@dataclass(slots=True)
class _Customer:
    """A customer after the documents accepted so far; id 0: its row is still to be added."""

    id: int
    name: str
    classic: ClassicPolicy
    thresholds: tuple[int, ...] | None = None
    reset_interval: float | None = None
    counter: ClassicCounter | None = None
    pending_cap: int | None = None
    pending: int = 0
    day: int = 0
    day_bytes: int = 0
    day_limit: int | None = None
    blocked: str | None = None
    is_changed: bool = False


class _Accepted(NamedTuple):
    """A document that was accepted and is not written yet."""

    customer: _Customer
    new: NewDocument
    place: _Place
    origin: Origin


def accept(tx: Transaction, submission: Submission) -> list[Document]:
    """Accept all documents of the submission, or refuse them all; a known key repeats itself."""
    batch = SubmissionWriter(tx, [submission])
    documents = batch.accept(submission)
    batch.write()
    return documents


def accept_each(
    tx: Transaction, submissions: Sequence[Submission]
) -> list[list[Document] | Exception]:
    """Accept or refuse each submission, whatever becomes of the others."""
    batch = SubmissionWriter(tx, submissions)
    outcomes: list[list[Document] | Exception] = []
    for submission in submissions:
        try:
            outcomes.append(batch.accept(submission))
        except (Refused, Unauthorized) as refusal:
            outcomes.append(refusal)
    batch.write()
    return outcomes


def add_customer(tx: Transaction, name: str) -> int | None:
    """A new customer's row with its event; None: another process was quicker."""
    customer: int | None = tx.connection.execute(sql("add_customer"), (name, tx.now)).get
    if customer is not None:
        tx.add_event(EventKind.CUSTOMER_ADDED, customer)
    return customer


def buried_name(name: str) -> str:
    """The name under which a deleted customer is known: it says nothing to who reads it."""
    return hashlib.sha256(name.encode()).hexdigest()


def lock_customers(tx: Transaction, ids: Iterable[int]) -> list[rows.CustomerRow]:
    """Rows of customers, locked in the order of their numbers."""
    values = (tx.connection.array(sorted(ids)),)
    locked = tx.connection.execute(sql("select_customers_by_id"), values)
    return [rows.CustomerRow(*row) for row in locked]


class SubmissionWriter:
    """Accepts submissions one after the other; `write` makes their rows."""

    def __init__(self, tx: Transaction, submissions: Sequence[Submission] = ()) -> None:
        self._tx, self._now, self._is_fair = tx, tx.now, tx.is_fair
        self._today = int(self._now // 86_400)
        self._customers: dict[str, _Customer] = {}
        self._queues: dict[int, Queue] = {}
        """Under fair, the part of the queue in which each customer is."""
        self._new_customers: Queue | None = None
        self._costs = CostTable(tx.connection)
        self._estimates: dict[CostBucket, float] = {}
        self._accepted: list[_Accepted] = []
        self._keys: list[tuple[int, str, str, str | None, int, int]] = []
        self._new_batches: list[tuple[str, int, float]] = []
        self._valid_keys: set[str] = set()
        self._buried: set[str] = set()
        self._lock(submissions)
        wanted = {each.batch for each in submissions if each.batch is not None}
        self._batches = lock_batches(tx, wanted) if wanted else {}

    def accept(self, submission: Submission) -> list[Document]:
        """The documents of the submission; if it is refused, this raises and changes nothing."""
        if submission.access_key is not None and submission.access_key not in self._valid_keys:
            raise refusals.no_valid_key()
        customer = self._customer(submission)
        if submission.key is not None:
            earlier = self._accepted_before(customer, submission)
            if earlier is not None:
                return earlier
        if submission.batch is not None:
            check_open(self._batches.get(submission.batch), submission.batch, customer.id)
        self._check(customer, submission)
        if not customer.id:
            self._add(customer)
        if submission.new_batch is not None:
            self._new_batches.append((submission.new_batch, customer.id, self._now))
        if submission.key is not None:
            key = (submission.key, submission.fingerprint, submission.sender)
            self._keys.append((customer.id, *key, len(self._accepted), len(submission.documents)))
        return self._take(customer, submission.documents, Origin())

    def accept_parts(
        self, row: rows.CustomerRow, parts: Sequence[NewDocument], origin: Origin
    ) -> None:
        """Attachments were accepted with their document, so no cap refuses them."""
        customer = self._customers.get(row.name)
        if customer is None:
            customer = self._customers[row.name] = self._known(row)
            self._load([customer])
        self._take(customer, parts, origin)

    # --- writing ---

    def write(self) -> None:
        """Write the rows of all documents that were accepted."""
        if not self._accepted:
            return
        tx, accepted = self._tx, self._accepted
        numbers = self._numbers(len(accepted))
        run = tx.connection.executemany
        run(sql("add_batch"), self._new_batches)
        run(sql("insert_document"), [self._row(*each) for each in zip(numbers, accepted)])  # noqa: B905
        originals = [
            (number, each.new.content)
            for number, each in zip(numbers, accepted, strict=True)
            if each.new.content is not None
        ]
        run(sql("insert_original"), originals)
        terms = [
            (*term, number, each.customer.id)
            for number, each in zip(numbers, accepted, strict=True)
            if each.new.metadata
            for term in index_terms(each.new.metadata)
        ]
        run(sql("insert_metadata_term"), terms)
        self._queue_up(numbers)
        sizes: dict[int, list[int]] = defaultdict(list)
        for number, each in zip(numbers, accepted, strict=True):
            tx.add_event(EventKind.SUBMITTED, each.customer.id, number)
            sizes[each.customer.id].append(each.new.size)
        for customer, added in sizes.items():
            tx.count_usage(customer, documents=len(added), bytes=sum(added))
        for priority, documents in Counter([each.place.priority for each in accepted]).items():
            tx.count_state("waiting", priority, documents)
        keys = [
            (*key, json.dumps(numbers[first : first + many]), tx.now)
            for *key, first, many in self._keys
        ]
        run(sql("add_key"), keys)
        changed = [each for each in self._customers.values() if each.is_changed]
        run(sql("save_check"), [_record(each) for each in sorted(changed, key=lambda c: c.id)])
        for known in changed:
            known.is_changed = False
        self._accepted, self._keys, self._new_batches = [], [], []

    def _numbers(self, number: int) -> list[int]:
        taken = self._tx.connection.execute(sql("take_numbers"), (number,)).fetchall()
        if len(taken) == number:
            return [row[0] for row in taken]
        last = taken[0][0]
        return list(range(last - number + 1, last + 1))

    def _row(self, number: int, accepted: _Accepted) -> tuple[Any, ...]:
        customer, new, place, origin = accepted
        return (
            number,
            new.id,
            customer.id,
            new.pipeline,
            new.name,
            new.size,
            new.sha256,
            place.priority,
            place.count,
            place.policy,
            int(new.urgent),
            rows.data_text(new.metadata),
            new.reference,
            _not_before(new, self._now),
            new.batch,
            self._now,
            place.estimate,
            new.look.shape,
            new.look.pages,
            new.password,
            *origin,
        )

    def _queue_up(self, numbers: Sequence[int]) -> None:
        """The rows of the queue, and an event for each customer and pipeline."""
        tx, now, deferred = self._tx, self._now, Counter[int]()
        by_entry: dict[tuple[int, str], list[Waiting]] = defaultdict(list)
        waiting, delayed = [], []
        for number, (customer, new, place, _) in zip(numbers, self._accepted, strict=True):
            slot, slot_seq = tx.slot(place.priority, number, urgent=new.urgent)
            since = _waits_from(new, now)
            row = Waiting(
                customer.id,
                new.pipeline,
                slot,
                slot_seq,
                number,
                place.priority,
                int(new.urgent),
                displaced=0,
                estimate=place.estimate,
                submitted_at=since,
            )
            if since > now:
                delayed.append((since, *row))
                deferred[customer.id] += 1
            else:
                waiting.append(row)
                by_entry[customer.id, new.pipeline].append(row)
        tx.connection.executemany(sql("insert_waiting"), waiting)
        tx.connection.executemany(sql("insert_delayed"), delayed)
        for arrivals in by_entry.values():
            tx.add_queue_event(arrived(now, arrivals))
        for id_, documents in deferred.items():
            tx.add_queue_event(Deferred(now, id_, documents))

    # --- customers ---

    def _lock(self, submissions: Sequence[Submission]) -> None:
        """Lock and read the customers; behind the locks, look who may submit."""
        if not submissions:
            return
        run, array = self._tx.connection.execute, self._tx.connection.array
        names = sorted({submission.customer for submission in submissions})
        keys = {each.access_key for each in submissions if each.access_key is not None}
        selected = run(sql("select_for_check"), (array(names),))
        valid = run(sql("valid_keys"), (array(sorted(keys)), self._now)) if keys else ()
        for row in selected:
            known = self._known(rows.CustomerRow(*row))
            self._customers[known.name] = known
        self._valid_keys = {id_ for (id_,) in valid}
        unknown = [buried_name(name) for name in names if name not in self._customers]
        if unknown:
            self._buried = {name for (name,) in run(sql("buried_customers"), (array(unknown),))}
        self._load(self._customers.values())

    def _load(self, customers: Iterable[_Customer]) -> None:
        """Read from the queue what the checks need: always under fair, else for pending caps."""
        needed = [each for each in customers if self._is_fair or each.pending_cap is not None]
        if not needed:
            return
        loaded = self._tx.load_queue({each.id for each in needed})
        for customer in needed:
            member = loaded.queue.member(customer.id)
            customer.pending = member.waiting + member.processing
            self._queues[customer.id] = loaded.queue

    def _customer(self, submission: Submission) -> _Customer:
        name = submission.customer
        customer = self._customers.get(name)
        if customer is None:
            customer = self._customers[name] = _Customer(0, name, self._tx.rules.classic())
        if not customer.id and buried_name(name) in self._buried:
            raise refusals.deleted_customer(name)
        if not customer.id and submission.strict:
            raise unknown_customer(name, hint=f"add it first: fairlead customers add {name}")
        return customer

    def _known(self, row: rows.CustomerRow) -> _Customer:
        own = row.own_settings
        return _Customer(
            row.id,
            row.name,
            self._tx.rules.classic(own.reset_interval, own.thresholds),
            own.thresholds,
            own.reset_interval,
            row.counter,
            own.pending_cap,
            0,
            row.day,
            row.day_bytes,
            own.bytes_a_day,
            own.blocked,
        )

    def _add(self, customer: _Customer) -> None:
        id_ = add_customer(self._tx, customer.name)
        if id_ is not None:
            customer.id = id_
            self._queues[id_] = self._queue_of_new_customers()
            return
        # Another process added it meanwhile; its row is locked now.
        values = (self._tx.connection.array([customer.name]),)
        row = self._tx.connection.execute(sql("select_for_check"), values).fetchone()
        assert row is not None  # noqa: S101 (the conflict says so)
        known = self._known(rows.CustomerRow(*row))
        customer.id, customer.counter = known.id, known.counter
        customer.day, customer.day_bytes = known.day, known.day_bytes
        self._load([customer])

    def _queue_of_new_customers(self) -> Queue:
        if self._new_customers is None:
            rules = self._tx.rules
            self._new_customers = Queue(rules.fair(), rules.lane, QueueState(self._tx.policy))
        return self._new_customers

    # --- checks ---

    def _check(self, customer: _Customer, submission: Submission) -> None:
        if customer.blocked is not None:
            raise refusals.blocked(customer.name, customer.blocked)
        cap, sent = customer.pending_cap, len(submission.documents)
        if cap is not None and customer.pending + sent > cap:
            raise refusals.over_pending_cap(customer.name, cap, customer.pending, sent)
        own = customer.day_limit
        limit = self._tx.rules.daily_bytes if own is None else own
        if limit is not None and self._bytes_today(customer, submission.documents) > limit:
            size = sum(document.size for document in submission.documents)
            raise refusals.daily_bytes(customer.name, limit, size)

    def _bytes_today(self, customer: _Customer, documents: Sequence[NewDocument]) -> int:
        before = customer.day_bytes if customer.day == self._today else 0
        return before + sum([document.size for document in documents])

    def _accepted_before(
        self, customer: _Customer, submission: Submission
    ) -> list[Document] | None:
        """The documents of the idempotency key; None: it is new."""
        if any(key == submission.key for _, key, *_ in self._keys):
            self.write()  # it was used in this very batch
        known_key = (customer.id, submission.key)
        row = self._tx.connection.execute(sql("find_key"), known_key).fetchone()
        if row is None:
            self._check_sender(customer, submission)
            return None
        fingerprint, numbers = row
        if fingerprint != submission.fingerprint:
            raise refusals.other_documents(submission.key)
        wanted = json.loads(numbers)
        where = " WHERE d.seq IN (SELECT value FROM json_each(?)) ORDER BY d.seq"
        query = rows.DOCUMENT.select + where
        cursor = self._tx.connection.execute(query, (self._tx.connection.array(wanted),))
        documents = [rows.document_from(row, self._tx.rules) for row in cursor]
        if len(documents) < len(wanted):
            raise refusals.deleted_documents(submission.key)
        return documents

    def _check_sender(self, customer: _Customer, submission: Submission) -> None:
        """Refuse a key that the same sender has used for another customer."""
        if submission.sender is not None:
            values = (submission.sender, submission.key, customer.id)
            run = self._tx.connection.execute
            if run(sql("key_of_another_customer"), values).get is not None:
                raise refusals.other_documents(submission.key)

    # --- places ---

    def _take(
        self, customer: _Customer, news: Sequence[NewDocument], origin: Origin
    ) -> list[Document]:
        """Give each document its count and priority."""
        documents, now = [], self._now
        for new in news:
            cost = self._estimate(new)
            if self._is_fair:
                place = self._place_by_fair(customer, new, cost)
            else:
                check = customer.classic.check(customer.counter, now=now)
                customer.counter = check.counter
                place = _Place(check.count, check.priority, customer.classic.label, cost)
            self._accepted.append(_Accepted(customer, new, place, origin))
            documents.append(_document(customer.name, new, place, now))
        customer.day_bytes = self._bytes_today(customer, news)
        customer.day = self._today
        customer.pending += len(news)
        customer.is_changed = True
        return documents

    def _place_by_fair(self, customer: _Customer, new: NewDocument, cost: float) -> _Place:
        now = self._now
        if customer.id not in self._queues:
            self._load([customer])
        rule = self._tx.rules.fair(customer.reset_interval, customer.thresholds)
        queue = self._queues[customer.id]
        count = queue.count(customer.id, now)
        if _waits_from(new, now) <= now:  # else its work does not wait yet
            arrival = Arrived(
                now,
                customer.id,
                new.pipeline,
                documents=1,
                estimates=cost,
                head=(1, 0),
                oldest=(0, now),
            )
            queue.fold([arrival])
        return _Place(count, rule.priority_of(count), rule.label, cost)

    def _estimate(self, new: NewDocument) -> float:
        """Seconds of work, by what claims learned of documents of the same shape and length."""
        bucket = cost_bucket(new.look, new.size, new.pipeline)
        if bucket not in self._estimates:
            self._estimates[bucket] = estimate(bucket, self._costs.near(bucket))
        return self._estimates[bucket]


def _record(customer: _Customer) -> tuple[Any, ...]:
    counter = customer.counter
    values = (None, None) if counter is None else (counter.count, counter.updated_at)
    return (*values, customer.day, customer.day_bytes, customer.id)


def _not_before(new: NewDocument, now: float) -> float | None:
    return None if new.not_before is None else new.not_before.time(now)


def _waits_from(new: NewDocument, now: float) -> float:
    """From when on it waits: a wait for its own time must not make its customer overdue."""
    return max(now, _not_before(new, now) or now)


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
        pipeline=new.pipeline,
        metadata=dict(new.metadata),
        reference=new.reference,
        not_before=_not_before(new, now),
        batch=new.batch,
    )

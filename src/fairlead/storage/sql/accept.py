"""Acceptance: documents of one transaction are checked one by one and written together.

Customers and accounts are read once and followed in memory, so each submission sees the effect of
those before it, and a hundred of them cost little more than one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fairlead.errors import Refused
from fairlead.model.customers import Check, Counter
from fairlead.model.documents import Document, EventKind, NewDocument, Submission
from fairlead.model.states import State
from fairlead.policy import refusals
from fairlead.policy.classic import ClassicPolicy
from fairlead.policy.costs import CostBucket, LearnedCosts, cost_bucket, estimate
from fairlead.storage.sql import fair_accounts, rows
from fairlead.storage.sql.queries import sql
from fairlead.storage.sql.reads import unknown_customer
from fairlead.storage.sql.transaction import Transaction


class Origin(NamedTuple):
    """Where attachments come from: the seq of their parent and of its root, and their depth."""

    parent: int | None = None
    root: int | None = None
    depth: int = 0


@dataclass(slots=True)
class _Place:
    """A document's place; `classic_count` is the classic rule's count under another policy."""

    count: int
    priority: int
    rank: float
    policy: str
    classic_count: int | None
    estimate: float


@dataclass(slots=True)
class _Customer:
    """A customer after the documents accepted so far; id 0: its row is still to be added."""

    id: int
    name: str
    classic: ClassicPolicy
    own: tuple[float | None, tuple[int, ...] | None] = (None, None)
    """Its own reset interval and thresholds."""
    counter: Counter | None = None
    pending_cap: int | None = None
    pending: int = 0
    lift: float = 0.0
    day: int = 0
    day_bytes: int = 0
    day_limit: int | None = None
    account: int | None = None
    unwritten: int = 0
    """Documents of it that are not written yet."""


def accept(tx: Transaction, submission: Submission) -> list[Document]:
    """Accept all documents of the submission, or refuse them all; a known key repeats itself."""
    batch = Batch(tx)
    documents = batch.accept(submission)
    batch.write()
    return documents


def accept_all(tx: Transaction, submissions: Sequence[Submission]) -> list[list[Document]]:
    """Accept all submissions, or refuse them all."""
    batch = Batch(tx)
    documents = [batch.accept(submission) for submission in submissions]
    batch.write()
    return documents


def accept_each(
    tx: Transaction, submissions: Sequence[Submission]
) -> list[list[Document] | Exception]:
    """Accept or refuse each submission, whatever becomes of the others."""
    batch = Batch(tx)
    outcomes: list[list[Document] | Exception] = []
    for submission in submissions:
        try:
            outcomes.append(batch.accept(submission))
        except Refused as refusal:
            outcomes.append(refusal)
    batch.write()
    return outcomes


def accept_parts(
    tx: Transaction, customer: int, parts: Sequence[NewDocument], origin: Origin
) -> None:
    """Accept the attachments of a document of this customer."""
    batch = Batch(tx)
    batch.accept_parts(customer, parts, origin)
    batch.write()


def add_customer(tx: Transaction, name: str) -> int:
    """A new customer's row, with an account of its own and its event."""
    account: int = tx.connection.execute(sql("add_account"), (None,)).get
    customer: int = tx.connection.execute(sql("add_customer"), (name, tx.now, account)).get
    tx.add_event(EventKind.CUSTOMER_ADDED, customer)
    return customer


class Batch:
    """Accepts submissions one after the other; `write` makes their rows."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._today = int(tx.now // 86_400)
        self._customers: dict[str, _Customer] = {}
        self._accounts: dict[int, fair_accounts.Account] = {}
        self._estimates: dict[CostBucket, float] = {}
        self._rows: list[tuple[Any, ...]] = []
        self._tally: defaultdict[int, int] = defaultdict(int)
        self._originals: list[tuple[int, bytes]] = []
        self._keys: list[tuple[int, str, str, int, int]] = []

    def accept(self, submission: Submission) -> list[Document]:
        """The documents of the submission; if it is refused, this raises and changes nothing."""
        customer = self._customer(submission)
        if submission.key is not None:
            earlier = self._accepted_before(customer, submission)
            if earlier is not None:
                return earlier
        self._check(customer, submission)
        if not customer.id:
            customer.id = add_customer(self._tx, customer.name)
        if submission.key is not None:
            key = (submission.key, submission.fingerprint)
            self._keys.append((customer.id, *key, len(self._rows), len(submission.documents)))
        return self._take(customer, submission.documents, Origin())

    def accept_parts(self, customer: int, parts: Sequence[NewDocument], origin: Origin) -> None:
        """Attachments were accepted with their document, so no cap refuses them."""
        query = sql("select_for_check") + " WHERE id = ?"
        row = self._tx.connection.execute(query, (customer,)).fetchone()
        assert row is not None  # noqa: S101 (this transaction has read the document)
        known = self._customers.setdefault(row[1], self._known(row))
        self._take(known, parts, origin)

    def write(self) -> None:
        if not self._rows:
            return
        connection, now = self._tx.connection, self._tx.now
        first = connection.execute(sql("take_seqs"), (len(self._rows),)).get - len(self._rows)
        numbered = list(enumerate(self._rows, first))
        connection.executemany(sql("insert_document"), [(seq, *row) for seq, row in numbered])
        connection.executemany(sql("tally_new"), sorted(self._tally.items()))
        originals = [(first + number, content) for number, content in self._originals]
        connection.executemany(sql("keep_original"), originals)
        kind = EventKind.SUBMITTED.value
        events = [(now, kind, row[1], seq, None, None) for seq, row in numbered]
        connection.executemany(sql("add_event"), events)
        keys = [(*key, first + number, many, now) for *key, number, many in self._keys]
        connection.executemany(sql("add_key"), keys)
        self._write_customers()
        for account in self._accounts.values():
            fair_accounts.save(self._tx, account, account.tags)
        self._rows, self._originals, self._keys = [], [], []
        self._tally.clear()

    # --- customers ---

    def _customer(self, submission: Submission) -> _Customer:
        name = submission.customer
        customer = self._customers.get(name)
        if customer is None:
            query = sql("select_for_check") + " WHERE name = ?"
            row = self._tx.connection.execute(query, (name,)).fetchone()
            new = _Customer(0, name, self._tx.rules.classic())
            customer = self._customers[name] = new if row is None else self._known(row)
        if not customer.id and submission.strict:
            raise unknown_customer(name, hint=f"add it first: fairlead customers add {name}")
        return customer

    def _known(self, row: rows.Row) -> _Customer:
        id_, name, count, counted_at, interval, thresholds, *numbers = row
        own = (interval, rows.thresholds_from(thresholds))
        classic = self._tx.rules.classic(*own)
        return _Customer(id_, name, classic, own, rows.counter(count, counted_at), *numbers)

    def _write_customers(self) -> None:
        changed = [customer for customer in self._customers.values() if customer.unwritten]
        run = self._tx.connection.executemany
        run(sql("save_check"), [_record(customer) for customer in changed])
        run(sql("count_for_account"), [(each.id, each.unwritten, 0, 0.0) for each in changed])
        run(sql("refresh_customer"), [(each.id, each.unwritten, 0, None) for each in changed])
        for customer in changed:
            customer.unwritten = 0

    def _account(self, customer: _Customer) -> fair_accounts.Account:
        if customer.account is None:
            account = fair_accounts.account_of(self._tx, customer.id)
            customer.account = account.id
            self._accounts.setdefault(account.id, account)
        return self._accounts[customer.account]

    # --- checks ---

    def _check(self, customer: _Customer, submission: Submission) -> None:
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
        known_key = (customer.id, submission.key)
        if any(key[:2] == known_key for key in self._keys):
            self.write()  # it was used in this very batch
        row = self._tx.connection.execute(sql("find_key"), known_key).fetchone()
        if row is None:
            return None
        fingerprint, first, number = row
        if fingerprint != submission.fingerprint:
            raise refusals.other_documents(submission.key)
        query = rows.DOCUMENT.select + " WHERE d.seq BETWEEN ? AND ? ORDER BY d.seq"
        cursor = self._tx.connection.execute(query, (first, first + number - 1))
        documents = [rows.DOCUMENT.read(row) for row in cursor]
        if len(documents) < number:
            raise refusals.deleted_documents(submission.key)
        return documents

    # --- places ---

    def _take(
        self, customer: _Customer, news: Sequence[NewDocument], origin: Origin
    ) -> list[Document]:
        """Give each document its place.

        The classic rule counts under every policy, so that a switch back to it is exact.
        """
        now, documents = self._tx.now, []
        for new in news:
            check = customer.classic.check(customer.counter, now=now)
            customer.counter = check.counter
            place = self._place(customer, check, self._estimate(new))
            if new.content is not None:
                self._originals.append((len(self._rows), new.content))
            self._rows.append(_row(customer.id, new, place, now) + origin)
            self._tally[place.priority] += 1
            documents.append(_document(customer.name, new, place, now))
        customer.day_bytes = self._bytes_today(customer, news)
        customer.day = self._today
        customer.pending += len(news)
        customer.unwritten += len(news)
        return documents

    def _place(self, customer: _Customer, check: Check, cost: float) -> _Place:
        if not self._tx.is_fair:
            own = (check.count, check.priority, check.rank)
            return _Place(*own, customer.classic.label, None, cost)
        rule = self._tx.rules.fair(*customer.own)
        account, (placed,) = fair_accounts.charged(self._tx, rule, self._account(customer), [cost])
        self._accounts[account.id] = account
        own = (placed.count, placed.priority, placed.tag - customer.lift)
        return _Place(*own, rule.label, check.count, cost)

    def _estimate(self, new: NewDocument) -> float:
        """Seconds of work, by what was learned of documents of the same shape and length."""
        row = cost_bucket(new.look, new.size)
        if row not in self._estimates:
            run = self._tx.connection.execute
            exact = run(sql("cost_row"), row).fetchone()
            if exact is not None:
                learned = {row.doublings: LearnedCosts(*exact)}
            else:
                near = run(sql("cost_rows"), row[:2])
                learned = {doublings: LearnedCosts(*costs) for doublings, *costs in near}
            self._estimates[row] = estimate(row, learned)
        return self._estimates[row]


def _record(customer: _Customer) -> tuple[Any, ...]:
    assert customer.counter is not None  # noqa: S101 (a document of it was checked)
    counter = (customer.counter.count, customer.counter.updated_at)
    return (*counter, customer.day, customer.day_bytes, customer.id)


def _row(customer: int, new: NewDocument, place: _Place, now: float) -> tuple[Any, ...]:
    """The values of `insert_document`, but for the seq before them and the origin after them."""
    return (
        *(new.id, customer, new.name, new.size, new.sha256),
        *(place.priority, place.count, place.policy, new.urgent, now, place.rank),
        *(0 if new.urgent else None, place.classic_count),
        *(new.look.shape, new.look.pages, place.estimate, new.password),
    )


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

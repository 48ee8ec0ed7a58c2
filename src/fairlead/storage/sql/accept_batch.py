"""Documents that are accepted in one transaction: checked one by one, written together.

Customers and accounts are read once and followed in memory, so each submission finds what those
before it left, and a hundred of them cost little more than one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fairlead.model.customers import Check, Counter
from fairlead.model.documents import Document, EventKind, NewDocument, Submission
from fairlead.model.states import State
from fairlead.policy import refusals
from fairlead.policy.classic import ClassicPolicy
from fairlead.policy.costs import CostBucket, cost_bucket
from fairlead.storage.sql import customer_queue, fair_accounts, rows
from fairlead.storage.sql.queries import sql
from fairlead.storage.sql.reads import unknown_customer
from fairlead.storage.sql.transaction import Transaction


class Origin(NamedTuple):
    """Where parts come from: the seq of what they were in, the seq of its root, and their depth."""

    parent: int | None = None
    root: int | None = None
    depth: int = 0


SUBMITTED = Origin()


@dataclass(slots=True)
class _Place:
    """What a document gets; `classic_count` is the classic rule's count where another one rules."""

    count: int
    priority: int
    rank: float
    policy: str
    classic_count: int | None
    estimate: float


_Own = tuple[float | None, tuple[int, ...] | None]
"""A reset interval and thresholds of a customer's own."""


@dataclass(slots=True)
class _Customer:
    """A customer as the documents accepted so far have left it; id 0: it is to be added."""

    id: int
    name: str
    classic: ClassicPolicy
    own: _Own = (None, None)
    counter: Counter | None = None
    pending_cap: int | None = None
    pending: int = 0
    lift: float = 0.0
    day: int = 0
    day_bytes: int = 0
    bytes_a_day: int | None = None
    account: int | None = None
    unwritten: int = 0
    """Documents of it that wait to be written."""


def add_customer(tx: Transaction, name: str) -> int:
    """A new customer's row, with an account of its own and its event."""
    account: int = tx.connection.execute(sql("add_account"), (None,)).get
    customer: int = tx.connection.execute(sql("add_customer"), (name, tx.now, account)).get
    tx.tell(EventKind.CUSTOMER_ADDED, customer)
    return customer


class Batch:
    """Accepts submissions one after the other; nothing of them is there before `write`."""

    def __init__(self, tx: Transaction) -> None:
        self._moment = tx
        self._today = int(tx.now // 86_400)
        self._customers: dict[str, _Customer] = {}
        self._classics: dict[_Own, ClassicPolicy] = {}
        self._accounts: dict[int, fair_accounts.Account] = {}
        self._estimates: dict[CostBucket, float] = {}
        self._rows: list[tuple[Any, ...]] = []
        self._tally: defaultdict[int, int] = defaultdict(int)
        self._originals: list[tuple[int, bytes]] = []
        self._keys: list[tuple[int, str, str, int, int]] = []

    def accept(self, submission: Submission) -> list[Document]:
        """The documents of the submission; raises where it is refused, and then nothing changed."""
        customer = self._customer(submission)
        if submission.key is not None:
            earlier = self._accepted_before(customer, submission)
            if earlier is not None:
                return earlier
        self._check(customer, submission)
        if not customer.id:
            customer.id = add_customer(self._moment, customer.name)
        if submission.key is not None:
            key = (submission.key, submission.fingerprint)
            self._keys.append((customer.id, *key, len(self._rows), len(submission.documents)))
        return self._take(customer, submission.documents, SUBMITTED)

    def accept_parts(self, customer: int, parts: Sequence[NewDocument], origin: Origin) -> None:
        """What came out of a document. It was accepted with it, so no cap refuses it."""
        query = sql("select_for_check") + " WHERE id = ?"
        row = self._moment.connection.execute(query, (customer,)).fetchone()
        assert row is not None  # noqa: S101 (its document was found in this transaction)
        known = self._customers.setdefault(row[1], self._known(row))
        self._take(known, parts, origin)

    def write(self) -> None:
        """Let all that was accepted be there."""
        if not self._rows:
            return
        connection, now = self._moment.connection, self._moment.now
        first = connection.execute(sql("take_seqs"), (len(self._rows),)).get - len(self._rows)
        numbered = list(enumerate(self._rows, first))
        connection.executemany(sql("insert_document"), [(seq, *row) for seq, row in numbered])
        connection.executemany(sql("tally_new"), sorted(self._tally.items()))
        kept = [(first + number, content) for number, content in self._originals]
        connection.executemany(sql("keep_original"), kept)
        kind = EventKind.SUBMITTED.value
        told = [(now, kind, row[1], seq, None, None) for seq, row in numbered]
        connection.executemany(sql("add_event"), told)
        keys = [(*key, first + number, many, now) for *key, number, many in self._keys]
        connection.executemany(sql("add_key"), keys)
        self._write_customers()
        for account in self._accounts.values():
            fair_accounts.save(self._moment, account, account.tags)
        self._rows, self._originals, self._keys = [], [], []
        self._tally.clear()

    # --- customers ---

    def _customer(self, submission: Submission) -> _Customer:
        known = self._customers.get(submission.customer)
        if known is None:
            known = self._customers[submission.customer] = self._read(submission.customer)
        if not known.id and submission.strict:
            raise unknown_customer(
                known.name, hint=f"add it first: fairlead customers add {known.name}"
            )
        return known

    def _read(self, name: str) -> _Customer:
        query = sql("select_for_check") + " WHERE name = ?"
        row = self._moment.connection.execute(query, (name,)).fetchone()
        if row is None:
            return _Customer(0, name, self._moment.rules.classic())
        return self._known(row)

    def _known(self, row: rows.Row) -> _Customer:
        number, name, count, counted_at, interval, thresholds, *numbers = row
        own = (interval, rows.thresholds_from(thresholds))
        if own not in self._classics:  # most customers have none of their own
            self._classics[own] = self._moment.rules.classic(*own)
        classic = self._classics[own]
        return _Customer(number, name, classic, own, rows.counter(count, counted_at), *numbers)

    def _write_customers(self) -> None:
        changed = [each for each in self._customers.values() if each.unwritten]
        self._moment.connection.executemany(sql("save_check"), [_record(each) for each in changed])
        customer_queue.arrived(self._moment, [(each.id, each.unwritten) for each in changed])
        for each in changed:
            each.unwritten = 0

    def _account(self, customer: _Customer) -> fair_accounts.Account:
        if customer.account is None:
            found = fair_accounts.account_of(self._moment, customer.id)
            customer.account = found.id
            self._accounts.setdefault(found.id, found)
        return self._accounts[customer.account]

    # --- checks ---

    def _check(self, customer: _Customer, submission: Submission) -> None:
        cap, sent = customer.pending_cap, len(submission.documents)
        if cap is not None and customer.pending + sent > cap:
            raise refusals.over_pending_cap(customer.name, cap, customer.pending, sent)
        own = customer.bytes_a_day
        limit = self._moment.rules.bytes_a_day if own is None else own
        if limit is not None and self._bytes_today(customer, submission.documents) > limit:
            came = sum(each.size for each in submission.documents)
            raise refusals.daily_bytes(customer.name, limit, came)

    def _bytes_today(self, customer: _Customer, news: Iterable[NewDocument]) -> int:
        before = customer.day_bytes if customer.day == self._today else 0
        return before + sum(each.size for each in news)

    def _accepted_before(
        self, customer: _Customer, submission: Submission
    ) -> list[Document] | None:
        """What the key of the submission stands for; None: nothing yet."""
        asked = (customer.id, submission.key)
        if any(key[:2] == asked for key in self._keys):
            self.write()  # it stands for what came in this very batch
        row = self._moment.connection.execute(sql("find_key"), asked).fetchone()
        if row is None:
            return None
        fingerprint, first, number = row
        if fingerprint != submission.fingerprint:
            raise refusals.other_documents(submission.key)
        query = rows.DOCUMENT.select + " WHERE d.seq BETWEEN ? AND ? ORDER BY d.seq"
        found = self._moment.connection.execute(query, (first, first + number - 1))
        documents = [rows.DOCUMENT.read(row) for row in found]
        if len(documents) < number:
            raise refusals.deleted_documents(submission.key)
        return documents

    # --- places ---

    def _take(
        self, customer: _Customer, news: Sequence[NewDocument], origin: Origin
    ) -> list[Document]:
        now = self._moment.now
        taken = []
        for new, place in zip(news, self._places(customer, news), strict=True):
            if new.content is not None:
                self._originals.append((len(self._rows), new.content))
            self._rows.append(_row(customer.id, new, place, now) + origin)
            self._tally[place.priority] += 1
            taken.append(_document(customer.name, new, place, now))
        customer.day_bytes = self._bytes_today(customer, news)
        customer.day = self._today
        customer.pending += len(news)
        customer.unwritten += len(news)
        return taken

    def _places(self, customer: _Customer, news: Sequence[NewDocument]) -> list[_Place]:
        """A place for each document.

        The classic rule counts whatever policy is in force, so that going back to it is exact.
        """
        checks = [self._checked(customer) for _ in news]
        estimates = [self._estimate(new) for new in news]
        if self._moment.is_fair:
            return self._fair_places(customer, checks, estimates)
        label = customer.classic.label
        return [
            _Place(check.count, check.priority, check.rank, label, None, estimate)
            for check, estimate in zip(checks, estimates, strict=True)
        ]

    def _checked(self, customer: _Customer) -> Check:
        check = customer.classic.check(customer.counter, now=self._moment.now)
        customer.counter = check.counter
        return check

    def _fair_places(
        self, customer: _Customer, checks: list[Check], estimates: list[float]
    ) -> list[_Place]:
        rule = self._moment.rules.fair(*customer.own)
        account, placed = fair_accounts.charged(
            self._moment, rule, self._account(customer), estimates
        )
        self._accounts[account.id] = account
        return [
            _Place(
                *(each.count, each.priority, each.tag - customer.lift),
                *(rule.label, check.count, estimate),
            )
            for check, estimate, each in zip(checks, estimates, placed, strict=True)
        ]

    def _estimate(self, new: NewDocument) -> float:
        """Seconds of work; what looks alike is looked up once."""
        row = cost_bucket(new.look, new.size)
        if row not in self._estimates:
            self._estimates[row] = fair_accounts.estimated(self._moment, row)
        return self._estimates[row]


def _record(customer: _Customer) -> tuple[Any, ...]:
    assert customer.counter is not None  # noqa: S101 (a document of it was checked)
    counter = (customer.counter.count, customer.counter.updated_at)
    return (*counter, customer.day, customer.day_bytes, customer.id)


def _row(customer: int, new: NewDocument, place: _Place, now: float) -> tuple[Any, ...]:
    """What `insert_document` takes, but for the number before it and the origin after it."""
    return (
        new.id,
        customer,
        new.name,
        new.size,
        new.sha256,
        place.priority,
        place.count,
        place.policy,
        new.urgent,
        now,
        place.rank,
        0 if new.urgent else None,
        place.classic_count,
        new.look.shape,
        new.look.pages,
        place.estimate,
        new.password,
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

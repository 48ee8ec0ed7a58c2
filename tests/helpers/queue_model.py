"""The queue written the plain way, as a test oracle: lists and sorting, no heap, no index.

It follows docs/discussion/fair.md and docs/decisions/0001-queue-of-customers.md, and imports
nothing of `fairlead.policy`, so that no mistake is in both. Names of accounts and customers must
differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

Slot = tuple[int, int]
"""Under classic, the key of a document as other customers see it: (priority, arrival)."""

Place = tuple[int, float, int]
"""(class, rank, ticket) under fair; (priority, arrival, 0) under classic. The lowest is first."""

THRESHOLDS = (-2, -4, -6, -8, -10, -12, -14, -20)
ROUNDING = 1e-6
TOKEN_ROUNDING = 1e-9
DEFAULT_PIPELINE = "default"


@dataclass(frozen=True)
class PipelineSettings:
    max_running: int | None = None
    limit: float | None = None
    """Starts per second."""

    @property
    def burst(self) -> float:
        return max(1.0, self.limit or 0.0)


@dataclass(frozen=True)
class QueueSettings:
    policy: str = "fair"
    unit: float = 6.0
    allowance: float = 42.0
    """In units."""
    interval: float = 1500.0
    overdue_after: float | None = None
    """None: the reset interval."""
    share: int = 4
    """The lane takes at most one of this many claims; 0: no lane."""
    thresholds: tuple[int, ...] = THRESHOLDS
    pipelines: Mapping[str, PipelineSettings] = field(default_factory=dict)

    @property
    def lane_after(self) -> float:
        return self.interval if self.overdue_after is None else self.overdue_after


@dataclass(frozen=True)
class Start:
    """What a claim took. `charged` is "debt" or "tag", and None under classic."""

    document: int
    customer: str
    lane: bool
    charge: float = 0.0
    charged: str | None = None


@dataclass(eq=False)
class Record:
    """The numbers of the fair policy of one account, or of one customer inside an account."""

    account: str
    customer: str | None = None
    """None: the record of the account itself."""
    debt: float = 0.0
    debt_at: float = 0.0
    tag: float = 0.0
    place: Place | None = None


@dataclass(frozen=True)
class Charge:
    record: Record
    amount: float
    weight: float
    charged: str


@dataclass(eq=False)
class Customer:
    name: str
    account: str | None = None
    cap: int | None = None
    paused: bool = False
    last_start: float = -math.inf
    interval: float | None = None
    thresholds: tuple[int, ...] | None = None
    """Its own reset interval and thresholds; None: those of the settings."""
    count: int | None = None
    counted_at: float = -math.inf
    has_submitted: bool = False


@dataclass(eq=False)
class Document:
    number: int
    """Also its arrival: documents are numbered in the order of submission."""
    customer: Customer
    estimate: float
    urgent: bool
    pipeline: str
    count: int
    priority: int
    submitted_at: float
    slot: Slot
    state: str = "waiting"
    retry_at: float = 0.0
    charges: list[Charge] = field(default_factory=list)

    @property
    def turn(self) -> tuple[bool, int, int]:
        """The order within a customer under classic."""
        return not self.urgent, self.priority, self.number


class QueueModel:
    def __init__(self, settings: QueueSettings | None = None) -> None:
        self.settings = settings or QueueSettings()
        assert self.settings.share != 1
        self.policy = self.settings.policy
        self.documents: list[Document] = []
        self.customers: dict[str, Customer] = {}
        self.weights: dict[str, float] = {}
        self.records: dict[tuple[str, str | None], Record] = {}
        self.clocks: dict[str | None, float] = {}
        """V of the accounts under None, and that of the customers inside each account."""
        self.last_ticket = 0
        self.credit = 0
        self.tokens: dict[str, tuple[float, float]] = {}
        """Of each pipeline with a limit: tokens, and the time at which it had them."""

    # What happens to documents.

    def submit(
        self,
        customer: str,
        *,
        now: float,
        estimate: float = 6.0,
        urgent: bool = False,
        pipeline: str = DEFAULT_PIPELINE,
    ) -> tuple[int, int, int]:
        """Return the document's number, count and priority."""
        sender = self.customer(customer)
        self.bring_to(sender, now)
        count = self.count_of_next(customer, now)
        if self.policy == "classic":
            sender.count = count
            sender.counted_at = max(sender.counted_at, now)
        sender.has_submitted = True
        bounds = sender.thresholds or self.settings.thresholds
        priority = 1 + sum(count < bound for bound in bounds)
        number = len(self.documents)
        self.documents.append(
            Document(
                number=number,
                customer=sender,
                estimate=estimate,
                urgent=urgent,
                pipeline=pipeline,
                count=count,
                priority=priority,
                submitted_at=now,
                slot=(priority, number),
            )
        )
        self.enter_or_leave(sender, now)
        return number, count, priority

    def claim(
        self,
        now: float,
        pipelines: Collection[str] | None = None,
        may_start: Callable[[Document], bool] | None = None,
    ) -> Start | None:
        """Take the next document that may run, of these pipelines only (None: of all).

        None also where `may_start` refuses the next one.
        """
        candidates = self.candidates(now, pipelines)
        if not candidates:
            return None
        overdue = self.most_overdue(candidates, now) if self.lane_is_open() else None
        if self.policy == "classic":
            document = self.next_by_classic(candidates, overdue)
        else:
            document = self.next_by_fair(candidates, overdue)
        if may_start is not None and not may_start(document):
            return None
        if self.policy == "classic":
            start = self.start_by_classic(document, candidates, overdue)
        else:
            start = self.start_by_fair(document, overdue, now)
        document.customer.last_start = now
        self.take_token(document.pipeline, now)
        self.count_claim(lane=start.lane)
        return start

    def finish(self, document: int, now: float, actual: float | None) -> None:
        """`actual` is the work it took; None: not known, so nothing is corrected."""
        self.end_attempt(self.documents[document], now, actual, "ended")

    def lose(self, document: int, now: float) -> None:
        """Its worker was killed: the work is refunded, and the document waits again."""
        self.end_attempt(self.documents[document], now, 0.0, "delayed")
        self.wait_again(self.documents[document], now)

    def fail_attempt(
        self, document: int, now: float, actual: float | None, retry_at: float | None
    ) -> None:
        """None: no retry."""
        failed = self.documents[document]
        self.end_attempt(failed, now, actual, "ended" if retry_at is None else "delayed")
        if retry_at is not None:
            failed.retry_at = retry_at

    def cancel(self, document: int, now: float, actual_if_running: float = 0.0) -> bool:
        """Whether it had not ended before."""
        cancelled = self.documents[document]
        if cancelled.state == "processing":
            self.end_attempt(cancelled, now, actual_if_running, "ended")
            return True
        if cancelled.state == "ended":
            return False
        self.bring_to(cancelled.customer, now)
        cancelled.state = "ended"
        self.enter_or_leave(cancelled.customer, now)
        return True

    def due(self, now: float) -> list[int]:
        """Let those wait again whose time has come; return their numbers."""
        delayed = [document for document in self.documents if document.state == "delayed"]
        ready = [document for document in delayed if document.retry_at <= now]
        ready.sort(key=lambda document: (document.retry_at, document.number))
        for document in ready:
            self.wait_again(document, now)
        return [document.number for document in ready]

    # What is set by people.

    def pause(self, customer: str, now: float) -> None:
        self.set_paused(customer, now, paused=True)

    def resume(self, customer: str, now: float) -> None:
        self.set_paused(customer, now, paused=False)

    def set_paused(self, customer: str, now: float, *, paused: bool) -> None:
        changed = self.customer(customer)
        self.bring_to(changed, now)
        changed.paused = paused
        self.enter_or_leave(changed, now)

    def set_cap(self, customer: str, cap: int | None, now: float) -> None:
        changed = self.customer(customer)
        self.bring_to(changed, now)
        changed.cap = cap
        self.enter_or_leave(changed, now)

    def set_weight(self, account: str, weight: float, now: float) -> None:
        """It counts from the next charge on; debt and tag stay as they are."""
        self.weights[account] = weight

    def set_account(self, customer: str, account: str | None, now: float) -> None:
        """None: the customer is an account of its own. What it has waiting moves with it.

        Its own debt goes along; its tag, which is by another clock, does not.
        """
        moved = self.customer(customer)
        if moved.account == account:
            return
        if self.policy == "classic":
            moved.account = account
            return
        self.bring_to(moved, now)
        *left, own = self.records_of(moved)
        del self.records[own.account, own.customer]
        moved.account = account
        own.account, own.customer = self.own_key(moved)
        own.tag, own.place = 0.0, None
        self.records[own.account, own.customer] = own
        self.bring_to(moved, now)
        self.enter_or_leave_records(left, now)
        self.enter_or_leave(moved, now)

    def set_interval(self, customer: str, interval: float | None, now: float) -> None:
        changed = self.customer(customer)
        self.bring_to(changed, now)
        changed.interval = interval

    def reset(self, customer: str, now: float) -> None:
        """Forget what the customer had: the next count is 0, apart from what still waits.

        What the others of its account had stays.
        """
        forgiven = self.customer(customer)
        forgiven.count = None
        if self.policy == "classic":
            return
        self.bring_to(forgiven, now)
        record = self.records_of(forgiven)[-1]
        record.tag = min(record.tag, self.clock_of(record))
        record.debt = 0.0
        self.place_if_lower(record, now)

    def switch(self, policy: str, now: float) -> None:
        if policy == self.policy:
            return
        if policy == "fair":
            self.switch_to_fair(now)
        else:
            self.switch_to_classic(now)

    # What can be read.

    def count_of_next(self, customer: str, now: float) -> int:
        """The count that a submission would show."""
        sender = self.customer(customer)
        if self.policy == "classic":
            if sender.count is None or now - sender.counted_at > self.interval_of(sender):
                return 0
            return sender.count - 1
        record = self.records_of(sender)[-1]
        debt = self.debt_of(record, now) + self.queued(record) / self.weight_of(record)
        return -math.floor(debt / self.settings.unit + ROUNDING)

    def debt(self, account: str, now: float, customer: str | None = None) -> float:
        """The debt at `now`: of the account, or of its customer inside."""
        record = self.records.get((account, customer))
        return 0.0 if record is None else self.debt_of(record, now)

    def tag(self, account: str, customer: str | None = None) -> float:
        record = self.records.get((account, customer))
        return 0.0 if record is None else record.tag

    def place(self, account: str, customer: str | None = None) -> Place | None:
        """The place under fair; under classic the best slot of the customer of this name."""
        if self.policy == "fair":
            record = self.records.get((account, customer))
            return None if record is None else record.place
        slots = [
            document.slot
            for document in self.documents
            if document.customer.name == (customer or account)
            and document.state == "waiting"
            and self.customer_may_run(document.customer)
        ]
        return (*min(slots), 0) if slots else None

    def clock(self, account: str | None = None) -> float:
        """V: of the accounts, or of the customers inside one."""
        return self.clocks.get(account, 0.0)

    # Customers, accounts and their records.

    def customer(self, name: str) -> Customer:
        return self.customers.setdefault(name, Customer(name))

    def account_of(self, customer: Customer) -> str:
        return customer.name if customer.account is None else customer.account

    def records_of(self, customer: Customer) -> list[Record]:
        """The account's record, and last that of the customer inside, if the account is shared."""
        keys = [self.own_key(customer)]
        if customer.account is not None:
            keys.insert(0, (customer.account, None))
        return [self.records.setdefault(key, Record(*key)) for key in keys]

    def own_key(self, customer: Customer) -> tuple[str, str | None]:
        if customer.account is None:
            return customer.name, None
        return customer.account, customer.name

    def interval_of(self, customer: Customer) -> float:
        return self.settings.interval if customer.interval is None else customer.interval

    def interval_of_record(self, record: Record) -> float:
        """That of its customer; a shared account has the usual one."""
        owner = self.customers.get(record.customer or record.account)
        return self.settings.interval if owner is None else self.interval_of(owner)

    def is_of(self, customer: Customer, record: Record) -> bool:
        is_inside = record.customer is not None
        return self.account_of(customer) == record.account and (
            not is_inside or (customer.name == record.customer and customer.account is not None)
        )

    def weight_of(self, record: Record) -> float:
        return 1.0 if record.customer is not None else self.weights.get(record.account, 1.0)

    def clock_key(self, record: Record) -> str | None:
        return None if record.customer is None else record.account

    def clock_of(self, record: Record) -> float:
        return self.clock(self.clock_key(record))

    def queued(self, record: Record) -> float:
        """Q: the estimates of what waits, paused or not."""
        return sum(
            document.estimate
            for document in self.documents
            if document.state == "waiting" and self.is_of(document.customer, record)
        )

    def customer_may_run(self, customer: Customer) -> bool:
        own = [document.state for document in self.documents if document.customer is customer]
        is_at_cap = customer.cap is not None and own.count("processing") >= customer.cap
        return "waiting" in own and not customer.paused and not is_at_cap

    def may_run(self, record: Record) -> bool:
        return any(
            self.customer_may_run(customer)
            for customer in self.customers.values()
            if self.is_of(customer, record)
        )

    # Debt.

    def stands_still(self, record: Record) -> bool:
        if record.place is not None and record.place[0] == 1:
            return True
        return any(
            charge.record is record and charge.charged == "tag"
            for document in self.documents
            if document.state == "processing"
            for charge in document.charges
        )

    def faded(self, debt: float, seconds: float, interval: float | None = None) -> float:
        unit = self.settings.unit
        interval = self.settings.interval if interval is None else interval
        left = math.exp(-seconds / interval) if interval else 0.0
        return max(0.0, (debt + unit) * left - unit)

    def debt_of(self, record: Record, now: float) -> float:
        if now <= record.debt_at or self.stands_still(record):
            return record.debt
        return self.faded(record.debt, now - record.debt_at, self.interval_of_record(record))

    def bring_to(self, customer: Customer, now: float) -> None:
        """Bring the debts to now, before anything changes that stops or starts their fading."""
        if self.policy == "fair":
            self.bring_records(self.records_of(customer), now)

    def bring_records(self, records: Iterable[Record], now: float) -> None:
        for record in records:
            record.debt = self.debt_of(record, now)
            record.debt_at = max(record.debt_at, now)

    # Places.

    def enter_or_leave(self, customer: Customer, now: float) -> None:
        if self.policy == "fair":
            self.enter_or_leave_records(self.records_of(customer), now)

    def enter_or_leave_records(self, records: Iterable[Record], now: float) -> None:
        for record in records:
            if not self.may_run(record):
                record.place = None
            elif record.place is None:
                self.put(record, now)

    def put(self, record: Record, now: float) -> None:
        """Place the record, for the first time or anew."""
        record_class, rank = self.new_place(record, now)
        if record_class == 1:
            record.tag = rank
        self.last_ticket += 1
        record.place = (record_class, rank, self.last_ticket)

    def new_place(self, record: Record, now: float) -> tuple[int, float]:
        settings = self.settings
        if record.debt < settings.allowance * settings.unit:
            interval = self.interval_of_record(record)
            return 0, now + interval * math.log1p(record.debt / settings.unit)
        if record.place is not None and record.place[0] == 1:
            return 1, record.tag
        return 1, self.raised(record)

    def raised(self, record: Record) -> float:
        return max(record.tag, self.clock_of(record))

    def place_if_lower(self, record: Record, now: float) -> None:
        if record.place is None:
            return
        new_class, new_rank = self.new_place(record, now)
        old_class, old_rank, _ = record.place
        if new_class < old_class or (new_class == old_class and new_rank < old_rank - ROUNDING):
            self.put(record, now)

    # Claims.

    def candidates(self, now: float, pipelines: Collection[str] | None) -> list[Document]:
        """Everything that may run: its customer is not held up, and its pipeline is open."""
        waiting = [document for document in self.documents if document.state == "waiting"]
        names = {document.pipeline for document in waiting}
        served = names if pipelines is None else names & set(pipelines)
        opened = {name for name in served if self.is_open(name, now)}
        runnable = [
            customer for customer in self.customers.values() if self.customer_may_run(customer)
        ]
        return [
            document
            for document in waiting
            if document.pipeline in opened and document.customer in runnable
        ]

    def lane_is_open(self) -> bool:
        return self.settings.share > 0 and self.credit >= self.settings.share - 1

    def count_claim(self, *, lane: bool) -> None:
        full = self.settings.share - 1
        if self.settings.share > 0:
            self.credit = self.credit - full if lane else min(full, self.credit + 1)

    def owner(self, customer: Customer) -> str:
        """The name that can be overdue: the customer under classic, the account under fair."""
        return customer.name if self.policy == "classic" else self.account_of(customer)

    def most_overdue(self, candidates: list[Document], now: float) -> str | None:
        """The customer (fair: the account) that the lane takes."""
        overdue = []
        for owner in {self.owner(document.customer) for document in candidates}:
            own = [document for document in candidates if self.owner(document.customer) == owner]
            last_starts = [
                customer.last_start
                for customer in self.customers.values()
                if self.owner(customer) == owner
            ]
            since = max(*last_starts, min(document.submitted_at for document in own))
            if now - since > self.settings.lane_after:
                overdue.append((since, self.lane_tie(owner, own), owner))
        return min(overdue)[2] if overdue else None

    def lane_tie(self, owner: str, own: list[Document]) -> int:
        if self.policy == "classic":
            return min(document.number for document in own)
        place = self.records[owner, None].place
        assert place is not None
        return place[2]

    def next_by_classic(self, candidates: list[Document], overdue: str | None) -> Document:
        """By the lane the customer's oldest; else the first in turn at the best slot."""
        if overdue is not None:
            own = [document for document in candidates if document.customer.name == overdue]
            return min(own, key=lambda document: document.number)
        best = self.best_by_classic(candidates)
        own = [
            document
            for document in candidates
            if document.customer is best.customer and document.pipeline == best.pipeline
        ]
        return min(own, key=lambda document: document.turn)

    def best_by_classic(self, candidates: list[Document]) -> Document:
        return min(candidates, key=lambda document: document.slot)

    def start_by_classic(
        self, chosen: Document, candidates: list[Document], overdue: str | None
    ) -> Start:
        """It uses up the best slot; by the lane the oldest one that its customer has."""
        if overdue is None:
            holder = self.best_by_classic(candidates)
        else:
            own = [
                document
                for document in candidates
                if document.customer is chosen.customer and document.pipeline == chosen.pipeline
            ]
            holder = min(own, key=lambda document: document.slot[1])
        holder.slot, chosen.slot = chosen.slot, holder.slot
        chosen.state = "processing"
        return Start(chosen.number, chosen.customer.name, overdue is not None)

    def next_by_fair(self, candidates: list[Document], overdue: str | None) -> Document:
        accounts = {self.account_of(document.customer) for document in candidates}
        account = overdue or min(accounts, key=lambda name: self.place_of((name, None)))
        own = [document for document in candidates if self.account_of(document.customer) == account]
        if own[0].customer.account is not None:
            inside = {document.customer.name for document in own}
            first = min(inside, key=lambda name: self.place_of((account, name)))
            own = [document for document in own if document.customer.name == first]
        return min(own, key=lambda document: (not document.urgent, document.number))

    def start_by_fair(self, chosen: Document, overdue: str | None, now: float) -> Start:
        records = self.records_of(chosen.customer)
        self.bring_records(records, now)
        chosen.charges = [
            self.charge(record, chosen, lane=overdue is not None and record.customer is None)
            for record in records
        ]
        chosen.state = "processing"
        for record in records:
            if self.may_run(record):
                self.put(record, now)
            else:
                record.place = None
        charge = chosen.charges[0]
        name = chosen.customer.name
        return Start(chosen.number, name, overdue is not None, charge.amount, charge.charged)

    def place_of(self, key: tuple[str, str | None]) -> Place:
        place = self.records[key].place
        assert place is not None, f"{key} has documents that may run and no place"
        return place

    def charge(self, record: Record, document: Document, *, lane: bool) -> Charge:
        assert record.place is not None
        weight = self.weight_of(record)
        amount = document.estimate / weight
        if record.place[0] == 0:
            record.debt += amount
            return Charge(record, amount, weight, "debt")
        if not lane:
            self.clocks[self.clock_key(record)] = max(self.clock_of(record), record.place[1])
        record.tag += amount
        return Charge(record, amount, weight, "tag")

    # Ends.

    def end_attempt(self, document: Document, now: float, actual: float | None, state: str) -> None:
        assert document.state == "processing", f"document {document.number} is {document.state}"
        self.bring_to(document.customer, now)
        self.bring_records([charge.record for charge in document.charges], now)
        document.state = state
        document.retry_at = math.inf
        for charge in document.charges:
            self.correct(charge, actual, now)
        document.charges = []
        self.enter_or_leave(document.customer, now)

    def correct(self, charge: Charge, actual: float | None, now: float) -> None:
        error = 0.0 if actual is None else actual / charge.weight - charge.amount
        if charge.charged == "debt":
            charge.record.debt = max(0.0, charge.record.debt + error)
        else:
            charge.record.tag += error
        self.place_if_lower(charge.record, now)

    def wait_again(self, document: Document, now: float) -> None:
        self.bring_to(document.customer, now)
        document.state = "waiting"
        self.enter_or_leave(document.customer, now)

    # Pipelines.

    def pipeline(self, name: str) -> PipelineSettings:
        return self.settings.pipelines.get(name, PipelineSettings())

    def is_below_max_running(self, name: str) -> bool:
        most = self.pipeline(name).max_running
        running = [document for document in self.documents if document.state == "processing"]
        return most is None or sum(document.pipeline == name for document in running) < most

    def is_open(self, name: str, now: float) -> bool:
        return self.is_below_max_running(name) and self.tokens_at(name, now) >= 1 - TOKEN_ROUNDING

    def tokens_at(self, name: str, now: float) -> float:
        limit = self.pipeline(name).limit
        if limit is None:
            return math.inf
        burst = self.pipeline(name).burst
        tokens, since = self.tokens.get(name, (burst, now))
        return min(burst, tokens + limit * max(0.0, now - since))

    def take_token(self, name: str, now: float) -> None:
        if self.pipeline(name).limit is not None:
            _, since = self.tokens.get(name, (0.0, now))
            self.tokens[name] = (self.tokens_at(name, now) - 1, max(since, now))

    def next_opening(self, now: float) -> float | None:
        """When the next pipeline opens that only lacks a token and has something waiting."""
        times = []
        for name in {
            document.pipeline for document in self.documents if document.state == "waiting"
        }:
            limit, tokens = self.pipeline(name).limit, self.tokens_at(name, now)
            if (
                limit is not None
                and tokens < 1 - TOKEN_ROUNDING
                and self.is_below_max_running(name)
            ):
                times.append(now + (1 - tokens) / limit)
        return min(times, default=None)

    # Switching.

    def switch_to_fair(self, now: float) -> None:
        unit = self.settings.unit
        next_counts = {name: self.count_of_next(name, now) for name in self.customers}
        waiting = [document for document in self.documents if document.state == "waiting"]
        self.policy = "fair"
        self.forget_fair_numbers()
        for customer in self.customers.values():
            self.records_of(customer)
        for record in self.records.values():
            own = [customer for customer in self.customers.values() if self.is_of(customer, record)]
            counts = sum(next_counts[customer.name] for customer in own)
            record.debt = max(0.0, -counts * unit - self.queued(record) / self.weight_of(record))
            record.debt_at = now
        for document in sorted(waiting, key=lambda document: document.slot):
            if self.customer_may_run(document.customer):
                self.enter_or_leave(document.customer, now)

    def switch_to_classic(self, now: float) -> None:
        for customer in self.customers.values():
            if customer.has_submitted:
                customer.count = self.count_of_next(customer.name, now)
                customer.counted_at = max(customer.counted_at, now)
        self.policy = "classic"
        self.forget_fair_numbers()
        for document in self.documents:
            document.slot = (document.priority, document.number)

    def forget_fair_numbers(self) -> None:
        self.records.clear()
        self.clocks.clear()
        for document in self.documents:
            document.charges = []

"""The fair rule once more, from its text alone: exact, slow, and without any code of the product.

Plain lists are looked through from end to end, and all numbers are fractions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

BOUNDS = (-2, -4, -6, -8, -10, -12, -14, -20)


@dataclass
class Row:
    """A row of a trace, exactly."""

    at: Fraction
    customer: str
    seconds: Fraction
    weight: Fraction = Fraction(1)
    estimate: Fraction | None = None


@dataclass
class World:
    """The settings of one run, exactly. `after` is None without the overdue lane."""

    workers: int = 1
    unit: Fraction = Fraction(6)
    theta: Fraction = Fraction(1, 2)
    interval: Fraction = Fraction(1500)
    after: Fraction | None = Fraction(1500)
    share: int = 4


@dataclass
class Doc:
    """A document, and what became of it."""

    row: int
    customer: str
    moment: Fraction
    seconds: Fraction
    cost: Fraction
    weight: Fraction
    arrival: int = -1
    tag: Fraction = Fraction(0)
    count: int = 0
    started: Fraction | None = None
    finished: Fraction | None = None
    lane: bool = False
    closed: bool = False

    @property
    def priority(self) -> int:
        return 1 + sum(self.count < bound for bound in BOUNDS)


@dataclass
class Record:
    """What is kept of a customer: F, the last tag, its last submission, its last start."""

    number: int
    finish: Fraction
    last: Fraction
    submitted: Fraction
    started: Fraction | None = None


@dataclass
class Model:
    """A run of a trace. `docs` are in order of arrival."""

    world: World
    v: Fraction = Fraction(0)
    credit: Fraction = Fraction(0)
    docs: list[Doc] = field(default_factory=list)
    records: dict[str, Record] = field(default_factory=dict)

    def run(self, rows: list[Row]) -> list[Doc]:
        """All documents in the order of the trace's rows."""
        coming = ordered(rows)
        now = coming[0].moment
        while True:
            while self.step(coming, now):
                pass
            ends = [doc.finished for doc in self.docs if doc.finished is not None]
            later = [time for time in ends + [doc.moment for doc in coming] if time > now]
            if not later:
                return sorted(self.docs, key=lambda doc: doc.row)
            self.pass_time(min(later) - now)
            now = min(later)

    def step(self, coming: list[Doc], now: Fraction) -> bool:
        """Completions, then arrivals, then claims; whether anything happened."""
        happened = False
        for doc in self.docs:
            if doc.finished is not None and doc.finished <= now and not doc.closed:
                happened = True
                self.close(doc)
        while coming and coming[0].moment <= now:
            happened = True
            self.submit(coming.pop(0), now)
        while self.working() < self.world.workers and self.waiting():
            happened = True
            self.claim(now)
        return happened

    def waiting(self, customer: str | None = None) -> list[Doc]:
        return [
            doc for doc in self.docs if doc.started is None and customer in (None, doc.customer)
        ]

    def working(self) -> int:
        return sum(doc.started is not None and not doc.closed for doc in self.docs)

    def backlog(self) -> Fraction:
        """B: each waiting customer once, with the weight of its latest document."""
        latest = {doc.customer: doc.weight for doc in self.docs}
        return sum((latest[name] for name in {d.customer for d in self.waiting()}), Fraction(0))

    def pass_time(self, seconds: Fraction) -> None:
        if self.waiting():
            self.v += self.world.theta * self.world.workers / self.backlog() * seconds

    def rest(self) -> None:
        if not self.waiting():
            self.v = max([self.v, *(record.finish for record in self.records.values())])

    def submit(self, doc: Doc, now: Fraction) -> None:
        record = self.records.get(doc.customer)
        if record is None:
            record = Record(len(self.records), self.v, self.v, now)
            self.records[doc.customer] = record
        pending = [d for d in self.docs if d.customer == doc.customer and not d.closed]
        if not pending and now - record.submitted > self.world.interval:
            record.finish = min(record.finish, self.v)
        doc.arrival = len(self.docs)
        doc.tag = record.last = max(self.v, record.finish)
        doc.count = -((doc.tag - self.v) // self.world.unit)
        record.finish = doc.tag + doc.cost / doc.weight
        record.submitted = max(record.submitted, now)
        self.docs.append(doc)

    def close(self, doc: Doc) -> None:
        doc.closed = True
        record = self.records[doc.customer]
        finish = record.finish + (doc.seconds - doc.cost) / doc.weight
        record.finish = max(record.last, finish)
        self.rest()

    def claim(self, now: Fraction) -> None:
        doc = self.overdue(now)
        if doc is None:
            doc = min(self.waiting(), key=lambda doc: (doc.tag, doc.arrival))
            self.v = max(self.v, doc.tag)
            # Credit in seconds of the lane's own work: others earn cost/(m-1), up to one unit.
            earned = self.credit + doc.cost / (self.world.share - 1)
            self.credit = min(self.world.unit, earned)
        else:
            doc.lane = True
            self.credit -= doc.cost
        doc.started, doc.finished = now, now + doc.seconds
        self.records[doc.customer].started = now
        self.rest()

    def overdue(self, now: Fraction) -> Doc | None:
        """The oldest document of the most overdue customer, if the credit pays for it."""
        if self.world.after is None or not self.waiting():
            return None
        oldest = {doc.customer: doc for doc in reversed(self.waiting())}.values()
        waits = [(self.since(doc), self.records[doc.customer].number, doc) for doc in oldest]
        since, _, doc = min(waits, key=lambda wait: wait[:2])
        paid = self.credit >= min(doc.cost, self.world.unit)
        return doc if paid and now - since > self.world.after else None

    def since(self, oldest: Doc) -> Fraction:
        started = self.records[oldest.customer].started
        return oldest.moment if started is None else max(started, oldest.moment)


def ordered(rows: list[Row]) -> list[Doc]:
    """The documents in order of arrival; none before an earlier row of its customer."""
    latest: dict[str, Fraction] = {}
    docs = []
    for number, row in enumerate(rows):
        moment = max(row.at, latest.get(row.customer, row.at))
        latest[row.customer] = moment
        cost = row.seconds if row.estimate is None else row.estimate
        docs.append(Doc(number, row.customer, moment, row.seconds, cost, row.weight))
    return sorted(docs, key=lambda doc: (doc.moment, doc.row))

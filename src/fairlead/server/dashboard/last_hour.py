"""The last hour in numbers, kept in memory from events: who sent, who waited, who is at work."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from fairlead.model.documents import Document, Event, EventKind, Tally
from fairlead.model.names import time_of
from fairlead.model.states import State
from fairlead.policy.classic import DEFAULT_THRESHOLDS

HOUR = 3600.0
MINUTE = 60
STEP = 10
"""Seconds between two points of a chart."""
LEVELS = len(DEFAULT_THRESHOLDS) + 1
"""Levels that are told apart by colour; what settings add beyond counts with the last."""
MOST_WAITS = 10_000
LIGHT, HEAVY = 3, 21
"""Documents in an hour: up to LIGHT all have priority 1, above HEAVY the last one has 9."""
CLASSES = ("light", "medium", "heavy")

_what_happened = attrgetter("kind", "at", "customer")
_ARRIVALS = frozenset([EventKind.SUBMITTED, EventKind.RETRIED])
_ENDS = frozenset([EventKind.DONE, EventKind.FAILED])
_STOPS = _ENDS | {
    EventKind.CANCELLED,
    EventKind.DELETED,
    EventKind.REQUEUED,
    EventKind.RELEASED,
    EventKind.RESCUED,
}


class HourTotals:
    """Amounts by name over the last hour, forgotten by the minute."""

    def __init__(self) -> None:
        self.by_name: dict[str, float] = {}
        self.whole = 0.0
        self._minutes: deque[tuple[int, dict[str, float]]] = deque()

    def add(self, at: float, name: str, amount: float) -> None:
        """Add an amount; times come in order."""
        minute = int(at) // MINUTE
        if not self._minutes or self._minutes[-1][0] < minute:
            self._minutes.append((minute, defaultdict(float)))
            self.forget(at)
        self._minutes[-1][1][name] += amount
        self.by_name[name] = self.by_name.get(name, 0.0) + amount
        self.whole += amount

    def forget(self, now: float) -> None:
        """Take out what is older than an hour."""
        oldest = int(now - HOUR) // MINUTE
        while self._minutes and self._minutes[0][0] < oldest:
            for name, amount in self._minutes.popleft()[1].items():
                left = self.by_name.get(name, 0.0) - amount
                self.whole -= amount
                if left > 1e-9:
                    self.by_name[name] = left
                else:
                    self.by_name.pop(name, None)

    def share(self, name: str) -> float:
        """This one's part of the whole."""
        return self.by_name.get(name, 0.0) / self.whole if self.whole > 1e-9 else 0.0


class Wait(NamedTuple):
    """How long a document waited for its first start."""

    at: float
    customer: str
    seconds: float


class Running(NamedTuple):
    """What a worker does."""

    worker: str
    document: str
    customer: str
    since: float
    pages_done: int = 0
    pages: int = 0


class Sample(NamedTuple):
    """How many documents of each priority were pending at a moment."""

    at: float
    pending: tuple[int, ...]


class Waits(NamedTuple):
    """The waits of one class of customers."""

    name: str
    customers: int
    documents: int
    median: float | None
    high: float | None


class LastHour:
    """What events told. Times of events come in order, as the store writes them."""

    def __init__(self) -> None:
        self.sent, self.work = HourTotals(), HourTotals()
        self.waits: deque[Wait] = deque(maxlen=MOST_WAITS)
        self.running: dict[str, Running] = {}
        self.arrived: dict[int, int] = {}
        self.ended: dict[int, int] = {}
        self.samples: deque[Sample] = deque(maxlen=int(HOUR) // STEP + 1)

    def hear(self, events: Iterable[Event]) -> None:
        """Take in events; those of documents that were accepted together are counted at once."""
        for (kind, at, customer), alike in groupby(events, _what_happened):
            if kind not in _ARRIVALS:
                for event in alike:
                    self._hear(event)
            elif customer is not None:
                number = sum(1 for each in alike if each.document is not None)
                self._count(self.arrived, at, number)
                self.sent.add(at, customer, number)

    def _hear(self, event: Event) -> None:
        document, customer = event.document, event.customer
        if document is None or customer is None:
            return
        if event.kind is EventKind.CLAIMED:
            self._start(event, document, customer)
        elif event.kind is EventKind.PROGRESS and document in self.running:
            pages = {name: event.data.get(name, 0) for name in ("pages_done", "pages")}
            self.running[document] = self.running[document]._replace(**pages)
        elif event.kind in _STOPS:
            self.running.pop(document, None)
            if event.kind in _ENDS:
                self._count(self.ended, event.at)
                self.work.add(event.at, customer, event.data.get("seconds") or 0.0)

    def _start(self, event: Event, document: str, customer: str) -> None:
        worker = str(event.data.get("worker", ""))
        self.running[document] = Running(worker, document, customer, event.at)
        if event.data.get("fence") == 1:
            wait = max(0.0, event.at - time_of(document))
            self.waits.append(Wait(event.at, customer, wait))

    def _count(self, numbers: dict[int, int], at: float, number: int = 1) -> None:
        step = int(at) // STEP
        if step not in numbers:
            for old in [each for each in numbers if each < step - int(HOUR) // STEP]:
                del numbers[old]
        numbers[step] = numbers.get(step, 0) + number

    def sample(self, at: float, tallies: Iterable[Tally]) -> None:
        """Note how much is pending now."""
        self.samples.append(Sample(at, pending_of(tallies)))

    def forget(self, now: float) -> None:
        """Let go of what is older than an hour."""
        self.sent.forget(now)
        self.work.forget(now)
        while self.waits and self.waits[0].at < now - HOUR:
            self.waits.popleft()

    def class_of(self, customer: str) -> str:
        """Light, medium or heavy, by how much the customer sent in the last hour."""
        sent = self.sent.by_name.get(customer, 0.0)
        return CLASSES[(sent > LIGHT) + (sent > HEAVY)]

    def waits_by_class(self) -> list[Waits]:
        """Median and 95th percentile of each class's waits in the last hour."""
        seconds: dict[str, list[float]] = {name: [] for name in CLASSES}
        whose: dict[str, set[str]] = {name: set() for name in CLASSES}
        for wait in list(self.waits):  # another thread may add to it
            name = self.class_of(wait.customer)
            seconds[name].append(wait.seconds)
            whose[name].add(wait.customer)
        return [_waits(name, len(whose[name]), seconds[name]) for name in CLASSES]

    def waits_of(self, customer: str) -> Waits:
        """One customer's waits."""
        found = [each.seconds for each in list(self.waits) if each.customer == customer]
        return _waits(customer, 1, found)


def _waits(name: str, customers: int, seconds: list[float]) -> Waits:
    seconds.sort()
    return Waits(name, customers, len(seconds), percentile(seconds, 0.5), percentile(seconds, 0.95))


def percentile(ordered: Sequence[float], part: float) -> float | None:
    """The value that this part of the values does not exceed."""
    if not ordered:
        return None
    return ordered[max(0, -int(-part * len(ordered) // 1) - 1)]


def pending_of(tallies: Iterable[Tally]) -> tuple[int, ...]:
    """Pending documents by priority; levels beyond the last one count with it."""
    found = [0] * LEVELS
    for state, priority, number in tallies:
        if State(state).is_pending:
            found[min(priority, LEVELS) - 1] += number
    return tuple(found)


def before(
    now: float,
    tallies: Iterable[Tally],
    changes: Sequence[tuple[float, str, int]],
    priority: Callable[[str], int | None],
) -> list[Sample]:
    """How much was pending in the last hour, reckoned back from now.

    `changes` are (time, document, +1 or −1) in order; `priority` may know a document no more.
    """
    level = list(pending_of(tallies))
    samples: list[Sample] = []
    left = len(changes)
    for step in range(int(now) // STEP, int(now - HOUR) // STEP, -1):
        first = bisect_left(changes, float(step * STEP), hi=left, key=lambda each: each[0])
        for _, document, change in changes[first:left]:
            found = priority(document)
            if found is not None:
                level[min(found, LEVELS) - 1] -= change
        left = first
        samples.append(Sample(step * STEP, tuple(max(0, each) for each in level)))
    return samples[::-1]


CHANGES = {
    EventKind.SUBMITTED: 1,
    EventKind.RETRIED: 1,
    EventKind.DONE: -1,
    EventKind.FAILED: -1,
    EventKind.CANCELLED: -1,
}
"""What an event does to the number of pending documents."""


@dataclass(frozen=True, slots=True)
class Step:
    """One check of a customer: the count that its document got."""

    at: float
    count: int
    priority: int
    is_reset: bool


def staircase(documents: Sequence[Document]) -> list[Step]:
    """A customer's checks, oldest first, from its documents, newest first.

    A count above the one before it tells of a reset.
    """
    steps: list[Step] = []
    for each in documents[::-1]:
        if each.parent is None:
            is_reset = bool(steps) and each.count > steps[-1].count
            steps.append(Step(each.submitted_at, each.count, each.priority, is_reset))
    return steps

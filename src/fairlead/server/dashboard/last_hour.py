"""Figures of the last hour, computed from events in memory: arrivals, waits, running jobs."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from msgspec import Struct

from fairlead.app import Fairlead
from fairlead.errors import UnknownDocument
from fairlead.model.documents import CheckedDocument, Event, EventKind, Tally
from fairlead.model.names import time_of
from fairlead.model.states import State
from fairlead.policy.classic import DEFAULT_THRESHOLDS
from fairlead.server.first_starts import FirstStarts

HOUR = 3600.0
MINUTE = 60
STEP = 10
"""Seconds between two points of a chart."""
LEVELS = len(DEFAULT_THRESHOLDS) + 1
"""Levels with a colour of their own. Levels beyond them, from settings, count as the last."""
MOST_WAITS = 10_000
MOST_REPLAYED = 60_000
"""The most events that are read when the server starts."""
PORTION = 1000
LIGHT, HEAVY = 3, 21
"""Documents in an hour: up to LIGHT all have priority 1, above HEAVY the last has priority 9."""
CLASSES = ("light", "medium", "heavy")

_ENDS = frozenset([EventKind.DONE, EventKind.FAILED])
_STOPS = _ENDS | {
    EventKind.CANCELLED,
    EventKind.DELETED,
    EventKind.REQUEUED,
    EventKind.RELEASED,
    EventKind.RESCUED,
}


class HourTotals:
    """Sums by name over the last hour, in steps of a minute."""

    def __init__(self) -> None:
        self.by_name: defaultdict[str, float] = defaultdict(float)
        self._minutes: deque[tuple[int, defaultdict[str, float]]] = deque()

    def add(self, at: float, name: str, amount: float) -> None:
        """Add an amount. Times must not decrease."""
        minute = int(at) // MINUTE
        if not self._minutes or self._minutes[-1][0] < minute:
            self._minutes.append((minute, defaultdict(float)))
            self.forget(at)
        self._minutes[-1][1][name] += amount
        self.by_name[name] += amount

    def forget(self, now: float) -> None:
        oldest = int(now - HOUR) // MINUTE
        while self._minutes and self._minutes[0][0] < oldest:
            for name, amount in self._minutes.popleft()[1].items():
                self.by_name[name] -= amount
                if self.by_name[name] <= 1e-9:
                    del self.by_name[name]


class Wait(NamedTuple):
    """How long a document waited for its first start."""

    at: float
    customer: str
    seconds: float


class RunningJob(NamedTuple):
    """A document that a worker processes, with its progress."""

    worker: str
    document: str
    customer: str
    since: float
    pages_done: int = 0
    pages: int = 0


class PendingSample(NamedTuple):
    """The number of pending documents of each priority at a time."""

    at: float
    pending: tuple[int, ...]


class WaitSummary(NamedTuple):
    """The waits of one class of customers."""

    name: str
    customers: int
    documents: int
    median: float | None
    high: float | None


class LastHour:
    """Figures from events, whose times must not decrease; the store writes them so."""

    def __init__(self) -> None:
        self.sent = HourTotals()
        self.waits: deque[Wait] = deque(maxlen=MOST_WAITS)
        self.running: dict[str, RunningJob] = {}
        self._first_starts = FirstStarts()
        self.arrived: dict[int, int] = {}
        self.ended: dict[int, int] = {}
        self.samples: deque[PendingSample] = deque(maxlen=int(HOUR) // STEP + 1)

    def hear(self, events: Iterable[Event]) -> None:
        """Count events; those of documents that were accepted together in one step."""
        for (kind, at, customer), group in groupby(events, attrgetter("kind", "at", "customer")):
            if kind is not EventKind.SUBMITTED:
                for event in group:
                    self._hear(event)
            elif customer is not None:
                number = sum(event.document is not None for event in group)
                self._count(self.arrived, at, number)
                self.sent.add(at, customer, number)

    def _hear(self, event: Event) -> None:
        document, customer = event.document, event.customer
        if document is None or customer is None:
            return
        is_first_start = self._first_starts.is_first(event)
        if event.kind is EventKind.CLAIMED:
            self._start(event, document, customer, is_first=is_first_start)
        elif event.kind is EventKind.RETRIED:
            self._count(self.arrived, event.at)
            self.sent.add(event.at, customer, 1)
        elif event.kind is EventKind.PROGRESS and document in self.running:
            pages = {name: event.data.get(name, 0) for name in ("pages_done", "pages")}
            self.running[document] = self.running[document]._replace(**pages)
        elif event.kind in _STOPS:
            self.running.pop(document, None)
            if event.kind in _ENDS:
                self._count(self.ended, event.at)

    def _start(self, event: Event, document: str, customer: str, *, is_first: bool) -> None:
        worker = str(event.data.get("worker", ""))
        self.running[document] = RunningJob(worker, document, customer, event.at)
        if is_first:
            wait = max(0.0, event.at - time_of(document))
            self.waits.append(Wait(event.at, customer, wait))

    def _count(self, numbers: dict[int, int], at: float, number: int = 1) -> None:
        step = int(at) // STEP
        if step not in numbers:
            for old in [other for other in numbers if other < step - int(HOUR) // STEP]:
                del numbers[old]
        numbers[step] = numbers.get(step, 0) + number

    def sample(self, at: float, tallies: Iterable[Tally]) -> None:
        self.samples.append(PendingSample(at, pending_of(tallies)))

    def forget(self, now: float) -> None:
        self.sent.forget(now)
        while self.waits and self.waits[0].at < now - HOUR:
            self.waits.popleft()

    def class_of(self, customer: str) -> str:
        sent = self.sent.by_name.get(customer, 0.0)
        return CLASSES[(sent > LIGHT) + (sent > HEAVY)]

    def waits_by_class(self) -> list[WaitSummary]:
        by_class: dict[str, list[Wait]] = {name: [] for name in CLASSES}
        for wait in list(self.waits):  # another thread may add to it
            by_class[self.class_of(wait.customer)].append(wait)
        return [_summary(name, waits) for name, waits in by_class.items()]

    def waits_of(self, customer: str) -> WaitSummary:
        return _summary(customer, [wait for wait in list(self.waits) if wait.customer == customer])


def _summary(name: str, waits: list[Wait]) -> WaitSummary:
    customers, seconds = {wait.customer for wait in waits}, sorted(wait.seconds for wait in waits)
    median, high = percentile(seconds, 0.5), percentile(seconds, 0.95)
    return WaitSummary(name, len(customers), len(seconds), median, high)


def percentile(ordered: Sequence[float], fraction: float) -> float | None:
    """The least value that this fraction of the values does not exceed."""
    return ordered[max(0, math.ceil(fraction * len(ordered)) - 1)] if ordered else None


def pending_of(tallies: Iterable[Tally]) -> tuple[int, ...]:
    pending = [0] * LEVELS
    for state, priority, number in tallies:
        if State(state).is_pending:
            pending[min(priority, LEVELS) - 1] += number
    return tuple(pending)


_PENDING_CHANGES = {
    EventKind.SUBMITTED: 1,
    EventKind.RETRIED: 1,
    EventKind.DONE: -1,
    EventKind.FAILED: -1,
    EventKind.CANCELLED: -1,
}
"""How an event changes the number of pending documents."""


def read_last_hour(fairlead: Fairlead, until: int) -> LastHour:
    """The figures of the last hour, from the store's events up to the number `until`."""
    now, last_hour = fairlead.store.now(), LastHour()
    after = max(_first_since(fairlead, now - HOUR, until), until - MOST_REPLAYED)
    changes: list[tuple[float, str, int]] = []
    while after < until:
        events = [event for event in fairlead.store.events(after, PORTION) if event.seq <= until]
        if not events:
            break
        after = events[-1].seq
        last_hour.hear(events)
        changes += [
            (event.at, event.document, _PENDING_CHANGES[event.kind])
            for event in events
            if event.kind in _PENDING_CHANGES and event.document is not None
        ]
    priority = cache(partial(_priority, fairlead))
    last_hour.samples.extend(pending_before(now, fairlead.store.tallies(), changes, priority))
    last_hour.forget(now)
    return last_hour


def _priority(fairlead: Fairlead, id_: str) -> int | None:
    try:
        return fairlead.document(id_).priority
    except UnknownDocument:
        return None


def _first_since(fairlead: Fairlead, time: float, until: int) -> int:
    """An event number after which all events are from `time` or later, by binary search."""
    low, high = 0, until
    while low < high:
        middle = (low + high) // 2
        events = fairlead.store.events(middle, 1)
        if events and events[0].at < time:
            low = events[0].seq
        else:
            high = middle
    return low


def pending_before(
    now: float,
    tallies: Iterable[Tally],
    changes: Sequence[tuple[float, str, int]],
    priority: Callable[[str], int | None],
) -> list[PendingSample]:
    """The pending documents in the last hour, computed backwards from now.

    `changes` are (time, document, +1 or −1) in order; `priority` is None for deleted documents.
    """
    pending = list(pending_of(tallies))
    samples: list[PendingSample] = []
    end = len(changes)
    for step in range(int(now) // STEP, int(now - HOUR) // STEP, -1):
        start = bisect_left(changes, float(step * STEP), hi=end, key=lambda change: change[0])
        for _, document, change in changes[start:end]:
            level = priority(document)
            if level is not None:
                pending[min(level, LEVELS) - 1] -= change
        end = start
        samples.append(PendingSample(step * STEP, tuple(max(0, number) for number in pending)))
    return samples[::-1]


class Step(Struct, frozen=True):
    """The count and priority that one document of a customer got."""

    at: float
    count: int
    priority: int
    is_reset: bool


def staircase(checks: Sequence[CheckedDocument]) -> list[Step]:
    """The steps of a customer, oldest first, from its checks, newest first.

    A count above the one before means a reset.
    """
    steps: list[Step] = []
    for check in checks[::-1]:
        is_reset = bool(steps) and check.count > steps[-1].count
        steps.append(Step(check.submitted_at, check.count, check.priority, is_reset))
    return steps


def thinned(steps: Sequence[Step], most: int) -> list[Step]:
    """Some `most` of the steps, and all at which the count is reset or the priority changes."""
    every = len(steps) // most + 1

    def stays(number: int) -> bool:
        step, before = steps[number], steps[number - 1]
        is_last = number == len(steps) - 1
        is_turn = step.priority != before.priority or step.is_reset
        return number % every == 0 or is_last or is_turn or steps[number + 1].is_reset

    return [step for number, step in enumerate(steps) if stays(number)]

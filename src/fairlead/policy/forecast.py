"""When a waiting document will start: an expected time, and a range from 10th to 90th percentile.

The documents before it are run through the places that serve them (`schedule`), several times: with
the seconds that documents of their queues took lately (`service`), and with arrivals like those of
the last hour. The range follows from how these runs differ.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from statistics import fmean, pstdev
from typing import NamedTuple

from fairlead.model.explanations import Forecast, QueuePlace
from fairlead.policy.schedule import (
    GOES_FIRST,
    Rate,
    Room,
    Schedule,
    ScheduledStart,
    ScheduleLimits,
)
from fairlead.policy.service import Hold, held_at_once, measured, pause
from fairlead.policy.serving import Serving, SharedPlaces

SHORTEST_WINDOW = 300.0
"""Arrivals are counted over at least so many seconds: a short burst is not a rate."""
LONGEST_WINDOW = 3600.0
RUNS = 16
QUIET_RUNS = 4
_BLOCKS = 12
_TENTH = 1.2816  # quantile of the normal distribution: a tenth lies further out on either side
_HIGHEST_LOAD = 0.9
_MOST_TASKS = 100
"""Where more documents are before it, several of a kind are run as one."""
_MOST_ARRIVALS = 100
_EPSILON = 1e-9
_CLOSING = 0.5
_LEAST_PART = 0.01
_SERVICE_ERROR = 0.15
"""The relative error of measured service; fitted, as the others: see `python -m bench.forecast`."""
_RATE_ERROR = 0.05
_ARRIVAL_ERROR = 0.85
"""That of the time by which arrivals delay a start."""
_LANE_ERROR = 0.2
_SHORTEST_ERROR = 0.1
"""Seconds by which a start may differ in any case: that of a claim."""


class QueuedBefore(NamedTuple):
    """A document in the order of the queue: its customer, its queue, its estimate."""

    customer: int
    queue: str
    estimate: float


class RecentArrival(NamedTuple):
    """A recent document: its age, how far behind the front it was placed, and its estimate.

    `behind` is the priority under classic, if it arrived again (`resubmission`). Under fair it is
    the recent and waiting work of its customer before it, in seconds per weight, as its count
    states it.
    """

    age: float
    behind: float
    estimate: float
    customer: int
    queue: str


class QuotaAhead(NamedTuple):
    """The quota of a queue: the most documents at once, and its rate."""

    max_running: int | None = None
    rate: Rate | None = None


@dataclass(frozen=True, slots=True)
class Flow:
    """What runs, what has arrived and what was processed lately, newest first."""

    serving: Serving = field(default_factory=Serving)
    holds: tuple[Hold, ...] = ()
    arrived: tuple[RecentArrival, ...] = ()
    caps: Mapping[int, int] = field(default_factory=dict)
    """By customer, of those that have a cap."""
    quotas: Mapping[str, QuotaAhead] = field(default_factory=dict)
    """By queue, of those that have a quota."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """A waiting document, and those before it.

    `before` are the first of them, in order, including those that a cap or a quota holds back at
    this moment; `documents` says how many there are, if that is more. `behind` is its own place, as
    in `RecentArrival`. Under fair it falls while the document waits (`is_closing`): earlier
    documents of its customer start and their work fades, so fewer new documents go first. `latest`
    is when the overdue lane starts it, if at all.
    """

    document: QueuedBefore
    before: Sequence[QueuedBefore]
    behind: float
    is_closing: bool
    documents: float = 0.0
    latest: float | None = None


class Outlook(NamedTuple):
    """All from which the start of a waiting document is forecast, of one moment."""

    place: QueuePlace
    document: QueuedBefore
    before: tuple[QueuedBefore, ...]
    flow: Flow


class Range(NamedTuple):
    """Seconds until the start: expected, and the range of four in five starts."""

    expected: float
    low: float
    high: float

    def at(self, now: float) -> Forecast:
        return Forecast(now + self.expected, now + self.low, now + self.high)


def forecast(ahead: Ahead, flow: Flow) -> Range | None:
    """Seconds until the start; None: nobody serves its queue."""
    if ahead.document.queue not in flow.serving.served:
        return None
    runs = _Runs(ahead, flow)
    starts = runs.starts()
    expected, quiet = fmean(starts), fmean(runs.quiet_starts())
    by_arrivals = _ARRIVAL_ERROR * max(0.0, expected - quiet)
    by_rate = min(expected, _rate_wait(ahead, flow))
    by_service = _SERVICE_ERROR * (expected - by_rate) + _RATE_ERROR * by_rate
    error = math.hypot(by_service, by_arrivals, _SHORTEST_ERROR)
    wait = _range(expected, math.hypot(pstdev(starts, expected), error))
    if ahead.latest is not None and ahead.latest < expected:
        # The lane passes the documents before it, but no cap and no quota.
        alone = replace(ahead, before=(), documents=0.0)
        at = max(ahead.latest, fmean(_Runs(alone, flow).quiet_starts()))
        wait = Range(*map(min, wait, _range(at, _LANE_ERROR * at + _SHORTEST_ERROR)))
    return wait


def _rate_wait(ahead: Ahead, flow: Flow) -> float:
    """The part of the wait that the rate of its queue alone makes, which is no matter of chance."""
    quota = flow.quotas.get(ahead.document.queue)
    if quota is None or quota.rate is None:
        return 0.0
    same = sum(document.queue == ahead.document.queue for document in ahead.before)
    return max(0.0, 1.0 + same - quota.rate.tokens) / quota.rate.rate


class _Runs:
    """The runs of the documents before one, each with other times and arrivals."""

    def __init__(self, ahead: Ahead, flow: Flow) -> None:
        self._ahead, self._flow = ahead, flow
        self._tasks = _grouped(ahead, flow.caps)
        estimates = [document.estimate for document in (*ahead.before, ahead.document)]
        queues = {document.queue for document in (*ahead.before, ahead.document)}
        queues |= {arrival.queue for arrival in flow.arrived}
        queues |= {hold.queue for hold in flow.holds if hold.ended is None}
        ended = defaultdict[str, list[Hold]](list)
        for hold in flow.holds:
            ended[hold.queue].append(hold)
        usual = fmean(estimates)
        self._services = {queue: measured(ended[queue], usual) for queue in queues}
        places = flow.serving.queues
        self._pauses = {
            queue: pause(ended[queue], [queue], places.get(queue, 1)) for queue in queues
        }
        self._limits = _limits(ahead.document.queue, flow)
        self._arrivals = _Arrivals(ahead, flow)

    def starts(self) -> list[float]:
        return [self._start(Random(number)) for number in range(RUNS)]  # noqa: S311

    def quiet_starts(self) -> list[float]:
        """The starts if nothing arrived that goes first."""
        return [
            self._start(Random(number), is_quiet=True)  # noqa: S311
            for number in range(QUIET_RUNS)
        ]

    def _start(self, random: Random, *, is_quiet: bool = False) -> float:
        levels = {queue: service.level(random) for queue, service in self._services.items()}

        def seconds(queue: str, estimate: float, documents: float) -> float:
            service = self._services[queue]
            work = service.seconds(estimate, documents) * levels[queue]
            return work * service.ratio(random, documents) + documents * self._pauses[queue]

        running = [
            ScheduledStart(GOES_FIRST, hold.queue, hold.customer, self._rest(hold, random))
            for hold in self._flow.holds
            if hold.ended is None
        ]
        tasks = [
            ScheduledStart(order, queue, customer, seconds(queue, estimate, documents), documents)
            for order, (queue, customer, estimate, documents) in enumerate(self._tasks)
        ]
        arrivals = (
            (at, ScheduledStart(GOES_FIRST, queue, customer, seconds(queue, estimate, many), many))
            for at, queue, customer, estimate, many in self._arrivals.drawn(random)
        )
        admitted = _admitted(arrivals, self._limits, self._arrivals.length)
        coming = iter(()) if is_quiet else admitted
        return Schedule(self._limits, running).start_of_last(tasks, coming)

    def _rest(self, hold: Hold, random: Random) -> float:
        service = self._services[hold.queue]
        return service.remaining(hold.estimate, -hold.began, random) + self._pauses[hold.queue]


class _Group(NamedTuple):
    """Documents of a kind: their estimates added up."""

    queue: str
    customer: int
    estimate: float
    documents: float


def _grouped(ahead: Ahead, caps: Collection[int]) -> list[_Group]:
    """The documents before it in order, several of a kind as one if there are many; it is last."""
    before = ahead.before
    scale = max(1.0, ahead.documents / len(before)) if before else 1.0
    size = max(1, math.ceil(len(before) / _MOST_TASKS))
    groups: list[_Group] = []
    open_: dict[tuple[str, int | None], list[QueuedBefore]] = defaultdict(list)
    for document in before:
        kind = (document.queue, document.customer if document.customer in caps else None)
        open_[kind].append(document)
        if len(open_[kind]) == size:
            groups.append(_group(open_.pop(kind), scale))
    groups += [_group(documents, scale) for documents in open_.values()]
    last = ahead.document
    return [*groups, _Group(last.queue, last.customer, last.estimate, 1.0)]


def _group(documents: Sequence[QueuedBefore], scale: float) -> _Group:
    estimate = sum(document.estimate for document in documents)
    first = documents[0]
    return _Group(first.queue, first.customer, estimate * scale, len(documents) * scale)


def _limits(queue: str, flow: Flow) -> ScheduleLimits:
    """The limits of the queues that compete with this one."""
    serving, holds = flow.serving, flow.holds
    sharing = serving.sharing(queue)
    all_places = serving.places(sharing)
    ratio = held_at_once(holds, sharing, all_places) / all_places
    servers, factors = [], []
    for server in serving.servers:
        if not server.queues.isdisjoint(sharing):
            room = _room(server.places * ratio)
            servers.append(SharedPlaces(room.documents, server.queues))
            factors.append(room.factor)
    rooms = defaultdict[str, list[Room]](list)
    for name in sharing:
        most = serving.queues.get(name, all_places)
        if most < serving.places([name]):
            rooms[name].append(_room(held_at_once(holds, [name], most)))
        quota = flow.quotas.get(name)
        if quota is not None and quota.max_running is not None:
            rooms[name].append(Room(quota.max_running))
    rates = {name: quota.rate for name, quota in flow.quotas.items() if quota.rate is not None}
    return ScheduleLimits(servers, factors, rooms, flow.caps, rates)


def _room(documents: float) -> Room:
    whole = max(1, round(documents))
    return Room(whole, whole / documents)


class _Arrivals:
    """Documents that will arrive and go first, as they did in the last hour.

    Under fair, documents of customers with less recent work go first. While the document waits it
    moves to the front, so that fewer do; how fast is fitted, not derived.
    """

    def __init__(self, ahead: Ahead, flow: Flow) -> None:
        sharing = flow.serving.sharing(ahead.document.queue)
        recent = [arrival for arrival in flow.arrived if arrival.age <= LONGEST_WINDOW]
        self._window = max([SHORTEST_WINDOW, *(arrival.age for arrival in recent)])
        self.length = self._window / _BLOCKS
        before = [
            (arrival, part)
            for arrival in reversed(recent)
            if arrival.queue in sharing
            and arrival.customer != ahead.document.customer
            and (part := _part_before(ahead, arrival)) > _LEAST_PART
        ]
        self._many = max(1.0, len(before) / _MOST_ARRIVALS)
        self._times = [self._window - arrival.age for arrival, _ in before]
        self._times += [self._window + time for time in self._times]
        self._before = 2 * [(arrival, part / self._many) for arrival, part in before]

    def drawn(self, random: Random) -> Iterator[tuple[float, str, int, float, float]]:
        """Times and documents: random parts of the last hour one after another, without an end."""
        many, begin = self._many, 0.0
        while self._before:
            since = self._window * random.random()
            first, end = (bisect_left(self._times, at) for at in (since, since + self.length))
            for number in range(first, end):
                arrival, part = self._before[number]
                if random.random() < part:
                    values = (arrival.queue, arrival.customer, many * arrival.estimate, many)
                    yield (begin + self._times[number] - since, *values)
            begin += self.length


def _part_before(ahead: Ahead, arrival: RecentArrival) -> float:
    """The part of the wait during which a new document like `arrival` would go first."""
    if arrival.behind >= ahead.behind:
        return 0.0
    return (1.0 - arrival.behind / ahead.behind) ** _CLOSING if ahead.is_closing else 1.0


def _admitted(
    arrivals: Iterator[tuple[float, ScheduledStart]], limits: ScheduleLimits, slack: float
) -> Iterator[tuple[float, ScheduledStart]]:
    """Arrivals up to a load at which the documents before them still come to their turn."""
    places = sum(server.places for server in limits.servers)
    work: defaultdict[str, float] = defaultdict(float)
    for at, task in arrivals:
        most = min([places, *(room.documents for room in limits.rooms.get(task.queue, ()))])
        room = _HIGHEST_LOAD * (at + slack)
        if (
            work[""] + task.seconds <= places * room
            and work[task.queue] + task.seconds <= most * room
        ):
            work[""] += task.seconds
            work[task.queue] += task.seconds
            yield at, task


def _range(expected: float, deviation: float) -> Range:
    """A lognormal range: waits are more often much longer than much shorter."""
    if expected <= _EPSILON:
        return Range(expected, 0.0, max(expected, _TENTH * deviation))
    width = math.sqrt(math.log1p((deviation / expected) ** 2))
    middle = math.log(expected) - width**2 / 2
    low, high = (math.exp(middle + side * _TENTH * width) for side in (-1, 1))
    return Range(expected, min(low, expected), max(high, expected))

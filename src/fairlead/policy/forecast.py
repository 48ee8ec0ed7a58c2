"""When a waiting document will start: an expected time, and a range from 10th to 90th percentile.

The workers share the work ahead. Documents that arrive meanwhile and go first add to that work, at
the rate of recent arrivals. The range follows from the errors of earlier estimates, and from how
unevenly documents arrived.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import heapreplace
from typing import NamedTuple

from fairlead.model.explanations import Forecast

SHORTEST_WINDOW = 300.0
"""Arrivals are counted over at least so many seconds: a short burst is not a rate."""
LONGEST_WINDOW = 3600.0
_BUCKETS = 12
_TENTH = 1.2816  # quantile of the normal distribution: a tenth lies further out on either side
_PRIOR_DOCUMENTS = 5
"""How many documents the prior, that estimates are about right, counts for."""
_PRIOR_VARIANCE = 0.25
_HIGHEST_LOAD = 0.9
_MOST_SIMULATED = 500
_EPSILON = 1e-9
_CLOSING = 1.5
_REMAINING_ERROR = 0.15
"""The relative error that learning does not remove; fitted to simulations, and cautious."""
_SPREAD = {False: 0.85, True: 1.1}
"""Factor of the deviation under classic and fair; fitted, see `python -m bench.forecast`."""


class RunningDocument(NamedTuple):
    """A document being processed: its seconds so far, its estimate, its customer, its queue."""

    elapsed: float
    estimate: float
    customer: str = ""
    queue: str = ""


class RecentArrival(NamedTuple):
    """A recent document: its age, how far behind the front it was placed, and its estimate.

    `behind` is the priority under classic. Under fair it is the recent and waiting work of its
    customer before it, in seconds per weight, as its count states it.
    """

    age: float
    behind: float
    estimate: float


class FinishedDocument(NamedTuple):
    """The estimated and the actual seconds of a document."""

    estimate: float
    actual: float


@dataclass(frozen=True, slots=True)
class Flow:
    """Recent work, newest first."""

    workers: int
    running: tuple[RunningDocument, ...] = ()
    arrived: tuple[RecentArrival, ...] = ()
    finished: tuple[FinishedDocument, ...] = ()


@dataclass(frozen=True, slots=True)
class Ahead:
    """The documents before a document: their number, estimated work, and those of its customer.

    `behind` is its own place, as in `RecentArrival`. Under fair it falls while the document waits
    (`is_closing`): earlier documents of its customer start and their work fades, so fewer new
    documents go first. `latest` is when the overdue lane starts it, if at all; `cap` is how many
    documents of its `customer` may run at once. The quota of its pipeline lets `max_running`
    documents of its `queue` run at once, of which `queue_documents` go first, and starts it no
    earlier than in `quota_seconds`.
    """

    documents: int
    seconds: float
    behind: float
    is_closing: bool
    own_documents: int = 0
    own_seconds: float = 0.0
    cap: int | None = None
    latest: float | None = None
    customer: str = ""
    max_running: int | None = None
    queue: str = ""
    queue_documents: int = 0
    queue_seconds: float = 0.0
    quota_seconds: float = 0.0


class Range(NamedTuple):
    """Seconds until the start: expected, and the range of four in five starts."""

    expected: float
    low: float
    high: float

    def at(self, now: float) -> Forecast:
        return Forecast(now + self.expected, now + self.low, now + self.high)


class _LearnedRates(NamedTuple):
    """Documents take `base` + `slope` · estimate seconds, with this variance.

    If estimates are poor, small ones are too small and large ones too large on average, so the
    slope is flat.
    """

    base: float
    slope: float
    variance: float

    def seconds(self, estimate: float, documents: int = 1) -> float:
        """The seconds that documents take whose estimates add up to `estimate`."""
        return max(0.0, documents * self.base + self.slope * estimate)


class _ArrivalRate(NamedTuple):
    """Work per second that will go first, its variance per second, and the observed seconds."""

    work: float
    variance: float
    window: float


def forecast(ahead: Ahead, flow: Flow) -> Range | None:
    """Seconds until the start; None: there are no workers."""
    if flow.workers < 1:
        return None
    wait = _wait(ahead, flow)
    if ahead.cap is not None:  # it also waits for documents of its own customer
        wait = _later(wait, _wait(*_own_queue(ahead, flow, ahead.cap)))
    if ahead.latest is not None:
        wait = Range(*map(min, wait, _lane_wait(ahead, flow, ahead.latest)))
    if ahead.max_running is not None:
        wait = _later(wait, _wait(*_queue_of_pipeline(ahead, flow, ahead.max_running)))
    if ahead.quota_seconds:
        deviation = _REMAINING_ERROR * ahead.quota_seconds
        wait = _later(wait, _range(ahead.quota_seconds, deviation))
    return wait


def _later(one: Range, other: Range) -> Range:
    return Range(*map(max, one, other))


def _lane_wait(ahead: Ahead, flow: Flow, latest: float) -> Range:
    """The start through the overdue lane, as uncertain as the ends of running documents."""
    learned = _learned(ahead, flow.finished)
    nothing = _ArrivalRate(0.0, 0.0, SHORTEST_WINDOW)
    variance = _variance(replace(ahead, documents=0), flow, learned, nothing, latest)
    return _range(latest, math.sqrt(variance) / flow.workers)


def _own_queue(ahead: Ahead, flow: Flow, cap: int) -> tuple[Ahead, Flow]:
    """The queue of the customer alone, with as many workers as its cap allows."""
    own = replace(ahead, documents=ahead.own_documents, seconds=ahead.own_seconds)
    running = (document for document in flow.running if document.customer == ahead.customer)
    return own, _narrowed(flow, cap, running)


def _queue_of_pipeline(ahead: Ahead, flow: Flow, max_running: int) -> tuple[Ahead, Flow]:
    """The queue of the pipeline alone, with as many workers as its quota allows."""
    own = replace(ahead, documents=ahead.queue_documents, seconds=ahead.queue_seconds)
    running = (document for document in flow.running if document.queue == ahead.queue)
    return own, _narrowed(flow, max_running, running)


def _narrowed(flow: Flow, most: int, running: Iterable[RunningDocument]) -> Flow:
    workers = min(most, flow.workers)
    last = sorted(running, key=lambda document: document.estimate - document.elapsed)[-workers:]
    return replace(flow, workers=workers, running=tuple(last), arrived=())


def _wait(ahead: Ahead, flow: Flow) -> Range:
    if ahead.documents < flow.workers - len(flow.running):
        return Range(0.0, 0.0, 0.0)
    learned = _learned(ahead, flow.finished)
    rate = _arrival_rate(ahead, flow.arrived, learned)
    pace = flow.workers - min(rate.work, _HIGHEST_LOAD * flow.workers)
    expected = _wait_without_arrivals(ahead, flow, learned) * flow.workers / pace
    variance = _variance(ahead, flow, learned, rate, expected)
    return _range(expected, _SPREAD[ahead.is_closing] * math.sqrt(variance) / pace)


def _learned(ahead: Ahead, finished: Sequence[FinishedDocument]) -> _LearnedRates:
    """A regression line through finished documents, mixed with the prior while they are few."""
    number = len(finished)
    mean_ahead = ahead.seconds / ahead.documents if ahead.documents else 0.0
    usual = sum(estimate for estimate, _ in finished) / number if finished else mean_ahead
    mean = (sum(actual for _, actual in finished) + _PRIOR_DOCUMENTS * usual) / (
        number + _PRIOR_DOCUMENTS
    )
    squares = sum((estimate - usual) ** 2 for estimate, _ in finished)
    products = sum((estimate - usual) * (actual - mean) for estimate, actual in finished)
    prior = _PRIOR_DOCUMENTS * usual**2
    slope = max(0.0, (products + prior) / (squares + prior)) if prior > _EPSILON else 1.0
    rates = _LearnedRates(mean - slope * usual, slope, 0.0)
    errors = sum((actual - rates.seconds(estimate)) ** 2 for estimate, actual in finished)
    variance = (errors + _PRIOR_VARIANCE * prior) / (number + _PRIOR_DOCUMENTS)
    return rates._replace(variance=variance)


def _arrival_rate(
    ahead: Ahead, arrived: Sequence[RecentArrival], learned: _LearnedRates
) -> _ArrivalRate:
    recent = [arrival for arrival in arrived if arrival.age <= LONGEST_WINDOW]
    window = max([SHORTEST_WINDOW, *(arrival.age for arrival in recent)])
    buckets = [0.0] * _BUCKETS
    for arrival in recent:
        number = min(_BUCKETS - 1, int(arrival.age / window * _BUCKETS))
        buckets[number] += learned.seconds(arrival.estimate) * _part_before(ahead, arrival)
    mean = sum(buckets) / _BUCKETS
    length = window / _BUCKETS
    variance = sum((work - mean) ** 2 for work in buckets) / (_BUCKETS - 1)
    return _ArrivalRate(mean / length, variance / length, window)


def _part_before(ahead: Ahead, arrival: RecentArrival) -> float:
    """The part of the wait during which a new document like `arrival` would go first.

    Under fair, documents of customers with less recent work go first. While the document waits it
    moves to the front, so that fewer do; how fast is fitted, not derived.
    """
    if arrival.behind >= ahead.behind:
        return 0.0
    return (1.0 - arrival.behind / ahead.behind) ** _CLOSING if ahead.is_closing else 1.0


def _wait_without_arrivals(ahead: Ahead, flow: Flow, learned: _LearnedRates) -> float:
    """When a worker would be free for the document if nothing else arrived."""
    busy = sorted(_remaining(document, learned) for document in flow.running)[: flow.workers]
    free_at = [0.0] * (flow.workers - len(busy)) + busy
    work = learned.seconds(ahead.seconds, ahead.documents)
    if ahead.documents <= _MOST_SIMULATED:
        for _ in range(ahead.documents):
            heapreplace(free_at, free_at[0] + work / ahead.documents)
        return free_at[0]
    # When the first worker is free, the others are somewhere in the middle of a document.
    others = (flow.workers - 1) / flow.workers * work / ahead.documents * _unevenness(flow) / 2
    return max(free_at[0], _shared_end(free_at, work) - others)


def _shared_end(free_at: Sequence[float], work: float) -> float:
    """When the workers together have done the work, each starting when it is free."""
    total = work
    for number, free in enumerate(free_at, start=1):
        total += free
        if number == len(free_at) or total / number <= free_at[number]:
            return total / number
    return work


def _remaining(running: RunningDocument, learned: _LearnedRates) -> float:
    """The seconds left of a running document.

    With exact estimates, that is the rest of its estimate. The worse estimates are, the closer the
    result is to that of a document that has just started.
    """
    whole = learned.seconds(running.estimate)
    rest, restarted = max(0.0, whole - running.elapsed), max(whole, running.elapsed)
    doubt = learned.variance / restarted**2 if restarted > _EPSILON else 0.0
    return (rest + doubt * restarted) / (1 + doubt)


def _unevenness(flow: Flow) -> float:
    """The mean square of estimates over the square of their mean: 1 where all are the same."""
    costs = [arrival.estimate for arrival in flow.arrived]
    total = sum(costs)
    return len(costs) * sum(cost * cost for cost in costs) / total**2 if total > _EPSILON else 1.0


def _variance(
    ahead: Ahead, flow: Flow, learned: _LearnedRates, rate: _ArrivalRate, expected: float
) -> float:
    waiting = ahead.documents * learned.variance
    running = sum(
        learned.variance + learned.seconds(document.estimate) ** 2 / 12 for document in flow.running
    )
    arrivals = rate.variance * expected * (1 + expected / rate.window)
    return waiting + running + arrivals + (_REMAINING_ERROR * expected * flow.workers) ** 2


def _range(expected: float, deviation: float) -> Range:
    """A lognormal range: waits are more often much longer than much shorter."""
    if expected <= _EPSILON:
        return Range(expected, 0.0, max(expected, _TENTH * deviation))
    width = math.sqrt(math.log1p((deviation / expected) ** 2))
    middle = math.log(expected) - width**2 / 2
    low, high = (math.exp(middle + side * _TENTH * width) for side in (-1, 1))
    return Range(expected, min(low, expected), max(high, expected))

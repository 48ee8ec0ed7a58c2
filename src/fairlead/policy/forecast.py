"""When a waiting document will start: an expectation, and a range from one tenth to nine tenths.

Work ahead is shared by the workers; what is sent meanwhile and goes before makes it longer, by the
rate of late. The range comes from what was learnt: how far estimates are off, and how unevenly
documents arrive.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heapreplace
from typing import NamedTuple

from fairlead.model.explanations import Forecast

SHORTEST_WINDOW = 300.0
"""Seconds over which arrivals are counted at least: a burst of a moment is no rate."""
LONGEST_WINDOW = 3600.0
_BUCKETS = 12
_TENTH = 1.2816  # of a normal distribution, one tenth lies further out on either side
_GUESSES = 5
"""As so many documents the guess counts that estimates are about true."""
_GUESSED_VARIANCE = 0.25
_BUSIEST = 0.9
_MOST_PLAYED = 500
_NOTHING = 1e-9
_UNKNOWN = 0.15
"""Relative error that remains however much was learnt; fitted to simulations, and cautious."""


class Running(NamedTuple):
    """A document at work: since how many seconds, how many were estimated, and whose it is."""

    elapsed: float
    estimate: float
    customer: str = ""


class Arrived(NamedTuple):
    """A document of late: its age, its estimate, and how far behind the front it was placed.

    `behind` is the priority under classic, and seconds ahead of the clock under fair.
    """

    age: float
    behind: float
    estimate: float


class Pair(NamedTuple):
    """What a document was estimated at, and what it took."""

    estimate: float
    actual: float


@dataclass(frozen=True, slots=True)
class Flow:
    """What the store knows of the work of late, newest first."""

    workers: int
    running: tuple[Running, ...] = ()
    arrived: tuple[Arrived, ...] = ()
    pairs: tuple[Pair, ...] = ()


@dataclass(frozen=True, slots=True)
class Ahead:
    """What goes before a document: how many, their estimated work, and that of its own customer.

    `behind` is its own place, as in `Arrived`. Under fair the clock comes nearer, so ever fewer
    new documents go before it: `is_closing`. `latest` is when the overdue lane starts it, if it
    does; `cap` is how many of its `customer` may run at once.
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


class Range(NamedTuple):
    """Seconds: the expectation, and the range in which four of five starts should lie."""

    expected: float
    low: float
    high: float

    def at(self, now: float) -> Forecast:
        """The same as times."""
        return Forecast(now + self.expected, now + self.low, now + self.high)


class _LearnedRates(NamedTuple):
    """What documents take by their estimates: `base` + `slope` · estimate, with this variance.

    Where estimates tell little, small ones are too small and large ones too large on average: then
    the slope is flat.
    """

    base: float
    slope: float
    variance: float

    def seconds(self, estimate: float) -> float:
        """What one document takes."""
        return max(0.0, self.base + self.slope * estimate)

    def seconds_of(self, documents: int, estimate: float) -> float:
        """What several take that were estimated at so much together."""
        return max(0.0, documents * self.base + self.slope * estimate)


class _Rate(NamedTuple):
    """Work per second that will go before, its variance per second, and the time it is known of."""

    work: float
    variance: float
    window: float


def forecast(ahead: Ahead, flow: Flow) -> Range | None:
    """Seconds until the start; None: nobody works."""
    if flow.workers < 1:
        return None
    found = _in_line(ahead, flow)
    if ahead.cap is not None:  # it also stands in the line of its customer, and starts in the later
        own = _in_line(*_own_line(ahead, flow, min(ahead.cap, flow.workers)))
        found = Range(*map(max, found, own))
    if ahead.latest is not None:
        found = Range(*(min(each, ahead.latest) for each in found))
    return found


def _own_line(ahead: Ahead, flow: Flow, cap: int) -> tuple[Ahead, Flow]:
    """The line of the customer alone, with as many workers as may work for it."""
    own = replace(ahead, documents=ahead.own_documents, seconds=ahead.own_seconds)
    running = [each for each in flow.running if each.customer == ahead.customer]
    running.sort(key=lambda each: each.estimate - each.elapsed)
    return own, replace(flow, workers=cap, running=tuple(running[-cap:]), arrived=())


def _in_line(ahead: Ahead, flow: Flow) -> Range:
    """Seconds until the start by this line alone."""
    if ahead.documents < flow.workers - len(flow.running):
        return Range(0.0, 0.0, 0.0)
    learnt = _learnt(ahead, flow.pairs)
    rate = _rate(ahead, flow.arrived, learnt)
    pace = flow.workers - min(rate.work, _BUSIEST * flow.workers)
    expected = _drained(ahead, flow, learnt) * flow.workers / pace
    variance = _variance(ahead, flow, learnt, rate, expected)
    return _range(expected, math.sqrt(variance) / pace)


def _learnt(ahead: Ahead, pairs: Sequence[Pair]) -> _LearnedRates:
    """A line through what was learnt; where that is little, a guess has its part in it."""
    number = len(pairs)
    usual = sum(each.estimate for each in pairs) / number if pairs else _mean(ahead)
    took = (sum(each.actual for each in pairs) + _GUESSES * usual) / (number + _GUESSES)
    across = sum((each.estimate - usual) ** 2 for each in pairs)
    along = sum((each.estimate - usual) * (each.actual - took) for each in pairs)
    guess = _GUESSES * usual**2
    slope = max(0.0, (along + guess) / (across + guess)) if guess > _NOTHING else 1.0
    line = _LearnedRates(took - slope * usual, slope, 0.0)
    off = sum((each.actual - line.seconds(each.estimate)) ** 2 for each in pairs)
    return line._replace(variance=(off + _GUESSED_VARIANCE * guess) / (number + _GUESSES))


def _mean(ahead: Ahead) -> float:
    return ahead.seconds / ahead.documents if ahead.documents else 0.0


def _rate(ahead: Ahead, arrived: Sequence[Arrived], learnt: _LearnedRates) -> _Rate:
    """The rate of work of late that would have gone before the document."""
    known = [each for each in arrived if each.age <= LONGEST_WINDOW]
    window = max([SHORTEST_WINDOW, *(each.age for each in known)])
    buckets = [0.0] * _BUCKETS
    for each in known:
        number = min(_BUCKETS - 1, int(each.age / window * _BUCKETS))
        buckets[number] += learnt.seconds(each.estimate) * _part_before(ahead, each)
    mean = sum(buckets) / _BUCKETS
    length = window / _BUCKETS
    uneven = sum((each - mean) ** 2 for each in buckets) / (_BUCKETS - 1)
    return _Rate(mean / length, uneven / length, window)


def _part_before(ahead: Ahead, arrived: Arrived) -> float:
    """The part of the wait during which such a document would go before.

    Under fair the clock comes nearer with the work, and runs on its own as well. The square is
    fitted to simulations, not derived: without it starts were forecast too late.
    """
    if arrived.behind >= ahead.behind:
        return 0.0
    return (1.0 - arrived.behind / ahead.behind) ** 2 if ahead.is_closing else 1.0


def _drained(ahead: Ahead, flow: Flow, learnt: _LearnedRates) -> float:
    """When the workers would come to the document if nothing else were sent."""
    busy = sorted(_remaining(each, learnt) for each in flow.running)[: flow.workers]
    free_at = [0.0] * (flow.workers - len(busy)) + busy
    work = learnt.seconds_of(ahead.documents, ahead.seconds)
    if ahead.documents <= _MOST_PLAYED:
        return _played(free_at, ahead.documents, work)
    # When the first worker is free, the others are somewhere in the middle of a document.
    others = (flow.workers - 1) / flow.workers * work / ahead.documents * _unevenness(flow) / 2
    return max(free_at[0], _filled(free_at, work) - others)


def _played(free_at: list[float], documents: int, work: float) -> float:
    """When a worker is free after so many documents of equal length, taken one by one."""
    for _ in range(documents):
        heapreplace(free_at, free_at[0] + work / documents)
    return free_at[0]


def _filled(free_at: Sequence[float], work: float) -> float:
    """When the workers have done the work between them, each from when it is free."""
    level, known = free_at[0] + work, 0.0
    for number, free in enumerate(free_at, start=1):
        known += free
        if number == len(free_at) or (known + work) / number <= free_at[number]:
            level = (known + work) / number
            break
    return level


def _remaining(running: Running, learnt: _LearnedRates) -> float:
    """What is left of a document at work.

    True estimates leave the rest of them; the worse they are, the more it is as if it had just
    begun, and one that takes longer than thought goes on for a while.
    """
    whole = learnt.seconds(running.estimate)
    rest, anew = max(0.0, whole - running.elapsed), max(whole, running.elapsed)
    doubt = learnt.variance / anew**2 if anew > _NOTHING else 0.0
    return (rest + doubt * anew) / (1 + doubt)


def _unevenness(flow: Flow) -> float:
    """The mean square of estimates over the square of their mean: 1 where all are the same."""
    costs = [each.estimate for each in flow.arrived]
    total = sum(costs)
    return len(costs) * sum(each * each for each in costs) / total**2 if total > _NOTHING else 1.0


def _variance(
    ahead: Ahead, flow: Flow, learnt: _LearnedRates, rate: _Rate, expected: float
) -> float:
    """The variance of the work until the start."""
    ours = ahead.documents * learnt.variance
    running = sum(
        learnt.variance + learnt.seconds(each.estimate) ** 2 / 12 for each in flow.running
    )
    arrivals = rate.variance * expected * (1 + expected / rate.window)
    return ours + running + arrivals + (_UNKNOWN * expected * flow.workers) ** 2


def _range(expected: float, deviation: float) -> Range:
    """A range that leans to the late side, as waits do."""
    if expected <= _NOTHING:
        return Range(expected, 0.0, max(expected, _TENTH * deviation))
    width = math.sqrt(math.log1p((deviation / expected) ** 2))
    middle = math.log(expected) - width**2 / 2
    low, high = (math.exp(middle + side * _TENTH * width) for side in (-1, 1))
    return Range(expected, min(low, expected), max(high, expected))

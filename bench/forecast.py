"""The share of starts within the range of their forecast, which is meant for four of five.

Usage: python -m bench.forecast

Recorded traces run through the pure queue in virtual time, with forecasts against when documents
really start. `traffic` makes more of them.
"""

from __future__ import annotations

import csv
import math
import random
from collections import deque
from collections.abc import Iterable
from copy import deepcopy
from heapq import heappop, heappush
from pathlib import Path
from typing import NamedTuple

from fairlead.model.customers import Counter
from fairlead.policy.classic import ClassicPolicy
from fairlead.policy.fair import FairRule
from fairlead.policy.forecast import (
    Ahead,
    FinishedDocument,
    Flow,
    Range,
    RecentArrival,
    RunningDocument,
    forecast,
)
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.policy.queue import Queue, QueueState, Start
from fairlead.policy.queue_entry import QueuedDocument
from fairlead.policy.queue_events import Ended

LANE = OverdueLane()
TRACES = Path(__file__).with_name("traces")


class Sent(NamedTuple):
    """A document that a customer submits: when, what it takes, and what is estimated."""

    at: float
    customer: int
    seconds: float
    estimate: float


class MadeForecast(NamedTuple):
    """A forecast for the document of this number, made at `now`."""

    document: int
    now: float
    forecast: Range


class Forecaster:
    """Runs documents through a queue, and forecasts the start of some that wait."""

    def __init__(
        self, policy: ClassicPolicy | FairRule, workers: int, chance: random.Random, often: float
    ) -> None:
        self.forecasts: list[MadeForecast] = []
        self.started: dict[int, float] = {}
        self._policy = policy
        self._is_fair = isinstance(policy, FairRule)
        rule = policy if isinstance(policy, FairRule) else FairRule()
        state = QueueState(policy="fair" if self._is_fair else "classic")
        self._queue = Queue(rule, LANE, state)
        self._counters: dict[int, Counter] = {}
        self._workers = workers
        self._random = chance
        self._often = often
        self._sent: list[Sent] = []
        self._running: dict[int, Start] = {}
        self._ends: list[tuple[float, int]] = []
        self._waiting: dict[int, QueuedDocument] = {}
        self._arrived: deque[tuple[float, float, float]] = deque(maxlen=1000)
        self._pairs: deque[FinishedDocument] = deque(maxlen=200)

    def run(self, documents: list[Sent]) -> None:
        """Let all documents arrive, start and end in virtual time."""
        for document in documents:
            self._end_until(document.at)
            self._submit(document)
            self._start(document.at)
        self._end_until(math.inf)

    def _submit(self, sent: Sent) -> None:
        number, now = len(self._sent), sent.at
        self._sent.append(sent)
        priority, behind = self._check(sent.customer, now)
        slot = (0 if self._is_fair else priority, number)
        document = QueuedDocument(
            *(number, sent.customer, slot),
            priority=priority,
            estimate=sent.estimate,
            submitted_at=now,
        )
        self._queue.push(document, now)
        self._waiting[number] = document
        self._arrived.appendleft((now, behind, sent.estimate))
        if self._random.random() < self._often and len(self._running) == self._workers:
            self._forecast({number, self._random.choice(list(self._waiting))}, now)

    def _check(self, customer: int, now: float) -> tuple[int, float]:
        """The priority, and how far behind the front the document is placed."""
        if isinstance(self._policy, FairRule):
            count = self._queue.count(customer, now)
            return self._policy.priority_of(count), -count * self._policy.unit
        check = self._policy.check(self._counters.get(customer), now=now)
        self._counters[customer] = check.counter
        return check.priority, float(check.priority)

    def _start(self, now: float) -> None:
        for start in self._queue.choose(self._workers - len(self._running), now):
            number = start.document.number
            del self._waiting[number]
            self._running[number] = start
            self.started[number] = now
            heappush(self._ends, (now + self._sent[number].seconds, number))

    def _end_until(self, until: float) -> None:
        while self._ends and self._ends[0][0] <= until:
            now, number = heappop(self._ends)
            start, seconds = self._running.pop(number), self._sent[number].seconds
            charge = start.charge
            values = None if charge is None else (charge.seconds, charge.weight, charge.to_tag)
            pipeline = start.document.pipeline
            ended = Ended(now, start.customer, pipeline, seconds, start.payer, values)
            self._queue.fold([ended])
            self._pairs.append(FinishedDocument(start.document.estimate, seconds))
            self._start(now)

    def _forecast(self, numbers: set[int], now: float) -> None:
        """Forecast the starts of waiting documents, from their places in the queue."""
        before = [start.document for start in self._order(numbers, now)]
        flow = Flow(
            self._workers,
            tuple(
                RunningDocument(now - self.started[running], self._sent[running].estimate)
                for running in self._running
            ),
            tuple(RecentArrival(now - at, far, work) for at, far, work in self._arrived),
            tuple(self._pairs),
        )
        for number in sorted(numbers):
            place = [document.number for document in before].index(number)
            ahead = before[:place]
            own = sum(
                document.estimate
                for document in ahead
                if document.customer == before[place].customer
            )
            behind = float(before[place].priority)
            if self._is_fair:
                behind = self._queue.members[before[place].customer].share.debt + own
            work = sum(document.estimate for document in ahead)
            latest = None if own else self._latest_start(before[place], now)
            question = Ahead(len(ahead), work, behind, self._is_fair, latest=latest)
            result = forecast(question, flow)
            assert result is not None
            self.forecasts.append(MadeForecast(number, now, result))

    def _latest_start(self, document: QueuedDocument, now: float) -> float:
        """When the overdue lane starts the oldest document of a customer, as `explain` has it."""
        last_start = self._queue.members[document.customer].last_started_at
        waited = now - max(document.submitted_at, last_start or -math.inf)
        return max(0.0, LANE.after - waited) + LANE.share * document.estimate

    def _order(self, numbers: set[int], now: float) -> list[Start]:
        """The documents in the order in which they would start now, until these are among them."""
        queue, starts, missing = deepcopy(self._queue), list[Start](), set(numbers)
        while missing:
            starts += queue.choose(1, now)
            missing.discard(starts[-1].document.number)
        return starts


def traffic(
    seed: int, *, load: float, workers: int, noise: float, hours: float = 1.5
) -> list[Sent]:
    """Customers of all sizes that send bursts, and estimates that are off by `noise`."""
    chance = random.Random(seed)
    rows: list[Sent] = []
    mean_cost, end = 6.0, hours * 3600
    sizes = [1, 1, 2, 3, 5, 20]
    mean_burst = sum(sizes) / len(sizes)
    at = 0.0
    while at < end:
        at += chance.expovariate(load * workers / (mean_cost * mean_burst))
        customer = int(chance.paretovariate(0.7)) % 15
        for _ in range(chance.choice(sizes)):
            seconds = mean_cost * chance.lognormvariate(-0.32, 0.8)
            off = chance.lognormvariate(-noise * noise / 2, noise)
            rows.append(Sent(at, customer, seconds, seconds * off))
    return rows


class Result(NamedTuple):
    """The quality of the forecasts of a run."""

    number: int
    hits: float
    below: float
    above: float
    width: float  # median of the range over the wait


def judged(
    policy: ClassicPolicy | FairRule,
    rows: list[Sent],
    workers: int,
    seed: int,
    often: float = 0.3,
) -> Result:
    forecaster = Forecaster(policy, workers, random.Random(seed), often)
    forecaster.run(rows)
    below = above = 0
    widths = []
    for document, now, (_, low, high) in forecaster.forecasts:
        wait = forecaster.started[document] - now
        below += wait < low
        above += wait > high
        widths.append((high - low) / wait if wait > 0 else math.inf)
    number = len(forecaster.forecasts)
    return Result(
        number,
        1 - (below + above) / number,
        below / number,
        above / number,
        sorted(widths)[number // 2],
    )


POLICIES: dict[str, ClassicPolicy | FairRule] = {"classic": ClassicPolicy(), "fair": FairRule()}


def recorded(path: Path) -> tuple[list[Sent], int]:
    """The documents of a trace, and its number of workers, with which its name ends."""
    with path.open(newline="") as file:
        rows = [
            Sent(
                float(row["at"]),
                int(row["customer"]),
                float(row["seconds"]),
                float(row["estimate"]),
            )
            for row in csv.DictReader(file)
        ]
    return rows, int(path.stem.rpartition("-")[2])


def judged_traces(policy: str) -> dict[str, Result]:
    """The quality of the forecasts of each recorded trace."""
    return {
        path.stem: judged(POLICIES[policy], *recorded(path), seed=7, often=0.08)
        for path in sorted(TRACES.glob("*.csv"))
    }


def coverage(results: Iterable[Result]) -> float:
    """The share of all forecasts whose start lay in the range."""
    numbers = [(result.hits * result.number, result.number) for result in results]
    return sum(hits for hits, _ in numbers) / sum(number for _, number in numbers)


def main() -> None:
    print("policy   trace         forecasts  in range  before it  after it")
    for policy in POLICIES:
        results = judged_traces(policy)
        for name, result in results.items():
            shares = f"{result.hits:8.0%}  {result.below:9.0%}  {result.above:8.0%}"
            print(f"{policy:7}  {name:12}  {result.number:9}  {shares}")
        print(f"{policy:7}  all                     {coverage(results.values()):8.0%}")


if __name__ == "__main__":
    main()

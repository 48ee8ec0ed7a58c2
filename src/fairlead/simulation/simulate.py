"""Runs a trace under a policy with some workers: when each document starts and ends.

The queue is the one of the stores, entirely in memory; only time is virtual.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from msgspec import Struct

from fairlead.errors import InvalidSetting
from fairlead.model.customers import Counter
from fairlead.model.pipelines import DEFAULT_PIPELINE
from fairlead.policy.classic import Policy
from fairlead.policy.fair import FairRule
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.policy.queue import Queue, QueueState, Start
from fairlead.policy.queue_entry import QueuedDocument, Slot
from fairlead.policy.queue_events import Ended, MemberChanged
from fairlead.simulation.trace import Arrival


class Run(Struct, frozen=True, gc=False):
    """The result of one document. `lane` says whether the overdue lane started it."""

    count: int
    priority: int
    started: float
    finished: float
    lane: bool


_NOT_RUN = Run(0, 0, 0.0, 0.0, lane=False)


def simulate(
    arrivals: Sequence[Arrival],
    policy: Policy | FairRule,
    workers: int,
    lane: OverdueLane | None = None,
) -> list[Run]:
    """Run the trace under a policy; one `Run` per row, in the trace's order.

    Documents of one customer arrive in the order of their rows. If `at` goes back, as after a clock
    that jumps back, the document is accepted at the latest time of its customer, and the classic
    rule gets `at` as written. At any time, documents end first, then documents are accepted in the
    order of their rows, then idle workers claim.
    """
    if workers < 1:
        raise InvalidSetting(f"workers must be a whole number from 1; got {workers!r}")
    if isinstance(policy, FairRule):
        return _FairSimulation(arrivals, policy, workers, lane).run()
    return _ClassicSimulation(arrivals, policy, workers, lane).run()


def acceptances(arrivals: Sequence[Arrival]) -> list[tuple[float, int]]:
    """Times and row numbers in the order of acceptance: by time, then by row."""
    latest: dict[str, float] = {}
    accepted = []
    for row, arrival in enumerate(arrivals):
        at = max(arrival.at, latest.get(arrival.customer, arrival.at))
        latest[arrival.customer] = at
        accepted.append((at, row))
    return sorted(accepted)


class _Simulation:
    """Workers that claim from the queue. Documents are numbered in the order of acceptance."""

    def __init__(self, arrivals: Sequence[Arrival], queue: Queue, workers: int) -> None:
        self._queue = queue
        self._accepted = acceptances(arrivals)
        self._arrivals = [arrivals[row] for _, row in self._accepted]
        self._customers: dict[str, int] = {}
        self._counts: list[int] = []
        self._runs: list[Run] = [_NOT_RUN] * len(arrivals)
        self._idle = workers
        self._busy: list[tuple[float, int, Start]] = []
        self._now = float("-inf")

    def run(self) -> list[Run]:
        for number, (at, _) in enumerate(self._accepted):
            if at > self._now:
                self._work_until(at)
                self._now = at
            self._accept(number, self._arrivals[number])
        self._work_until(float("inf"))
        return self._runs

    def _accept(self, number: int, arrival: Arrival) -> None:
        customers, now = self._customers, self._now
        customer = customers.get(arrival.customer)
        if customer is None:
            customer = customers[arrival.customer] = len(customers)
        count, priority, slot = self._place(number, customer, arrival)
        self._counts.append(count)
        estimate = arrival.seconds if arrival.estimate is None else arrival.estimate
        document = QueuedDocument(
            number, customer, slot, priority=priority, estimate=estimate, submitted_at=now
        )
        self._queue.push(document, now)

    def _place(self, number: int, customer: int, arrival: Arrival) -> tuple[int, int, Slot]:
        """Count, priority and slot of a document that is accepted now."""
        raise NotImplementedError

    def _work_until(self, end: float) -> None:
        """Start and end documents up to `end`; at `end` itself, only end them.

        The documents that start at `end` depend on all that arrive then.
        """
        busy = self._busy
        if self._idle:
            self._claim()
        while busy and busy[0][0] <= end:
            now = self._now = busy[0][0]
            while busy and busy[0][0] == now:
                _, number, start = heappop(busy)
                self._end(number, start)
            if now < end:
                self._claim()

    def _claim(self) -> None:
        now = self._now
        starts = self._queue.choose(self._idle, now)
        self._idle -= len(starts)
        for start in starts:
            document = start.document
            number = document.number
            finished = now + self._arrivals[number].seconds
            self._runs[self._accepted[number][1]] = Run(
                self._counts[number], document.priority, now, finished, start.through_lane
            )
            heappush(self._busy, (finished, number, start))

    def _end(self, number: int, start: Start) -> None:
        seconds = self._arrivals[number].seconds
        ended = Ended(
            self._now, start.customer, DEFAULT_PIPELINE, seconds, start.payer, start.charge
        )
        self._queue.fold((ended,))
        self._idle += 1


class _ClassicSimulation(_Simulation):
    """Classic, and fifo with its single priority: both use each customer's own counter only."""

    def __init__(
        self,
        arrivals: Sequence[Arrival],
        policy: Policy,
        workers: int,
        lane: OverdueLane | None,
    ) -> None:
        super().__init__(arrivals, Queue(FairRule(), lane, QueueState("classic")), workers)
        self._policy = policy
        self._counters: dict[int, Counter] = {}

    def _place(self, number: int, customer: int, arrival: Arrival) -> tuple[int, int, Slot]:
        check = self._policy.check(self._counters.get(customer), now=arrival.at)
        self._counters[customer] = check.counter
        return check.count, check.priority, (check.priority, number)


class _FairSimulation(_Simulation):
    """Fair. A row without an estimate is estimated at its true seconds."""

    def __init__(
        self,
        arrivals: Sequence[Arrival],
        rule: FairRule,
        workers: int,
        lane: OverdueLane | None,
    ) -> None:
        super().__init__(arrivals, Queue(rule, lane, QueueState("fair")), workers)
        self._rule = rule
        self._weights: dict[int, float] = {}

    def _place(self, number: int, customer: int, arrival: Arrival) -> tuple[int, int, Slot]:
        if self._weights.get(customer, 1.0) != arrival.weight:
            self._weights[customer] = arrival.weight
            self._queue.fold((MemberChanged(self._now, customer, weight=arrival.weight),))
        count = self._queue.count(customer, self._now)
        return count, self._rule.priority_of(count), (1, number)

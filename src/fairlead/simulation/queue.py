"""The queue in memory: which document starts next, as the real queue decides it.

Customers form a heap by the key of their best waiting document, and documents are queued within
their customer. Outdated entries stay in the heaps until they come to the top, so every operation
costs O(log n), amortised.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import NamedTuple

from fairlead.policy.overdue_lane import OverdueLane, waits_since


class SimulatedClaim(NamedTuple):
    """A document that starts: its number in order of arrival, and whether the lane started it."""

    document: int
    lane: bool


class _CustomerQueue:
    """One customer's waiting documents, in both orders in which they may start."""

    __slots__ = ("by_arrival", "by_rank", "last_started_at", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.by_rank: list[tuple[float, int]] = []
        self.by_arrival: deque[tuple[int, float]] = deque()
        self.last_started_at: float | None = None

    def waits_since(self) -> float | None:
        if not self.by_arrival:
            return None
        return waits_since(self.last_started_at, self.by_arrival[0][1])


class SimulatedQueue:
    """Starts the lowest (rank, arrival), or the most overdue customer where the lane allows it."""

    def __init__(self, lane: OverdueLane | None = None) -> None:
        self.lane = lane
        self.credit: float = 0  # an int, so that exact costs keep it exact
        self._customers: dict[str, _CustomerQueue] = {}
        self._numbered: list[_CustomerQueue] = []
        self._best: list[tuple[float, int, int]] = []
        self._longest: list[tuple[float, int]] = []
        self._costs: list[float] = []
        self._started: list[bool] = []
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def add(self, customer: str, rank: float, now: float, cost: float = 1.0) -> int:
        """Add a document; return its number in order of arrival, from 0.

        The lane counts by `cost`. `now` never goes back from one call to the next, neither here nor
        in `claim`.
        """
        document = len(self._started)
        if customer not in self._customers:
            self._customers[customer] = _CustomerQueue(len(self._numbered))
            self._numbered.append(self._customers[customer])
        own = self._customers[customer]
        self._started.append(False)
        self._costs.append(cost)
        self._waiting += 1
        heappush(own.by_rank, (rank, document))
        own.by_arrival.append((document, now))
        if own.by_rank[0][1] == document:
            self._push_best(own)
        if len(own.by_arrival) == 1:
            self._push_longest(own)
        return document

    def claim(self, now: float) -> SimulatedClaim | None:
        """Remove the document that starts at `now`; None when nothing waits."""
        if not self._waiting:
            return None
        overdue = self._most_overdue(now)
        own = overdue or self._first()
        document = own.by_arrival[0][0] if overdue else own.by_rank[0][1]
        if self.lane is not None:
            change = self.lane.spend if overdue else self.lane.earn
            self.credit = change(self.credit, self._costs[document])
        self._start(own, document, now)
        return SimulatedClaim(document, overdue is not None)

    def _start(self, own: _CustomerQueue, document: int, now: float) -> None:
        self._started[document] = True
        self._waiting -= 1
        own.last_started_at = now
        while own.by_rank and self._started[own.by_rank[0][1]]:
            heappop(own.by_rank)
        while own.by_arrival and self._started[own.by_arrival[0][0]]:
            own.by_arrival.popleft()
        if own.by_rank:
            self._push_best(own)
            self._push_longest(own)

    def _push_best(self, own: _CustomerQueue) -> None:
        heappush(self._best, (*own.by_rank[0], own.number))

    def _push_longest(self, own: _CustomerQueue) -> None:
        since = own.waits_since()
        if self.lane is not None and since is not None:
            heappush(self._longest, (since, own.number))

    def _first(self) -> _CustomerQueue:
        """The customer of the best waiting document; something must be waiting."""
        while True:
            rank, document, number = self._best[0]
            own = self._numbered[number]
            if own.by_rank and own.by_rank[0] == (rank, document):
                return own
            heappop(self._best)

    def _most_overdue(self, now: float) -> _CustomerQueue | None:
        """The customer that the lane serves next, if one is overdue and the credit suffices."""
        while self.lane is not None and self._longest:
            since, number = self._longest[0]
            own = self._numbered[number]
            if own.waits_since() == since:
                cost = self._costs[own.by_arrival[0][0]]
                is_overdue = since < self.lane.overdue_before(now)
                return own if is_overdue and self.lane.is_open(self.credit, cost) else None
            heappop(self._longest)
        return None

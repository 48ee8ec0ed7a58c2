"""The line of waiting documents, in memory: who goes next, as the real queue decides it.

Customers form a heap by the key of their best waiting document, and documents queue within their
customer. Entries of both heaps are left in place when they are overtaken and dropped when they
come to the top, so every operation costs O(log n), spread over all of them.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import NamedTuple

from fairlead.policy.overdue_lane import OverdueLane, waits_since


class Turn(NamedTuple):
    """A document whose turn it is: its number in order of arrival, and whether the lane took it."""

    arrival: int
    lane: bool


class _Customer:
    """One customer's waiting documents, in both orders in which they may leave."""

    __slots__ = ("by_arrival", "by_rank", "last_started_at", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.by_rank: list[tuple[float, int]] = []
        self.by_arrival: deque[tuple[int, float]] = deque()
        self.last_started_at: float | None = None

    def waits_since(self) -> float | None:
        """When its present wait began; None while nothing waits."""
        if not self.by_arrival:
            return None
        return waits_since(self.last_started_at, self.by_arrival[0][1])


class SimulatedQueue:
    """Who goes next: the lowest (rank, arrival), and now and then whoever is most overdue.

    Without a lane, only the former.
    """

    def __init__(self, lane: OverdueLane | None = None) -> None:
        self.lane = lane
        self.credit: float = 0  # whole, so that exact costs keep it exact
        self._customers: dict[str, _Customer] = {}
        self._numbered: list[_Customer] = []
        self._best: list[tuple[float, int, int]] = []
        self._longest: list[tuple[float, int]] = []
        self._costs: list[float] = []
        self._started: list[bool] = []
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def add(self, customer: str, rank: float, now: float, cost: float = 1.0) -> int:
        """Accept a document; its number in order of arrival, from 0.

        The cost is what the lane reckons with. `now` never goes back from one call to the next,
        neither here nor in `take`.
        """
        arrival = len(self._started)
        owner = self._owner(customer)
        self._started.append(False)
        self._costs.append(cost)
        self._waiting += 1
        heappush(owner.by_rank, (rank, arrival))
        owner.by_arrival.append((arrival, now))
        if owner.by_rank[0][1] == arrival:
            self._enter(owner)
        if len(owner.by_arrival) == 1:
            self._enter_lane(owner)
        return arrival

    def take(self, now: float) -> Turn | None:
        """The document that starts at `now`, which leaves the line; None when nothing waits."""
        if not self._waiting:
            return None
        overdue = self._most_overdue(now)
        owner = self._first() if overdue is None else overdue
        arrival = owner.by_rank[0][1] if overdue is None else owner.by_arrival[0][0]
        self._settle(self._costs[arrival], lane=overdue is not None)
        self._start(owner, arrival, now)
        return Turn(arrival, overdue is not None)

    def _owner(self, customer: str) -> _Customer:
        owner = self._customers.get(customer)
        if owner is None:
            owner = self._customers[customer] = _Customer(len(self._numbered))
            self._numbered.append(owner)
        return owner

    def _settle(self, cost: float, *, lane: bool) -> None:
        if self.lane is not None:
            self.credit = (self.lane.spend if lane else self.lane.earn)(self.credit, cost)

    def _start(self, owner: _Customer, arrival: int, now: float) -> None:
        self._started[arrival] = True
        self._waiting -= 1
        owner.last_started_at = now
        while owner.by_rank and self._started[owner.by_rank[0][1]]:
            heappop(owner.by_rank)
        while owner.by_arrival and self._started[owner.by_arrival[0][0]]:
            owner.by_arrival.popleft()
        if owner.by_rank:
            self._enter(owner)
            self._enter_lane(owner)

    def _enter(self, owner: _Customer) -> None:
        heappush(self._best, (*owner.by_rank[0], owner.number))

    def _enter_lane(self, owner: _Customer) -> None:
        since = owner.waits_since()
        if self.lane is not None and since is not None:
            heappush(self._longest, (since, owner.number))

    def _first(self) -> _Customer:
        """The customer of the best waiting document; something must be waiting."""
        while True:
            rank, arrival, number = self._best[0]
            owner = self._numbered[number]
            if owner.by_rank and owner.by_rank[0] == (rank, arrival):
                return owner
            heappop(self._best)

    def _most_overdue(self, now: float) -> _Customer | None:
        """The customer that the lane serves next, if one is overdue and the credit pays for it."""
        owner = self._longest_waiting()
        if self.lane is None or owner is None:
            return None
        since, arrival = owner.waits_since(), owner.by_arrival[0][0]
        overdue = since is not None and since < self.lane.overdue_before(now)
        return owner if overdue and self.lane.is_open(self.credit, self._costs[arrival]) else None

    def _longest_waiting(self) -> _Customer | None:
        while self._longest:
            since, number = self._longest[0]
            owner = self._numbered[number]
            if owner.waits_since() == since:
                return owner
            heappop(self._longest)
        return None

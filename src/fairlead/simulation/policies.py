"""Desks: where documents are accepted and workers ask what is next, one kind for each policy.

A desk keeps the records that a store would keep, and asks the same rules of `core` about them.
Documents are named by their number in order of acceptance, from 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from fairlead.model.customers import Counter, Tags
from fairlead.policy.classic import Policy
from fairlead.policy.fair import Clock, FairRule
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.simulation.queue import SimulatedQueue, Turn
from fairlead.simulation.trace import Arrival


@dataclass(frozen=True, slots=True)
class Placement:
    """What a document is shown at its acceptance."""

    count: int
    priority: int


class SimulatedPolicy(Protocol):
    """What the workers need of a policy. `now` never goes back from one call to the next."""

    def accept(self, arrival: Arrival, now: float) -> Placement:
        """Put a document in the line."""
        ...

    def take(self, now: float) -> Turn | None:
        """The document that starts at `now`, which leaves the line; None when nothing waits."""
        ...

    def done(self, document: int, actual: float, now: float) -> None:
        """The work on a document took `actual` seconds and is over."""
        ...


def policy_for(
    policy: Policy | FairRule, workers: int, lane: OverdueLane | None
) -> SimulatedPolicy:
    """The desk at which this policy is kept."""
    if isinstance(policy, FairRule):
        return SimulatedFair(policy, workers, lane)
    return LevelPolicy(policy, lane)


class LevelPolicy:
    """The desk of the policies that look at each customer's own submissions alone."""

    def __init__(self, policy: Policy, lane: OverdueLane | None = None) -> None:
        self._policy = policy
        self._line = SimulatedQueue(lane)
        self._counters: dict[str, Counter] = {}

    def accept(self, arrival: Arrival, now: float) -> Placement:
        """Put a document in the line; its check is given the time as the trace wrote it."""
        check = self._policy.check(self._counters.get(arrival.customer), now=arrival.at)
        self._counters[arrival.customer] = check.counter
        self._line.add(arrival.customer, check.rank, now)
        return Placement(check.count, check.priority)

    def take(self, now: float) -> Turn | None:
        """The lowest (rank, arrival), or whoever is most overdue."""
        return self._line.take(now)

    def done(self, document: int, actual: float, now: float) -> None:
        """Nothing: these policies do not ask what the work cost."""


class _Account:
    """What the fair desk knows of one customer."""

    __slots__ = ("processing", "tags", "waiting", "weight")

    def __init__(self) -> None:
        self.tags: Tags | None = None
        self.weight: float = 0
        self.waiting = 0
        self.processing = 0


class _Ticket(NamedTuple):
    """What the fair desk must remember of one document."""

    account: _Account
    tag: float
    cost: float
    weight: float


class SimulatedFair:
    """The desk of the fair policy.

    A row without an estimate is estimated at its true seconds. Each document is reckoned with the
    weight of its own row; a customer as a whole has the weight of its latest one.
    """

    def __init__(self, rule: FairRule, workers: int, lane: OverdueLane | None = None) -> None:
        self.clock = Clock(0, -math.inf)
        self.backlog: float = 0
        self._rule = rule
        self._workers = workers
        self._line = SimulatedQueue(lane)
        self._accounts: dict[str, _Account] = {}
        self._tickets: list[_Ticket] = []
        # Those whose finish tag changed since nobody waited: no other lies ahead of the clock.
        self._moved: set[_Account] = set()

    def accept(self, arrival: Arrival, now: float) -> Placement:
        """Put a document in the line, with the tag that the rule gives it."""
        self._bring_clock_to(now)
        account = self._accounts.setdefault(arrival.customer, _Account())
        cost = arrival.seconds if arrival.estimate is None else arrival.estimate
        placed = self._rule.submit(
            account.tags,
            self.clock,
            cost=cost,
            weight=arrival.weight,
            now=now,
            has_pending=account.waiting + account.processing > 0,
        )
        self._keep(account, placed.tags)
        self._enter(account, arrival.weight)
        self._tickets.append(_Ticket(account, placed.tag, cost, arrival.weight))
        self._line.add(arrival.customer, placed.tag, now, cost)
        return Placement(placed.count, placed.priority)

    def take(self, now: float) -> Turn | None:
        """The lowest (tag, arrival), or whoever is most overdue."""
        self._bring_clock_to(now)
        turn = self._line.take(now)
        if turn is None:
            return None
        ticket = self._tickets[turn.arrival]
        if not turn.lane:
            self.clock = self._rule.claimed(self.clock, ticket.tag)
        self._leave(ticket.account)
        self._rest()
        return turn

    def done(self, document: int, actual: float, now: float) -> None:
        """Correct the account's finish tag by what the work really cost."""
        self._bring_clock_to(now)
        account, _, cost, weight = self._tickets[document]
        account.processing -= 1
        if account.tags is not None:
            after = self._rule.corrected(account.tags, estimate=cost, actual=actual, weight=weight)
            self._keep(account, after)
        self._rest()

    def _bring_clock_to(self, now: float) -> None:
        self.clock = self._rule.advanced(
            self.clock, now=now, workers=self._workers, backlog=self.backlog
        )

    def _keep(self, account: _Account, tags: Tags) -> None:
        account.tags = tags
        self._moved.add(account)

    def _enter(self, account: _Account, weight: float) -> None:
        if account.waiting:
            self.backlog -= account.weight
        self.backlog += weight
        account.weight = weight
        account.waiting += 1

    def _leave(self, account: _Account) -> None:
        account.waiting -= 1
        account.processing += 1
        if not account.waiting:
            self.backlog -= account.weight
        if not self._line:
            self.backlog = 0  # what rounding left of the sums ends here

    def _rest(self) -> None:
        """Bring the clock to the highest finish tag when nobody waits."""
        if not self._line and self._moved:
            finishes = (each.tags.finish for each in self._moved if each.tags)
            self.clock = self._rule.when_idle(self.clock, max(finishes))
            self._moved.clear()

"""Simulated policies: each stores what a store would, and applies the same rules to it.

Documents are numbered in order of acceptance, from 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from fairlead.model.customers import Counter, Tags
from fairlead.policy.classic import Policy
from fairlead.policy.fair import Clock, FairRule
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.simulation.queue import SimulatedClaim, SimulatedQueue
from fairlead.simulation.trace import Arrival


@dataclass(frozen=True, slots=True)
class Placement:
    """The count and the priority of a document at its acceptance."""

    count: int
    priority: int


class SimulatedPolicy(Protocol):
    """What the workers need of a policy. `now` never goes back from one call to the next."""

    def accept(self, arrival: Arrival, now: float) -> Placement:
        """Add a document to the queue."""
        ...

    def claim(self, now: float) -> SimulatedClaim | None:
        """Remove the document that starts at `now` from the queue; None when nothing waits."""
        ...

    def finish(self, document: int, actual: float, now: float) -> None:
        """The work on a document took `actual` seconds and is over."""
        ...


def policy_for(
    policy: Policy | FairRule, workers: int, lane: OverdueLane | None
) -> SimulatedPolicy:
    if isinstance(policy, FairRule):
        return SimulatedFair(policy, workers, lane)
    return SimulatedClassic(policy, lane)


class SimulatedClassic:
    """The policies that look at each customer's own submissions alone: classic and fifo."""

    def __init__(self, policy: Policy, lane: OverdueLane | None = None) -> None:
        self._policy = policy
        self._queue = SimulatedQueue(lane)
        self._counters: dict[str, Counter] = {}
        self.claim = self._queue.claim

    def accept(self, arrival: Arrival, now: float) -> Placement:
        """Add a document; its check is given the time as the trace wrote it."""
        check = self._policy.check(self._counters.get(arrival.customer), now=arrival.at)
        self._counters[arrival.customer] = check.counter
        self._queue.add(arrival.customer, check.rank, now)
        return Placement(check.count, check.priority)

    def finish(self, document: int, actual: float, now: float) -> None:
        """Nothing: these policies ignore what the work cost."""


class _FairAccount:
    __slots__ = ("processing", "tags", "waiting", "weight")

    def __init__(self) -> None:
        self.tags: Tags | None = None
        self.weight: float = 0
        self.waiting = 0
        self.processing = 0


class TaggedDocument(NamedTuple):
    """A document with the tag that the fair rule gave it."""

    account: _FairAccount
    tag: float
    cost: float
    weight: float


class SimulatedFair:
    """The fair policy.

    A row without an estimate is estimated at its true seconds. Each document has the weight of its
    own row, and a customer as a whole the weight of its latest one.
    """

    def __init__(self, rule: FairRule, workers: int, lane: OverdueLane | None = None) -> None:
        self.clock = Clock(0, -math.inf)
        self.backlog: float = 0
        self.documents: list[TaggedDocument] = []
        self._rule = rule
        self._workers = workers
        self._queue = SimulatedQueue(lane)
        self._accounts: dict[str, _FairAccount] = {}
        # Those whose finish tag changed since the queue was empty: only they may be ahead of the
        # clock.
        self._changed: set[_FairAccount] = set()

    def accept(self, arrival: Arrival, now: float) -> Placement:
        self.advance_clock(now)
        account = self._accounts.setdefault(arrival.customer, _FairAccount())
        cost = arrival.seconds if arrival.estimate is None else arrival.estimate
        placed = self._rule.submit(
            account.tags,
            self.clock,
            cost=cost,
            weight=arrival.weight,
            now=now,
            has_pending=account.waiting + account.processing > 0,
        )
        self._set_tags(account, placed.tags)
        if account.waiting:
            self.backlog -= account.weight
        self.backlog += arrival.weight
        account.weight = arrival.weight
        account.waiting += 1
        self.documents.append(TaggedDocument(account, placed.tag, cost, arrival.weight))
        self._queue.add(arrival.customer, placed.tag, now, cost)
        return Placement(placed.count, placed.priority)

    def claim(self, now: float) -> SimulatedClaim | None:
        self.advance_clock(now)
        claim = self._queue.claim(now)
        if claim is None:
            return None
        document = self.documents[claim.document]
        if not claim.lane:
            self.clock = self._rule.claimed(self.clock, document.tag)
        account = document.account
        account.waiting -= 1
        account.processing += 1
        if not account.waiting:
            self.backlog -= account.weight
        if not self._queue:
            self.backlog = 0  # removes what rounding left in the sum
        self._advance_idle_clock()
        return claim

    def finish(self, document: int, actual: float, now: float) -> None:
        """Correct the account's finish tag by what the work really cost."""
        self.advance_clock(now)
        account, _, cost, weight = self.documents[document]
        account.processing -= 1
        if account.tags is not None:
            after = self._rule.corrected(account.tags, estimate=cost, actual=actual, weight=weight)
            self._set_tags(account, after)
        self._advance_idle_clock()

    def advance_clock(self, now: float) -> None:
        self.clock = self._rule.advanced(
            self.clock, now=now, workers=self._workers, backlog=self.backlog
        )

    def _set_tags(self, account: _FairAccount, tags: Tags) -> None:
        account.tags = tags
        self._changed.add(account)

    def _advance_idle_clock(self) -> None:
        """Bring the clock to the highest finish tag when nothing waits."""
        if not self._queue and self._changed:
            finishes = (account.tags.finish for account in self._changed if account.tags)
            self.clock = self._rule.when_idle(self.clock, max(finishes))
            self._changed.clear()

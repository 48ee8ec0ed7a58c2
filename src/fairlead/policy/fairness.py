"""How fair the queue is at this moment, as numbers.

The measure is an ideal server that serves all who wait at once, each by its weight. Nobody can
build it, for documents come in whole; how far the real queue is from it can be counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fairlead.policy.overdue_lane import OverdueLane


class Share(NamedTuple):
    """One account with something waiting: the work done for it and the work due since then."""

    name: str
    done: float
    due: float

    @property
    def lag(self) -> float:
        """Seconds of work that the ideal server is ahead; below 0: it got more than its due."""
        return self.due - self.done


class Overdue(NamedTuple):
    """The customer that has waited longest for a start."""

    customer: str
    seconds: float


class Fairness(NamedTuple):
    """The queue in numbers. `jain` is None while fewer than two can be compared."""

    policy: str
    workers: int
    waiting_customers: int
    jain: float | None
    shares: tuple[Share, ...]
    most_overdue: Overdue | None
    lane_share: float | None
    longest: float
    start_bound: float | None

    @property
    def worst(self) -> Share | None:
        """The account furthest behind the ideal server."""
        return max(self.shares, key=lambda each: each.lag, default=None)

    @property
    def is_bound_broken(self) -> bool:
        """Whether somebody waits longer for a start than the lane allows."""
        if self.start_bound is None or self.most_overdue is None:
            return False
        return self.most_overdue.seconds > self.start_bound


def jain_index(shares: Sequence[Share], *, least_due: float) -> float | None:
    """Jain's index of done over due: 1 when all got the same part of their due, 1/n at worst.

    Only accounts to which at least `least_due` seconds were due count: a document comes in whole,
    so before that the figure would tell of chance.
    """
    parts = [max(0.0, each.done) / each.due for each in shares if each.due > least_due]
    squares = sum(part * part for part in parts)
    if len(parts) < 2 or not squares:
        return None
    return sum(parts) ** 2 / (len(parts) * squares)


def start_bound(
    lane: OverdueLane | None, *, customers: int, longest: float, workers: int
) -> float | None:
    """Within how many seconds each customer with something waiting gets a start; None: no bound.

    `customers` is how many wait, `longest` the seconds of the longest document.
    """
    if lane is None or workers < 1:
        return None
    return lane.after + ((lane.share + 1) * customers + 1) * longest / workers + longest

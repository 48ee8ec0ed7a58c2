"""How fair the queue is at this moment, as numbers.

The measure is an ideal server that serves all who wait at once, each by its weight. Nobody can
build it, for documents come in whole; how far the real queue is from it can be counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.model.customers import Share
from fairlead.policy.overdue_lane import OverdueLane


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

"""How fair the queue is now, compared with an ideal server.

The ideal server serves all waiting customers at once, each by its weight. A real one cannot, as it
processes whole documents.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.model.customers import Share
from fairlead.policy.overdue_lane import OverdueLane


def jain_index(shares: Sequence[Share], *, least_due: float) -> float | None:
    """Jain's index of done over due: 1 when all got the same part of their due, 1/n at worst.

    Only accounts to which more than `least_due` seconds were due count: with less, whole documents
    make the figure random.
    """
    parts = [max(0.0, share.done) / share.due for share in shares if share.due > least_due]
    squares = sum(part * part for part in parts)
    if len(parts) < 2 or not squares:
        return None
    return sum(parts) ** 2 / (len(parts) * squares)


def start_bound(
    lane: OverdueLane | None, *, customers: int, longest: float, workers: int
) -> float | None:
    """Within how many seconds each waiting customer gets a start; None: no bound.

    `customers` is how many wait, `longest` the seconds of the longest document.
    """
    if lane is None or workers < 1:
        return None
    return lane.after + ((lane.share + 1) * customers + 1) * longest / workers + longest

"""The overdue lane: no customer starves, and the lane takes at most its share of the work.

Claims outside the lane earn their cost as credit, and a lane claim spends `share - 1` times its
own. So nothing is rounded, and the lane gets at most 1/share of all work. Only a document that
costs more than one unit may exceed that, and then the lane stays closed until it is earned back.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.errors import InvalidSetting


@dataclass(frozen=True, slots=True)
class OverdueLane:
    """A customer is overdue if it has waited for a start for more than `after` seconds.

    `unit` is the cost of a standard document: 1 under classic, where all documents cost the same,
    and the rule's own unit, in seconds of work, under fair.
    """

    after: float = 1500.0
    share: int = 4
    unit: float = 1.0

    def __post_init__(self) -> None:
        if self.share < 2:
            raise InvalidSetting(f"lane_share must be a whole number from 2; got {self.share!r}")
        if not self.after >= 0:
            raise InvalidSetting(f"overdue_after must be 0 seconds or more; got {self.after!r}")
        if not self.unit > 0:
            raise InvalidSetting(f"unit must be a number above 0; got {self.unit!r}")

    def overdue_before(self, now: float) -> float:
        """A customer whose wait began before this time is overdue."""
        return now - self.after

    def is_open(self, credit: float, cost: float = 1.0) -> bool:
        """Whether the credit suffices for a document of this cost; one unit suffices for any."""
        return credit >= (self.share - 1) * min(cost, self.unit)

    def earn(self, credit: float, cost: float = 1.0) -> float:
        """The credit after a claim outside the lane."""
        return min((self.share - 1) * self.unit, credit + cost)

    def spend(self, credit: float, cost: float = 1.0) -> float:
        """The credit after a claim through the lane."""
        return credit - (self.share - 1) * cost


def waits_since(last_started_at: float | None, oldest_submitted_at: float) -> float:
    """When a customer's present wait began: its last start, or its oldest waiting document."""
    if last_started_at is None:
        return oldest_submitted_at
    return max(last_started_at, oldest_submitted_at)

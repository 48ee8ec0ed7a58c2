"""The overdue lane: nobody waits for ever, and the lane takes at most its share of the work.

Credit is counted in the work of the others: their claims earn their cost, a lane claim spends
`share - 1` times its own. So no rounding creeps in, and of all work the lane gets at most 1/share.
Only a document that costs more than one unit goes beyond that, by what it costs above the unit;
until the others have earned this back, the lane is shut.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.errors import InvalidSetting


@dataclass(frozen=True, slots=True)
class OverdueLane:
    """The lane's rule. `after` is how long a customer waits for a start before it is overdue.

    `unit` is the cost of a standard document and the most credit that can be saved: 1 where all
    documents cost the same, and the fair rule's own unit, in seconds of work, beside that rule.
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
        """A customer whose wait began before this moment is overdue."""
        return now - self.after

    def is_open(self, credit: float, cost: float = 1.0) -> bool:
        """Whether the credit pays for a document of this cost; one unit pays for any."""
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

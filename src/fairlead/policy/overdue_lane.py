"""The overdue lane: no customer starves, and the lane takes at most its share of the claims.

Every claim outside the lane earns one credit, up to `share - 1`. At that credit the lane is open,
and a claim through it spends all of it. So the lane gets at most one of `share` claims.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.errors import InvalidSetting


@dataclass(frozen=True, slots=True)
class OverdueLane:
    """A customer is overdue if it has waited for a start for more than `after` seconds."""

    after: float = 1500.0
    share: int = 4

    def __post_init__(self) -> None:
        if self.share < 2:
            raise InvalidSetting(f"lane_share must be a whole number from 2; got {self.share!r}")
        if not self.after >= 0:
            raise InvalidSetting(f"overdue_after must be 0 seconds or more; got {self.after!r}")

    def is_open(self, credit: int) -> bool:
        return credit >= self.share - 1

    def after_claim(self, credit: int, *, through_lane: bool) -> int:
        """The credit after a claim."""
        return credit - (self.share - 1) if through_lane else min(self.share - 1, credit + 1)


def waits_since(last_started_at: float | None, oldest_submitted_at: float) -> float:
    """When a customer's current wait began: at its last start, or with its oldest document."""
    if last_started_at is None:
        return oldest_submitted_at
    return max(last_started_at, oldest_submitted_at)

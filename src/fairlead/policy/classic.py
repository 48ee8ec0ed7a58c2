"""The classic rule: each check of a customer lowers its count, a pause resets it to 0.

`FifoPolicy` is first come, first served, for comparison.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import neg
from typing import Literal, Protocol, cast

from fairlead.errors import InvalidSetting
from fairlead.model.customers import Check, Counter, check_interval, check_thresholds

DEFAULT_RESET_INTERVAL = 1500.0
DEFAULT_THRESHOLDS = (-2, -4, -6, -8, -10, -12, -14, -20)

Reset = Literal["idle", "window"]


def priority(count: int, thresholds: Sequence[int]) -> int:
    """1 for the first documents of a burst, one more for each threshold the count fell below.

    The thresholds fall, so those above the count stand first.
    """
    return 1 + bisect_left(thresholds, -count, key=neg)


def lowest_bound_passed(count: int, thresholds: Sequence[int]) -> int | None:
    """The threshold that decided the priority: the lowest one above the count, if any."""
    return min((bound for bound in thresholds if count < bound), default=None)


class Policy(Protocol):
    """A rule that places a document by its customer's counter and the time only."""

    @property
    def label(self) -> str:
        """Name and version, stored with each document that the rule placed."""
        ...

    def check(self, counter: Counter | None, *, now: float) -> Check:
        """Count one submission of a customer; `counter` is None for a new customer."""
        ...


class ClassicPolicy:
    """The classic rule as its specification states it."""

    label = "classic/1"

    def __init__(
        self,
        reset_interval: float = DEFAULT_RESET_INTERVAL,
        thresholds: Sequence[int] = DEFAULT_THRESHOLDS,
        reset: Reset = "idle",
    ) -> None:
        self.reset_interval = check_interval(reset_interval)
        self.thresholds = check_thresholds(thresholds)
        self._bounds = [-bound for bound in self.thresholds]
        self.reset = check_reset(reset)

    def check(self, counter: Counter | None, *, now: float) -> Check:
        """Lower the count by one, or set it to 0 when the customer is new or was reset."""
        after = self._after(counter, now)
        level = self.priority_of(after.count)
        return Check(after.count, level, after, float(level))

    def priority_of(self, count: int) -> int:
        """The priority that a count gives, as `priority` does; faster, with rising bounds."""
        return 1 + bisect_left(self._bounds, -count)

    def is_reset(self, counter: Counter, *, now: float) -> bool:
        """Whether a check at `now` starts over: only when more than the interval has passed."""
        return now - counter.updated_at > self.reset_interval

    def _after(self, counter: Counter | None, now: float) -> Counter:
        if counter is None or self.is_reset(counter, now=now):
            return Counter(0, now)
        if self.reset == "window":
            return Counter(counter.count - 1, counter.updated_at)
        return Counter(counter.count - 1, max(counter.updated_at, now))


class FifoPolicy:
    """First come, first served: every document has the same priority."""

    label = "fifo/1"

    def check(self, counter: Counter | None, *, now: float) -> Check:  # noqa: ARG002 (Policy)
        """Count 0 and priority 1, always."""
        return Check(0, 1, Counter(0, now), 1.0)


def check_reset(reset: str) -> Reset:
    """The reset mode; refuses any other word."""
    if reset in ("idle", "window"):
        return cast("Reset", reset)
    raise InvalidSetting(f'reset must be "idle" or "window"; got {reset!r}')

"""The fair rule: one virtual clock, and per account a finish tag that its work increases.

A document's tag is where the virtual clock will be when its account's earlier work has had its
share. Documents start in order of (tag, arrival), lowest first; the count and the priority only
show how far ahead of the clock a tag is. Nothing is rounded: with `fractions.Fraction` for all
numbers, the results are exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from msgspec import Struct
from msgspec.structs import replace

from fairlead.errors import InvalidSetting
from fairlead.model.customers import Tags, check_interval, check_thresholds
from fairlead.policy.classic import DEFAULT_RESET_INTERVAL
from fairlead.policy.levels import DEFAULT_THRESHOLDS, priority

DEFAULT_UNIT = 6.0
DEFAULT_THETA = 0.5

# Sums of floats may end just below a whole number of units, which must not change a count. It is a
# fraction, so that exact numbers stay exact.
_EPSILON = Fraction(1, 1_000_000)


class Clock(Struct, frozen=True):
    """The virtual clock, and the time at which it had this value."""

    value: float
    at: float


class Placed(Struct, frozen=True):
    """The result of one submission; `tags` is the new record of its account."""

    tag: float
    count: int
    priority: int
    tags: Tags


@dataclass(frozen=True, slots=True)
class FairRule:
    """The rule. `unit` is the cost of a standard document, `theta` the pace of the clock.

    Costs are seconds of work. An account of weight 2 gets twice the work of one of weight 1.
    """

    unit: float = DEFAULT_UNIT
    theta: float = DEFAULT_THETA
    reset_interval: float = DEFAULT_RESET_INTERVAL
    thresholds: Sequence[int] = DEFAULT_THRESHOLDS

    def __post_init__(self) -> None:
        check_above_zero("unit", self.unit)
        _check_from_zero("theta", self.theta)
        check_interval(self.reset_interval)
        check_thresholds(self.thresholds)

    @property
    def label(self) -> str:
        """Name and version, stored with each document that the rule placed."""
        return "fair/1"

    def advanced(self, clock: Clock, *, now: float, workers: int, backlog: float) -> Clock:
        """The clock at `now`, if no account became waiting or idle since its last update.

        `backlog` is the sum of the weights of all accounts with something waiting. A `now` before
        the clock's time changes nothing.
        """
        if now <= clock.at:
            return clock
        if not backlog > 0:
            return Clock(clock.value, now)
        return Clock(clock.value + self.theta * workers * (now - clock.at) / backlog, now)

    def when_idle(self, clock: Clock, highest_finish: float) -> Clock:
        """The clock while nothing waits: no account is behind another any more.

        `highest_finish` leaves out accounts that are paused with documents waiting: their tags are
        ahead for work that was never done.
        """
        return Clock(max(clock.value, highest_finish), clock.at)

    def claimed(self, clock: Clock, tag: float) -> Clock:
        """The clock after a claim outside the overdue lane; a lane claim does not move it."""
        return Clock(max(clock.value, tag), clock.at)

    def submit(
        self,
        tags: Tags | None,
        clock: Clock,
        *,
        cost: float,
        weight: float,
        now: float,
        has_pending: bool,
    ) -> Placed:
        """One submission of an account whose record is `tags` (None: never seen).

        The clock must be at `now`. Tags of one account never decrease while any of its documents
        is pending, so these start in order of arrival.
        """
        check_above_zero("weight", weight)
        _check_from_zero("cost", cost)
        finish = self._finish_before(tags, clock, now, has_pending=has_pending)
        tag = max(clock.value, finish)
        latest = now if tags is None else max(tags.submitted_at, now)
        count = self.shown_count(tag, clock)
        after = Tags(tag + cost / weight, tag, latest)
        return Placed(tag, count, priority(count, self.thresholds), after)

    def is_reset(self, tags: Tags, *, now: float, has_pending: bool) -> bool:
        """Whether a submission at `now` starts over: after a pause of more than the interval."""
        return not has_pending and now - tags.submitted_at > self.reset_interval

    def corrected(self, tags: Tags, *, estimate: float, actual: float, weight: float) -> Tags:
        """The record when the work is done: the actual cost replaces the estimate."""
        check_above_zero("weight", weight)
        finish = tags.finish + (actual - estimate) / weight
        return replace(tags, finish=max(tags.last, finish))

    def given_back(
        self, tags: Tags, *, estimate: float, weight: float, last_waiting: float | None
    ) -> Tags:
        """The record when a document was cancelled or refused before it ran.

        `last_waiting` is the highest tag of the account's waiting documents, if there are any. The
        finish tag stays at or above it, so that a later document cannot overtake them.
        """
        check_above_zero("weight", weight)
        finish = tags.finish - estimate / weight
        if last_waiting is None:
            return replace(tags, finish=finish, last=min(tags.last, finish))
        return replace(tags, finish=max(last_waiting, finish), last=last_waiting)

    def forgiven(self, tags: Tags, clock: Clock, *, last_waiting: float | None) -> Tags:
        """The record when an operator resets the account: behind what waits, else at the clock."""
        start = clock.value if last_waiting is None else last_waiting
        return replace(tags, finish=min(tags.finish, start), last=min(tags.last, start))

    def lifted(self, tags: Tags | None, by: float) -> Tags | None:
        """The record when the tags of all waiting documents of an account rose by so much."""
        if tags is None:
            return None
        return replace(tags, finish=tags.finish + by, last=tags.last + by)

    def shown_count(self, tag: float, clock: Clock) -> int:
        """How many standard documents the tag is ahead of the clock, as 0 or a negative number."""
        return -math.floor(max(0, tag - clock.value) / self.unit + _EPSILON)

    def _finish_before(
        self, tags: Tags | None, clock: Clock, now: float, *, has_pending: bool
    ) -> float:
        if tags is None:
            return clock.value
        if self.is_reset(tags, now=now, has_pending=has_pending):
            return min(tags.finish, clock.value)
        return tags.finish


def check_above_zero(name: str, value: float) -> None:
    """Raise `InvalidSetting` unless the value is a finite number above 0."""
    if not 0 < value < math.inf:
        raise InvalidSetting(f"{name} must be a number above 0; got {value!r}")


def _check_from_zero(name: str, value: float) -> None:
    if not 0 <= value < math.inf:
        raise InvalidSetting(f"{name} must be a number of 0 or more; got {value!r}")

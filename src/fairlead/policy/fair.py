"""The fair rule, `fair/2`: the account with the least recent work goes first.

Beyond an allowance, accounts share equally by weight. Recent work fades with the reset interval.
The place decides the order; the priority is only displayed.

- *Debt* is the work started for an account lately, in seconds per weight. It fades with time.
- Within the allowance the account is in class 0, and its rank is the time at which its debt will
  have faded.
- Beyond the allowance it is in class 1, and its rank is its *tag*: the work started for it there.
  The clock is the highest tag that was served, so a newcomer starts level with the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from fairlead.errors import InvalidSetting
from fairlead.model.customers import check_interval, check_thresholds
from fairlead.policy.classic import DEFAULT_RESET_INTERVAL, DEFAULT_THRESHOLDS, priority

DEFAULT_UNIT = 6.0
DEFAULT_ALLOWANCE = 42.0
"""Units of work that an account may have had lately before it must share equally."""
_EPSILON = 1e-6
"""Sums of floats may end just below a whole number of units, which must not change a count."""

WITHIN_ALLOWANCE, BEYOND_ALLOWANCE = 0, 1

Place = tuple[int, float, int]
"""Class, rank and ticket: lowest first."""


@dataclass(frozen=True, slots=True)
class FairRule:
    """`unit` is the cost of a standard document in seconds, `allowance` a number of units."""

    label: ClassVar[str] = "fair/2"
    """Name and version, stored with each document that the rule placed."""

    unit: float = DEFAULT_UNIT
    allowance: float = DEFAULT_ALLOWANCE
    reset_interval: float = DEFAULT_RESET_INTERVAL
    thresholds: Sequence[int] = DEFAULT_THRESHOLDS

    def __post_init__(self) -> None:
        check_above_zero("unit", self.unit)
        check_above_zero("allowance", self.allowance)
        check_interval(self.reset_interval)
        check_thresholds(self.thresholds)

    @property
    def allowed_debt(self) -> float:
        return self.allowance * self.unit

    def priority_of(self, count: int) -> int:
        """The priority that a count gives."""
        return priority(count, self.thresholds)

    def faded(self, debt: float, seconds: float, interval: float) -> float:
        """The debt after so many seconds."""
        if seconds <= 0 or debt <= 0:
            return debt
        if not interval:
            return 0.0
        debt = (debt + self.unit) * math.exp(-seconds / interval) - self.unit
        return debt if debt > 0.0 else 0.0

    def faded_at(self, debt: float, now: float, interval: float) -> float:
        """The time at which the debt will have faded."""
        return now + interval * math.log1p(debt / self.unit)

    def count(self, debt: float, queued: float, weight: float) -> int:
        """Minus the number of standard documents that an account has had lately or has waiting."""
        return -math.floor((debt + queued / weight) / self.unit + _EPSILON)


@dataclass(slots=True)
class FairShare:
    """The state of an account under the rule, or of a customer inside a shared account.

    `queued` is the sum of the estimates of waiting documents. `tagged` is the number of documents
    being processed that were charged to the tag.
    """

    weight: float = 1.0
    interval: float | None = None
    debt: float = 0.0
    debt_at: float = -math.inf
    tag: float = 0.0
    queued: float = 0.0
    tagged: int = 0
    place: Place | None = None


class Charge(NamedTuple):
    """The work that a claim charged to an account; the end of the work corrects it."""

    seconds: float
    weight: float
    to_tag: bool


@dataclass(slots=True)
class FairClock:
    """The accounts that compete with each other: their clock, and the tickets of their places."""

    rule: FairRule
    value: float = 0.0
    tickets: list[int] = field(default_factory=lambda: [0])
    """A list of one number, the next ticket, which all clocks of one queue share."""

    def fade(self, share: FairShare, now: float) -> None:
        """Let the debt fade until now. It does not fade while the account is charged to its tag."""
        seconds = now - share.debt_at
        if seconds <= 0:
            return
        share.debt_at = now
        if share.debt and not share.tagged:
            if share.place is not None and share.place[0] == BEYOND_ALLOWANCE:
                return
            interval = self.rule.reset_interval if share.interval is None else share.interval
            share.debt = self.rule.faded(share.debt, seconds, interval)

    def count(self, share: FairShare, now: float) -> int:
        """The count of a document that is submitted now."""
        self.fade(share, now)
        return self.rule.count(share.debt, share.queued, share.weight)

    def enter(self, share: FairShare, now: float) -> None:
        """Give the account a place: some of its documents may run."""
        self.fade(share, now)
        self._place(share, now)

    def place_anew(self, share: FairShare, now: float, *, may_run: bool) -> None:
        """Place the account anew after a claim, or let it leave if nothing more may run."""
        if may_run:
            self._place(share, now)
        else:
            share.place = None

    def _place(self, share: FairShare, now: float) -> None:
        if share.debt < self.rule.allowed_debt:
            class_, rank = WITHIN_ALLOWANCE, self.faded_at(share, now)
        else:
            if share.place is None or share.place[0] == WITHIN_ALLOWANCE:
                share.tag = max(share.tag, self.value)
            class_, rank = BEYOND_ALLOWANCE, share.tag
        share.place = (class_, rank, self.tickets[0])
        self.tickets[0] += 1

    def leave(self, share: FairShare, now: float) -> None:
        """Take the place away: none of the account's documents may run."""
        self.fade(share, now)
        share.place = None

    def claim(self, share: FairShare, estimate: float, now: float, *, through_lane: bool) -> Charge:
        """Charge a start to the account. The caller then places it anew, or lets it leave."""
        assert share.place is not None  # noqa: S101 (only accounts with a place are chosen)
        self.fade(share, now)
        class_, rank, _ = share.place
        seconds = estimate / share.weight
        share.queued -= estimate
        if class_ == WITHIN_ALLOWANCE:
            share.debt += seconds
            return Charge(seconds, share.weight, to_tag=False)
        if not through_lane:
            self.value = max(self.value, rank)
        share.tag += seconds
        share.tagged += 1
        return Charge(seconds, share.weight, to_tag=True)

    def correct(self, share: FairShare, charge: Charge, actual: float | None, now: float) -> None:
        """Replace the estimate by the actual time; None: the time is not known.

        An account that waits gets a better place, never a worse one.
        """
        self.fade(share, now)
        error = 0.0 if actual is None else actual / charge.weight - charge.seconds
        if charge.to_tag:
            share.tag += error
            share.tagged = max(0, share.tagged - 1)
        else:
            share.debt = max(0.0, share.debt + error)
        self.improve(share, now)

    def improve(self, share: FairShare, now: float) -> None:
        """Give a waiting account a new place if that one is better."""
        if share.place is None:
            return
        class_, rank, _ = share.place
        if share.debt < self.rule.allowed_debt:
            is_better = class_ == BEYOND_ALLOWANCE or self.faded_at(share, now) < rank - _EPSILON
        else:
            is_better = class_ == BEYOND_ALLOWANCE and share.tag < rank - _EPSILON
        if is_better:
            self.enter(share, now)

    def forgive(self, share: FairShare, now: float) -> None:
        """Forget the account's recent work."""
        self.fade(share, now)
        share.debt = 0.0
        share.tag = min(share.tag, self.value)
        self.improve(share, now)

    def faded_at(self, share: FairShare, now: float) -> float:
        """The time at which the debt of an account will have faded."""
        interval = self.rule.reset_interval if share.interval is None else share.interval
        return self.rule.faded_at(share.debt, now, interval)


def check_above_zero(name: str, value: float) -> None:
    """Raise `InvalidSetting` unless the value is a finite number above 0."""
    if not 0 < value < math.inf:
        raise InvalidSetting(f"{name} must be a number above 0; got {value!r}")

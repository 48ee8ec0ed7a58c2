"""The rules of an installation, put together: who goes when, how often to try, how long to hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fairlead.core.classic import (
    DEFAULT_RESET_INTERVAL,
    ClassicPolicy,
    Reset,
    check_interval,
    check_reset,
)
from fairlead.core.lane import OverdueLane
from fairlead.core.levels import DEFAULT_THRESHOLDS, check_thresholds
from fairlead.core.retry import RetryRule


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything the store asks the rules for. `lane=None` switches the overdue lane off."""

    reset_interval: float = DEFAULT_RESET_INTERVAL
    thresholds: tuple[int, ...] = DEFAULT_THRESHOLDS
    reset: Reset = "idle"
    lane: OverdueLane | None = field(default_factory=OverdueLane)
    retry: RetryRule = field(default_factory=RetryRule)
    lease: float = 30.0

    def __post_init__(self) -> None:
        check_interval(self.reset_interval)
        check_thresholds(self.thresholds)
        check_reset(self.reset)

    def policy(
        self, reset_interval: float | None = None, thresholds: Sequence[int] | None = None
    ) -> ClassicPolicy:
        """The policy for a customer, with its own interval and thresholds where it has them."""
        return ClassicPolicy(
            self.reset_interval if reset_interval is None else reset_interval,
            self.thresholds if thresholds is None else thresholds,
            self.reset,
        )

"""The rules of an installation: policy, overdue lane, retries, parts, lease and pipelines."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import cast

from fairlead.errors import InvalidSetting
from fairlead.model.customers import check_interval, check_thresholds
from fairlead.model.pipelines import DEFAULT_PIPELINES, Pipeline
from fairlead.policy.attachments import PartsRule
from fairlead.policy.classic import (
    DEFAULT_RESET_INTERVAL,
    DEFAULT_THRESHOLDS,
    ClassicPolicy,
    Reset,
    check_reset,
)
from fairlead.policy.fair import DEFAULT_ALLOWANCE, DEFAULT_UNIT, FairRule, check_above_zero
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.policy.queue import PolicyName
from fairlead.policy.retry import RetryRule


def check_policy(name: str) -> PolicyName:
    """The policy's name; refuses any other word."""
    if name in ("classic", "fair"):
        return cast("PolicyName", name)
    raise InvalidSetting(f'policy must be "classic" or "fair"; got {name!r}')


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules that the store uses. `lane=None` switches the overdue lane off.

    `daily_bytes=None`: a customer may send any number of bytes.
    `policy=None` leaves the policy as the store has it; a new store begins with classic.
    """

    policy: PolicyName | None = None
    unit: float = DEFAULT_UNIT
    allowance: float = DEFAULT_ALLOWANCE
    reset_interval: float = DEFAULT_RESET_INTERVAL
    thresholds: tuple[int, ...] = DEFAULT_THRESHOLDS
    reset: Reset = "idle"
    lane: OverdueLane | None = field(default_factory=OverdueLane)
    retry: RetryRule = field(default_factory=RetryRule)
    parts: PartsRule = field(default_factory=PartsRule)
    lease: float = 30.0
    daily_bytes: int | None = None
    pipelines: tuple[Pipeline, ...] = DEFAULT_PIPELINES

    def __post_init__(self) -> None:
        check_above_zero("unit", self.unit)
        check_interval(self.reset_interval)
        check_thresholds(self.thresholds)
        check_reset(self.reset)

    def first_step(self, pipeline: str) -> str | None:
        """The first step of the pipeline of this name; None: the settings do not have it."""
        first_steps = (own.steps[0] for own in self.pipelines if own.name == pipeline)
        return next(first_steps, None)

    @lru_cache(256)  # noqa: B019 (an installation has few rules in its life)
    def classic(
        self, reset_interval: float | None = None, thresholds: tuple[int, ...] | None = None
    ) -> ClassicPolicy:
        """The classic rule for a customer, with its own interval and thresholds if it has any."""
        return ClassicPolicy(
            self.reset_interval if reset_interval is None else reset_interval,
            self.thresholds if thresholds is None else thresholds,
            self.reset,
        )

    @lru_cache(256)  # noqa: B019
    def fair(
        self, reset_interval: float | None = None, thresholds: tuple[int, ...] | None = None
    ) -> FairRule:
        """The fair rule for a customer, with its own interval and thresholds if it has any."""
        return FairRule(
            unit=self.unit,
            allowance=self.allowance,
            reset_interval=self.reset_interval if reset_interval is None else reset_interval,
            thresholds=self.thresholds if thresholds is None else thresholds,
        )

"""From a customer to a priority, whatever happens to the ledger."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from fairlead.backoff import Backoff
from fairlead.errors import CounterUnavailable
from fairlead.integrations.counters.base import CounterStore
from fairlead.integrations.rules import CustomerRules

LOGGER = logging.getLogger("fairlead.priorities")

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0


@dataclass(frozen=True, slots=True)
class Placement:
    """What one submission gets. No count: the ledger could not be asked."""

    priority: int
    count: int | None


class PriorityAssigner:
    """Gives each submission its priority, and the fallback while the ledger is down."""

    def __init__(
        self,
        counters: CounterStore,
        rules: CustomerRules,
        fallback: int,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._counters = counters
        self._rules = rules
        self._fallback = fallback
        self._outage = _Outage(fallback, clock)

    def place(self, customer: str) -> Placement:
        """One submission of the customer, which is counted."""
        if self._outage.is_to_be_left_alone():
            return Placement(self._fallback, None)
        policy = self._rules.of(customer)
        try:
            count = self._counters.check(customer, policy.reset_interval)
        except CounterUnavailable as error:
            self._outage.failed(error)
            return Placement(self._fallback, None)
        self._outage.answered()
        return Placement(policy.priority_of(count), count)

    def close(self) -> None:
        """Let go of the ledger's connections."""
        self._counters.close()


class _Outage:
    """Whether the ledger is down, when to ask again, and what to say: once each time."""

    def __init__(self, fallback: int, clock: Callable[[], float]) -> None:
        self._fallback = fallback
        self._lock = Lock()
        self._backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, clock=clock)

    def is_to_be_left_alone(self) -> bool:
        """Whether it failed a moment ago."""
        return self._backoff.is_waiting()

    def failed(self, error: CounterUnavailable) -> None:
        """It did not answer: leave it alone for a while, longer each time."""
        with self._lock:
            if self.is_to_be_left_alone():  # another thread found out at the same time
                return
            is_news = not self._backoff.is_failing
            self._backoff.failed()
        if is_news:
            LOGGER.warning(
                "the ledger of fair priorities cannot be reached: %s. Until it answers, tasks are "
                "sent with priority %d, without being counted.",
                " ".join(str(error).split()).rstrip("."),
                self._fallback,
            )

    def answered(self) -> None:
        """It is there."""
        if not self._backoff.is_failing:
            return
        with self._lock:
            was_down = self._backoff.is_failing
            self._backoff.succeeded()
        if was_down:
            LOGGER.warning("the ledger of fair priorities answers again; tasks are counted.")

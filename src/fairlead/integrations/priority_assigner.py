"""Gives each submission of a customer a priority by the classic rule, for other task queues."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypedDict

from fairlead.backoff import Backoff
from fairlead.errors import CounterUnavailable, InvalidCustomer, InvalidSetting
from fairlead.integrations.counters import open_counters
from fairlead.model.names import check_customer, quoted
from fairlead.policy.classic import DEFAULT_RESET_INTERVAL, DEFAULT_THRESHOLDS, ClassicPolicy

LOGGER = logging.getLogger("fairlead.priorities")

LAST_PRIORITY = 9
"""Brokers distinguish ten priorities, and one of them means no priority."""

HEADER = "fairlead"
"""The header of a message that holds its customer, priority and count."""

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0


class PriorityOptions(TypedDict, total=False):
    """Keyword arguments of every `FairPriorities`, see `fairlead.celery.FairPriorities`."""

    reset_interval: float
    thresholds: Sequence[int]
    customers: Mapping[str, Mapping[str, Any]] | None
    fallback: int
    name: str
    timeout: float


@dataclass(frozen=True, slots=True)
class AssignedPriority:
    """The priority of one submission (1 is first). `count` is None if the store did not answer."""

    customer: str
    priority: int
    count: int | None


class PriorityAssigner:
    """Assigns priorities, and `fallback` while the counter store is unavailable."""

    def __init__(
        self,
        counters: str,
        *,
        reset_interval: float = DEFAULT_RESET_INTERVAL,
        thresholds: Sequence[int] = DEFAULT_THRESHOLDS,
        customers: Mapping[str, Mapping[str, Any]] | None = None,
        fallback: int = 5,
        name: str = "default",
        timeout: float = 0.5,
        backoff: Backoff | None = None,
    ) -> None:
        shared = {"reset_interval": reset_interval, "thresholds": thresholds}
        self._policy = _policy(shared)
        self._own_policies = {
            customer_name(customer): _policy({**shared, **_check_own(customer, values)})
            for customer, values in (customers or {}).items()
        }
        self._fallback = check_priority("fallback", fallback)
        self._backoff = backoff or Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        self._lock = Lock()
        self._counters = open_counters(counters, name=name, timeout=timeout)
        self.close = self._counters.close

    def place(self, customer: object) -> AssignedPriority:
        """Count one submission of the customer and return its priority.

        Raises:
            InvalidCustomer: it is not a valid name of a customer.
        """
        name = customer_name(customer)
        if not self._backoff.is_waiting():
            policy = self._own_policies.get(name, self._policy)
            try:
                count = self._counters.check(name, policy.reset_interval)
            except CounterUnavailable as error:
                self._note_failure(error)
            else:
                self._note_success()
                return AssignedPriority(name, policy.priority_of(count), count)
        return AssignedPriority(name, self._fallback, None)

    def _note_failure(self, error: CounterUnavailable) -> None:
        with self._lock:
            if self._backoff.is_waiting():  # another thread has noted it
                return
            was_failing = self._backoff.is_failing
            self._backoff.failed()
        if not was_failing:
            LOGGER.warning(
                "the counter store of fair priorities cannot be reached: %s. Until it answers, "
                "tasks are sent with priority %d, without being counted.",
                " ".join(str(error).split()).rstrip("."),
                self._fallback,
            )

    def _note_success(self) -> None:
        if not self._backoff.is_failing:
            return
        with self._lock:
            was_failing = self._backoff.is_failing
            self._backoff.succeeded()
        if was_failing:
            LOGGER.warning("the counter store of fair priorities answers again; tasks are counted.")


def rabbitmq_priority(priority: int) -> int:
    """RabbitMQ delivers high numbers first; 0, which means no priority, stays last."""
    return LAST_PRIORITY + 1 - priority


def customer_name(customer: object) -> str:
    """The customer's name as text; a whole number is written out.

    Raises:
        InvalidCustomer: it is neither, or not a valid name.
    """
    if isinstance(customer, str):
        return check_customer(customer)
    if isinstance(customer, int) and not isinstance(customer, bool):
        return check_customer(str(customer))
    raise InvalidCustomer(
        f"a customer must be named by text or a whole number, got a {type(customer).__name__}; "
        "turn it into text"
    )


def check_priority(name: str, value: int) -> int:
    """Return the priority of the setting `name`, or raise `InvalidSetting`."""
    if type(value) is not int or not 1 <= value <= LAST_PRIORITY:
        raise InvalidSetting(f"{name} must be a priority from 1 to {LAST_PRIORITY}; got {value!r}")
    return value


def _check_own(name: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
    checked: object = values
    if isinstance(checked, Mapping) and checked.keys() <= {"reset_interval", "thresholds"}:
        return checked
    raise InvalidSetting(
        f"customers must give {quoted(str(name))} a dict of reset_interval, thresholds, or both; "
        f"got {quoted(repr(values))}"
    )


def _policy(values: Mapping[str, Any]) -> ClassicPolicy:
    policy = ClassicPolicy(**values)
    if len(policy.thresholds) >= LAST_PRIORITY:
        raise InvalidSetting(
            f"thresholds must be at most {LAST_PRIORITY - 1}, which make {LAST_PRIORITY} "
            f"priorities, as brokers have no more; got {len(policy.thresholds)}"
        )
    return policy

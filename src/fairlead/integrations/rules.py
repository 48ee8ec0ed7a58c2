"""Which rule holds for which customer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.errors import InvalidCustomer, InvalidSetting
from fairlead.model.names import check_customer, shown
from fairlead.policy.classic import DEFAULT_RESET_INTERVAL, DEFAULT_THRESHOLDS, ClassicPolicy

LAST = 9
"""The last priority: brokers tell ten numbers apart, and one of them stands for no priority."""

_OWN = {"reset_interval", "thresholds"}


class CustomerRules:
    """The classic rule for all, with an interval and thresholds of their own for some."""

    def __init__(
        self,
        reset_interval: float = DEFAULT_RESET_INTERVAL,
        thresholds: Sequence[int] = DEFAULT_THRESHOLDS,
        customers: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        shared = {"reset_interval": reset_interval, "thresholds": thresholds}
        self._shared = _policy(shared)
        self._own = {
            customer_name(name): _policy({**shared, **_own(name, values)})
            for name, values in (customers or {}).items()
        }

    def of(self, customer: str) -> ClassicPolicy:
        """The rule for this customer."""
        return self._own.get(customer, self._shared)


def customer_name(customer: object) -> str:
    """The customer's name as text; a whole number is written out.

    Raises:
        InvalidCustomer: it is not one.
    """
    if isinstance(customer, str):
        return check_customer(customer, slashes=True)
    if isinstance(customer, int) and not isinstance(customer, bool):
        return check_customer(str(customer), slashes=True)
    raise InvalidCustomer(
        f"a customer must be named by text or a whole number, got a {type(customer).__name__}; "
        "turn it into text"
    )


def check_priority(name: str, value: int) -> int:
    """The priority that was set; refuses what is none."""
    if type(value) is not int or not 1 <= value <= LAST:
        raise InvalidSetting(f"{name} must be a priority from 1 to {LAST}; got {value!r}")
    return value


def _own(name: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
    found: object = values
    if isinstance(found, Mapping) and found.keys() <= _OWN:
        return found
    raise InvalidSetting(
        f"customers must give {shown(str(name))} a dict of reset_interval, thresholds, or both; "
        f"got {shown(repr(values))}"
    )


def _policy(values: Mapping[str, Any]) -> ClassicPolicy:
    policy = ClassicPolicy(**values)
    if len(policy.thresholds) >= LAST:
        raise InvalidSetting(
            f"thresholds must be at most {LAST - 1}, which make {LAST} priorities, as brokers have "
            f"no more; got {len(policy.thresholds)}"
        )
    return policy

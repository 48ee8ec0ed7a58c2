"""Fair priorities for anybody's own Dramatiq actors, on RabbitMQ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.errors import InvalidCustomer, MissingExtra
from fairlead.integrations.counters import LOGGER, CustomerRules, PriorityAssigner, open_counters
from fairlead.integrations.directions import for_rabbitmq
from fairlead.integrations.rules import LAST, check_priority, customer_name
from fairlead.policy.classic import DEFAULT_RESET_INTERVAL, DEFAULT_THRESHOLDS

try:
    import dramatiq
    from dramatiq.middleware import MiddlewareError
except ModuleNotFoundError as error:
    raise MissingExtra(
        f"the library {error.name} is missing; install it: pip install 'fairlead[dramatiq]'"
    ) from None

_TOLD = "fairlead"


class FairPriorities(dramatiq.Middleware):
    """Gives messages that name a customer a priority by how much it sent lately.

    `process.send_with_options(args=(path,), customer="acme")`, on a `RabbitmqBroker` with
    `max_priority=10`. The arguments are those of `fairlead.celery.FairPriorities`.
    """

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
    ) -> None:
        rules = CustomerRules(reset_interval, thresholds, customers)
        where = open_counters(counters, name=name, timeout=timeout)
        self._assigner = PriorityAssigner(where, rules, check_priority("fallback", fallback))

    def after_process_boot(self, broker: dramatiq.Broker) -> None:
        """A worker begins: say what stands in the way."""
        self._say_obstacle(broker)

    def before_enqueue(
        self,
        broker: dramatiq.Broker,
        message: dramatiq.Message[Any],
        delay: int | None,  # noqa: ARG002 (Dramatiq's signature)
    ) -> None:
        """Place a message that names a customer; a retry or a delayed one has its place already."""
        options = message.options
        customer = options.pop("customer", None)
        if customer is None or _TOLD in options or options.get("broker_priority") is not None:
            return
        try:
            name = customer_name(customer)
        except InvalidCustomer as error:  # of others, Dramatiq only writes a line into the log
            raise MiddlewareError(str(error)) from error
        self._say_obstacle(broker)
        placement = self._assigner.place(name)
        told = {"customer": name, "priority": placement.priority, "count": placement.count}
        options.update({_TOLD: told, "broker_priority": for_rabbitmq(placement.priority)})

    def close(self) -> None:
        """Let go of the ledger's connections."""
        self._assigner.close()

    _has_said = False

    def _say_obstacle(self, broker: dramatiq.Broker) -> None:
        highest = getattr(broker, "max_priority", None) or 0
        if highest < LAST and not self._has_said:
            self._has_said = True
            LOGGER.warning(
                "fair priorities: the broker must be a RabbitmqBroker with max_priority=10, and is "
                "a %s with %s; messages are received in the order of their arrival.",
                type(broker).__name__,
                highest or "none",
            )

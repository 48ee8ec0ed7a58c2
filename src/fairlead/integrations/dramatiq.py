"""Fair priorities for any Dramatiq actors, on RabbitMQ."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Unpack

from fairlead.errors import InvalidCustomer
from fairlead.extras import needs_extra
from fairlead.integrations.priority_assigner import (
    HEADER,
    LAST_PRIORITY,
    LOGGER,
    PriorityAssigner,
    PriorityOptions,
    rabbitmq_priority,
)

with needs_extra("dramatiq"):
    import dramatiq
    from dramatiq.middleware import MiddlewareError


class FairPriorities(dramatiq.Middleware):
    """Gives messages that name a customer a priority by how much it sent lately.

    `process.send_with_options(args=(path,), customer="acme")`, on a `RabbitmqBroker` with
    `max_priority=10`. The options are those of `fairlead.celery.FairPriorities`.
    """

    _has_warned = False

    def __init__(self, counters: str, **options: Unpack[PriorityOptions]) -> None:
        self._assigner = PriorityAssigner(counters, **options)
        self.place = self._assigner.place
        self.close = self._assigner.close

    def after_process_boot(self, broker: dramatiq.Broker) -> None:
        self._warn_without_priorities(broker)

    def before_enqueue(
        self,
        broker: dramatiq.Broker,
        message: dramatiq.Message[Any],
        delay: int | None,  # noqa: ARG002 (Dramatiq's signature)
    ) -> None:
        """Set the priority of a message that names a customer, unless it is a retry or delayed."""
        options = message.options
        customer = options.pop("customer", None)
        if customer is None or HEADER in options or options.get("broker_priority") is not None:
            return
        try:
            assigned = self._assigner.place(customer)
        except InvalidCustomer as error:  # Dramatiq logs other exceptions and goes on
            raise MiddlewareError(str(error)) from error
        self._warn_without_priorities(broker)
        options[HEADER] = asdict(assigned)
        options["broker_priority"] = rabbitmq_priority(assigned.priority)

    def _warn_without_priorities(self, broker: dramatiq.Broker) -> None:
        highest = getattr(broker, "max_priority", None) or 0
        if highest < LAST_PRIORITY and not self._has_warned:
            self._has_warned = True
            LOGGER.warning(
                "fair priorities: the broker must be a RabbitmqBroker with max_priority=10, and is "
                "a %s with %s; messages are received in the order of their arrival.",
                type(broker).__name__,
                highest or "none",
            )

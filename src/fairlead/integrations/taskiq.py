"""Fair priorities for anybody's own taskiq tasks, on RabbitMQ."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.errors import MissingExtra
from fairlead.integrations.counters import LOGGER, CustomerRules, PriorityAssigner, open_counters
from fairlead.integrations.directions import for_rabbitmq
from fairlead.integrations.rules import check_priority, customer_name
from fairlead.policy.classic import DEFAULT_RESET_INTERVAL, DEFAULT_THRESHOLDS

try:
    from taskiq import AsyncBroker, TaskiqMessage, TaskiqMiddleware
except ModuleNotFoundError as error:
    raise MissingExtra(
        f"the library {error.name} is missing; install it: pip install 'fairlead[taskiq]'"
    ) from None

_TOLD = "fairlead"


class FairPriorities(TaskiqMiddleware):
    """Gives messages that name a customer a priority by how much it sent lately.

    `process.kicker().with_labels(customer="acme").kiq(path)`, on an `AioPikaBroker` whose queues
    have `max_priority=10`. The arguments are those of `fairlead.celery.FairPriorities`.
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
        super().__init__()
        rules = CustomerRules(reset_interval, thresholds, customers)
        where = open_counters(counters, name=name, timeout=timeout)
        self._assigner = PriorityAssigner(where, rules, check_priority("fallback", fallback))

    def set_broker(self, broker: AsyncBroker) -> None:
        """See taskiq; says so if the broker has no priorities."""
        super().set_broker(broker)
        if type(broker).__name__ != "AioPikaBroker":
            LOGGER.warning(
                "fair priorities: the broker must be an AioPikaBroker whose queues have "
                "max_priority=10, and is a %s; messages are received in the order of their "
                "arrival.",
                type(broker).__name__,
            )

    async def pre_send(self, message: TaskiqMessage) -> TaskiqMessage:
        """Place a message that names a customer; a retry has its place already."""
        labels = message.labels
        customer = labels.pop("customer", None)
        if customer is None or _TOLD in labels or labels.get("priority") is not None:
            return message
        name = customer_name(customer)
        placement = await asyncio.to_thread(self._assigner.place, name)
        told = {"customer": name, "priority": placement.priority, "count": placement.count}
        labels.update({_TOLD: json.dumps(told), "priority": for_rabbitmq(placement.priority)})
        return message

    def shutdown(self) -> None:
        """Let go of the ledger's connections."""
        self._assigner.close()

"""Fair priorities for any taskiq tasks, on RabbitMQ."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import Unpack

from fairlead.extras import needs_extra
from fairlead.integrations.priority_assigner import (
    HEADER,
    LOGGER,
    PriorityAssigner,
    PriorityOptions,
    rabbitmq_priority,
)

with needs_extra("taskiq"):
    from taskiq import AsyncBroker, TaskiqMessage, TaskiqMiddleware


class FairPriorities(TaskiqMiddleware):
    """Gives messages that name a customer a priority by how much it sent lately.

    `process.kicker().with_labels(customer="acme").kiq(path)`, on an `AioPikaBroker` whose queues
    have `max_priority=10`. The options are those of `fairlead.celery.FairPriorities`.
    """

    def __init__(self, counters: str, **options: Unpack[PriorityOptions]) -> None:
        super().__init__()
        self._assigner = PriorityAssigner(counters, **options)
        self.place = self._assigner.place

    def set_broker(self, broker: AsyncBroker) -> None:
        super().set_broker(broker)
        if type(broker).__name__ != "AioPikaBroker":
            LOGGER.warning(
                "fair priorities: the broker must be an AioPikaBroker whose queues have "
                "max_priority=10, and is a %s; messages are received in the order of their "
                "arrival.",
                type(broker).__name__,
            )

    async def pre_send(self, message: TaskiqMessage) -> TaskiqMessage:
        """Set the priority of a message that names a customer, unless it is a retry."""
        labels = message.labels
        customer = labels.pop("customer", None)
        if customer is None or HEADER in labels or labels.get("priority") is not None:
            return message
        assigned = await asyncio.to_thread(self._assigner.place, customer)
        labels[HEADER] = json.dumps(asdict(assigned))
        labels["priority"] = rabbitmq_priority(assigned.priority)
        return message

    def shutdown(self) -> None:
        self._assigner.close()

"""What each broker needs so that priorities count, and in which direction it counts them."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from typing import Any

from kombu.connection import Connection

from fairlead.integrations.directions import for_rabbitmq, for_redis
from fairlead.integrations.rules import LAST

STEPS = list(range(LAST + 1))
MAX_PRIORITY = 10
"""What Celery's documentation recommends; RabbitMQ's own advice is to use no more."""

_CELERYS_PREFETCH = 4
_DIRECTIONS = {"redis": for_redis, "amqp": for_rabbitmq}
_NO_PRIORITIES = ("quorum", "stream")


def broker_of(connection: Connection) -> str:
    """`redis`, `amqp`, or the name of a broker whose priorities are of no use here."""
    return str(connection.transport.driver_type)


def native(broker: str, priority: int) -> int | None:
    """The number for a priority in the broker's own terms; None if it has none that help."""
    translate = _DIRECTIONS.get(broker)
    return None if translate is None else translate(priority)


def settle(conf: Any, broker: str) -> None:
    """Set what the broker needs and the application has not set itself."""
    if conf.worker_prefetch_multiplier == _CELERYS_PREFETCH:
        conf.worker_prefetch_multiplier = 1
    if broker == "redis":
        ours = {"priority_steps": STEPS, "queue_order_strategy": "priority"}
        conf.broker_transport_options = {**ours, **conf.broker_transport_options}
    elif broker == "amqp" and conf.task_queue_max_priority is None:
        conf.task_queue_max_priority = MAX_PRIORITY


def obstacles(app: Any, broker: str) -> Iterator[str]:
    """What keeps priorities from counting, each with what to do."""
    if broker == "redis":
        yield from _of_redis(app.conf.broker_transport_options)
    elif broker == "amqp":
        yield from _of_rabbitmq(app)
    else:
        yield (
            f"the broker is {broker!r}, and Celery's priorities work on Redis and RabbitMQ only; "
            "tasks are sent without"
        )
    fetched = app.conf.worker_prefetch_multiplier
    if fetched != 1:
        yield (
            f"worker_prefetch_multiplier is {fetched}: workers take tasks long before they run "
            "them, and what they have taken keeps its order; set it to 1"
        )


def _of_redis(options: dict[str, Any]) -> Iterator[str]:
    steps = sorted(options.get("priority_steps") or [0])
    lists = {steps[max(bisect(steps, level) - 1, 0)] for level in range(1, LAST + 1)}
    if len(lists) < LAST:
        yield (
            f"priority_steps in broker_transport_options is {steps}, which lumps the priorities 1 "
            f"to {LAST} into {len(lists)}; leave it out, or set it to {STEPS}"
        )


def _of_rabbitmq(app: Any) -> Iterator[str]:
    for name, queue in app.amqp.queues.items():
        arguments = queue.queue_arguments or {}
        kind = arguments.get("x-queue-type")
        highest = queue.max_priority or arguments.get("x-max-priority") or 0
        if kind in _NO_PRIORITIES:
            yield (
                f"{name!r} is a {kind} queue, and those have no such priorities; use a classic "
                "queue for these tasks"
            )
        elif highest < LAST:
            yield (
                f"the queue {name!r} has x-max-priority {highest}, and {LAST} are needed; leave it "
                f"out, or set it to {MAX_PRIORITY}"
            )

"""The settings that each broker needs for priorities, and its own priority numbers."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from amqp.exceptions import PreconditionFailed
from kombu.connection import Connection

from fairlead.integrations.priority_assigner import LAST_PRIORITY, LOGGER, rabbitmq_priority

STEPS = list(range(LAST_PRIORITY + 1))
MAX_PRIORITY = 10
"""Celery's documentation recommends it; RabbitMQ advises against more."""

_CELERY_PREFETCH = 4
_QUEUE = re.compile(r"'x-max-priority' for queue '([^']*)'")


def broker_name(connection: Connection) -> str:
    """`redis`, `amqp`, or the name of a broker without usable priorities."""
    return str(connection.transport.driver_type)


def native_priority(broker: str, priority: int) -> int | None:
    """The broker's own number of a priority; None: it has no usable priorities."""
    # Celery on Redis delivers low numbers first, as Fairlead does.
    return {"redis": priority, "amqp": rabbitmq_priority(priority)}.get(broker)


def apply_settings(conf: Any, broker: str) -> None:
    """Apply the broker's settings, unless the application has set them itself."""
    if conf.worker_prefetch_multiplier == _CELERY_PREFETCH:
        conf.worker_prefetch_multiplier = 1
    if broker == "redis":
        ours = {"priority_steps": STEPS, "queue_order_strategy": "priority"}
        conf.broker_transport_options = {**ours, **conf.broker_transport_options}
    elif broker == "amqp" and conf.task_queue_max_priority is None:
        conf.task_queue_max_priority = MAX_PRIORITY


def obstacles(app: Any, broker: str) -> Iterator[str]:
    """Every setting that prevents priorities, with a remedy."""
    if broker == "redis":
        yield from _redis_obstacles(app.conf.broker_transport_options)
    elif broker == "amqp":
        yield from _rabbitmq_obstacles(app)
    else:
        yield (
            f"the broker is {broker!r}, and Celery's priorities work on Redis and RabbitMQ only; "
            "tasks are sent without"
        )
    prefetch = app.conf.worker_prefetch_multiplier
    if prefetch != 1:
        yield (
            f"worker_prefetch_multiplier is {prefetch}: workers take tasks long before they run "
            "them, and what they have taken keeps its order; set it to 1"
        )


def _redis_obstacles(options: dict[str, Any]) -> Iterator[str]:
    steps = sorted(options.get("priority_steps") or [0])
    lists = {steps[max(bisect(steps, level) - 1, 0)] for level in range(1, LAST_PRIORITY + 1)}
    if len(lists) < LAST_PRIORITY:
        yield (
            f"priority_steps in broker_transport_options is {steps}, which lumps the priorities 1 "
            f"to {LAST_PRIORITY} into {len(lists)}; leave it out, or set it to {STEPS}"
        )


def _rabbitmq_obstacles(app: Any) -> Iterator[str]:
    for name, queue in app.amqp.queues.items():
        arguments = queue.queue_arguments or {}
        kind = arguments.get("x-queue-type")
        highest = queue.max_priority or arguments.get("x-max-priority") or 0
        if kind in ("quorum", "stream"):
            yield (
                f"{name!r} is a {kind} queue, and those have no such priorities; use a classic "
                "queue for these tasks"
            )
        elif highest < LAST_PRIORITY:
            yield (
                f"the queue {name!r} has x-max-priority {highest}, and {LAST_PRIORITY} are needed; "
                f"leave it out, or set it to {MAX_PRIORITY}"
            )


@contextmanager
def explained_refusal() -> Iterator[None]:
    """Add a note to RabbitMQ's refusal of a queue that exists with other arguments."""
    try:
        yield
    except PreconditionFailed as error:
        if explanation := _explanation(error):
            error.add_note(explanation)
        raise


def try_declaring_queues(app: Any) -> None:
    """Declare the queues of a worker before the worker does, and log why that fails.

    An unreachable broker is ignored: the worker waits for it.
    """
    connection = app.connection_for_read()
    with suppress(OSError, *connection.connection_errors), connection:
        connection.ensure_connection(max_retries=1, timeout=2)
        for queue in app.amqp.queues.consume_from.values():
            try:
                with connection.channel() as channel:
                    queue(channel).declare()
            except PreconditionFailed as error:
                if explanation := _explanation(error):
                    LOGGER.error("fair priorities: %s", explanation)


def _explanation(error: PreconditionFailed) -> str | None:
    match = _QUEUE.search(str(error))
    if match is None:
        return None
    return (
        f"the queue {match[1]!r} exists on RabbitMQ with another x-max-priority or without one, "
        "and a queue that exists cannot be changed: let it run empty, stop its workers and delete "
        f"it (rabbitmqctl delete_queue {match[1]}), or use a queue of another name "
        '(task_default_queue="…").'
    )

"""RabbitMQ's refusal of a queue that exists with other arguments, in words that help."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from amqp.exceptions import PreconditionFailed

from fairlead.integrations.counters import LOGGER

_QUEUE = re.compile(r"'x-max-priority' for queue '([^']*)'")


@contextmanager
def explained() -> Iterator[None]:
    """Add to RabbitMQ's refusal what it means and what to do."""
    try:
        yield
    except PreconditionFailed as error:
        if words := _explanation(error):
            error.add_note(words)
        raise


def try_out(app: Any) -> None:
    """Declare the queues of a worker as it is about to do, and say why if that will fail.

    A broker that cannot be reached is left to the worker, which waits for it.
    """
    connection = app.connection_for_read()
    with suppress(OSError, *connection.connection_errors), connection:
        connection.ensure_connection(max_retries=1, timeout=2)
        for queue in app.amqp.queues.consume_from.values():
            _try_one(connection, queue)


def _try_one(connection: Any, queue: Any) -> None:
    try:
        with connection.channel() as channel:
            queue(channel).declare()
    except PreconditionFailed as error:
        if words := _explanation(error):
            LOGGER.error("fair priorities: %s", words)


def _explanation(error: PreconditionFailed) -> str | None:
    found = _QUEUE.search(str(error))
    if found is None:
        return None
    return (
        f"the queue {found[1]!r} exists on RabbitMQ with another x-max-priority or without one, "
        "and a queue that exists cannot be changed: let it run empty, stop its workers and delete "
        f"it (rabbitmqctl delete_queue {found[1]}), or use a queue of another name "
        '(task_default_queue="…").'
    )

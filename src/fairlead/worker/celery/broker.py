"""Sends wake-up messages to the broker; each one means "claim the next document"."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from celery import Celery
from kombu.exceptions import OperationalError

from fairlead.errors import BrokerUnreachable

QUEUE = "fairlead"
TASK = "fairlead.claim_next"
_TIMEOUT = 5.0


def make_app(broker: str) -> Celery:
    """A Celery application for this broker; `celery_app` adds its one task."""
    app = Celery("fairlead", broker=broker, set_as_current=False)
    app.conf.update(
        task_default_queue=QUEUE,
        task_default_delivery_mode="transient",  # the store has the documents
        task_ignore_result=True,
        task_serializer="json",
        accept_content=["json"],
        worker_prefetch_multiplier=1,
        broker_connection_timeout=_TIMEOUT,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options=_options(broker),
    )
    return app


def _options(broker: str) -> dict[str, Any]:
    if urlsplit(broker).scheme.startswith("redis"):
        return {"socket_timeout": _TIMEOUT, "socket_connect_timeout": _TIMEOUT}
    return {"confirm_publish": True, "connect_timeout": _TIMEOUT}


class CeleryBroker:
    """One connection to the broker, opened again after every failure. For one thread."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._connection: Any = None

    def fill_up_to(self, number: int) -> int:
        with self._connected():
            missing = max(0, number - self._waiting()) if number > 0 else 0
            for _ in range(missing):
                self._app.send_task(TASK, connection=self._connection, retry=False)
        return missing

    def messages(self) -> int:
        with self._connected():
            return self._waiting()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.release()

    @contextmanager
    def _connected(self) -> Iterator[None]:
        try:
            if self._connection is None:
                self._connection = self._app.connection_for_write()
                self._connection.ensure_connection(max_retries=1, timeout=_TIMEOUT)
            yield
        except (OperationalError, OSError, *self._errors()) as error:
            self.close()
            raise BrokerUnreachable(
                f"the broker cannot be reached ({error}); documents wait safely in the store "
                "until it is back"
            ) from error

    def _errors(self) -> tuple[type[Exception], ...]:
        if self._connection is None:
            return ()
        return (*self._connection.connection_errors, *self._connection.channel_errors)

    def _waiting(self) -> int:
        """How many messages wait. Declares the queue if it is missing."""
        with self._connection.channel() as channel:
            queue = self._app.amqp.queues[QUEUE].bind(channel)
            queue.declare()
            return int(queue.queue_declare().message_count)

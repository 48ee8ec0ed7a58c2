"""`FairPriorities`: a priority for every task of a Celery application that names a customer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict
from typing import Any, Unpack

from celery import signals
from celery.app.base import Celery

from fairlead.errors import InvalidSetting
from fairlead.integrations.celery import brokers
from fairlead.integrations.celery.callbacks import with_callbacks
from fairlead.integrations.priority_assigner import (
    HEADER,
    LOGGER,
    AssignedPriority,
    PriorityAssigner,
    PriorityOptions,
    check_priority,
    customer_name,
)

CustomerFrom = Callable[[str, Sequence[Any], Mapping[str, Any]], object]

_CHORD_UNLOCK = "celery.chord_unlock"  # Celery sends it along with a chord; it is not counted


class FairPriorities:
    """Gives the tasks of a Celery application priorities by how much their customers sent lately.

    It hooks into `app.send_task`, which every way to send a task calls, and sets the options
    without which brokers ignore priorities.

    Args:
        app: The application.
        counters: Where counts are stored: `redis://…`, `postgresql://…` or `sqlite:///…`.
        others: The priority of tasks without customer; None leaves them unchanged.
        customer_from: The name of the argument that names the customer, or a function of the
            task's name, arguments and keyword arguments; used where a call names no customer.
        reset_interval: Seconds after which a customer's count starts over.
        thresholds: Below each of these counts, the priority is one further back.
        customers: `reset_interval` and `thresholds` of single customers, by their names.
        fallback: The priority of tasks while the counter store is unavailable.
        name: Applications of different names share a counter store without sharing counts.
        timeout: How many seconds a check may wait for the counter store.

    Raises:
        InvalidSetting: a value is invalid, or the application already has fair priorities.
        MissingExtra: the library for the counter store is not installed.
    """

    def __init__(
        self,
        app: Celery,
        counters: str,
        *,
        others: int | None = None,
        customer_from: str | CustomerFrom | None = None,
        **options: Unpack[PriorityOptions],
    ) -> None:
        _check(app, customer_from)
        self._others = None if others is None else check_priority("others", others)
        self._customer_from = customer_from
        self._assigner = PriorityAssigner(counters, **options)
        self._customer: ContextVar[object] = ContextVar("customer", default=None)
        self._broker_names: dict[str, str] = {}
        self._has_checked = False
        self._logged: set[str] = set()
        self.app = app
        self._hook()

    @contextmanager
    def customer(self, name: str | int | None) -> Iterator[None]:
        """Tasks sent in the block that name no customer belong to this customer."""
        token = self._customer.set(None if name is None else customer_name(name))
        try:
            yield
        finally:
            self._customer.reset(token)

    def place(self, customer: str | int) -> AssignedPriority:
        """Count one submission of the customer without sending a task."""
        return self._assigner.place(customer)

    def obstacles(self) -> list[str]:
        """The settings of the application that prevent priorities; should be empty."""
        broker = self._broker()
        brokers.apply_settings(self.app.conf, broker)
        return list(brokers.obstacles(self.app, broker))

    def close(self) -> None:
        """Close connections to the counter store. The next task opens new ones."""
        self._assigner.close()

    def _hook(self) -> None:
        send = self.app.send_task
        if hasattr(send, "fairlead"):
            raise InvalidSetting(
                f"the application {self.app.main!r} already has FairPriorities; make it once"
            )

        def send_task(
            name: str, args: Any = None, kwargs: Any = None, *rest: Any, **options: Any
        ) -> Any:
            """Send task by name; takes `customer` besides Celery's own options."""
            options = self._prioritized(name, args or (), kwargs or {}, options)
            with brokers.explained_refusal():
                return send(name, args, kwargs, *rest, **options)

        send_task.fairlead = self  # type: ignore[attr-defined]
        self.app.send_task = send_task
        if self.app.configured:
            self._apply_settings()
        else:
            self.app.on_after_configure.connect(self._apply_settings, weak=False)
        signals.celeryd_after_setup.connect(self._check_worker, weak=False)

    def _apply_settings(self, **_: Any) -> None:
        brokers.apply_settings(self.app.conf, self._broker())

    def _check_worker(self, instance: Any, **_: Any) -> None:
        if instance.app is self.app:
            self._log_obstacles()
            if self._broker() == "amqp":
                brokers.try_declaring_queues(self.app)

    def _log_obstacles(self) -> None:
        self._has_checked = True
        for obstacle in self.obstacles():
            if obstacle not in self._logged:
                self._logged.add(obstacle)
                LOGGER.warning("fair priorities: %s.", obstacle)

    def _prioritized(
        self, task: str, args: Sequence[Any], kwargs: Mapping[str, Any], options: dict[str, Any]
    ) -> dict[str, Any]:
        """The options of a call with the priority of its customer."""
        customer = options.pop("customer", None)
        if options.get("retries") or _has_own_priority(options):
            return options
        if customer is None and task != _CHORD_UNLOCK:
            customer = self._customer.get() or self._customer_of(task, args, kwargs)
        if customer is None and self._others is None:
            return options
        broker = self._broker(options.get("connection"))
        if not self._has_checked:
            self._log_obstacles()
        if customer is None:
            number = brokers.native_priority(broker, self._others or 0)
            return options if number is None else {**options, "priority": number}
        assigned = self._assigner.place(customer)
        headers = {**(options.get("headers") or {}), HEADER: asdict(assigned)}
        number = brokers.native_priority(broker, assigned.priority)
        if number is None:
            return {**options, "headers": headers}
        return with_callbacks({**options, "headers": headers, "priority": number}, number)

    def _customer_of(self, task: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> object:
        source = self._customer_from
        if source is None:
            return None
        if callable(source):
            return source(task, args, kwargs)
        if source in kwargs:
            return kwargs[source]
        function = getattr(self.app.tasks.get(task), "run", None)
        parameters = list(inspect.signature(function).parameters) if function else []
        return dict(zip(parameters, args, strict=False)).get(source)

    def _broker(self, connection: Any = None) -> str:
        if connection is not None:
            return brokers.broker_name(connection)
        url = str(self.app.conf.broker_write_url)
        if url not in self._broker_names:
            self._broker_names[url] = brokers.broker_name(self.app.connection_for_write())
        return self._broker_names[url]


def _check(app: object, customer_from: object) -> None:
    if not isinstance(app, Celery):
        raise InvalidSetting(f"app must be a Celery application; got a {type(app).__name__}")
    if not (customer_from is None or isinstance(customer_from, str) or callable(customer_from)):
        raise InvalidSetting(
            "customer_from must be the name of an argument or a function; got a "
            f"{type(customer_from).__name__}"
        )


def _has_own_priority(options: Mapping[str, Any]) -> bool:
    """Whether this call sets a priority, which is not only the default of its task."""
    default = getattr(options.get("task_type"), "priority", None)
    return options.get("priority") not in (None, default)

"""`FairPriorities`: names of customers in, priorities out, for every task that an app sends."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from celery import signals
from celery.app.base import Celery

from fairlead.errors import InvalidSetting
from fairlead.integrations.celery import queues
from fairlead.integrations.celery.brokers import broker_of, native, obstacles, settle
from fairlead.integrations.celery.callbacks import with_followers
from fairlead.integrations.counters import (
    LOGGER,
    CustomerRules,
    Placement,
    PriorityAssigner,
    open_counters,
)
from fairlead.integrations.rules import check_priority, customer_name
from fairlead.policy.classic import DEFAULT_RESET_INTERVAL, DEFAULT_THRESHOLDS

CustomerFrom = Callable[[str, Sequence[Any], Mapping[str, Any]], object]

HEADER = "fairlead"
"""The header of a message that tells customer, priority and count."""

_NOT_SUBMITTED = "celery.chord_unlock"  # Celery's own errand, sent along with a chord


class FairPriorities:
    """Gives the tasks of a Celery application priorities by how much their customers sent lately.

    It hooks into `app.send_task`, through which every task goes that is sent in any way, and sets
    the options without which brokers ignore priorities.

    Args:
        app: The application.
        ledger: Where counts are kept: `redis://…`, `postgresql://…` or `sqlite:///…`.
        reset_interval: Seconds after which a customer's count starts over.
        thresholds: Below each of these counts, the priority is one further back.
        customers: `reset_interval` and `thresholds` of single customers, by their names.
        fallback: The priority of tasks while the ledger is down.
        others: The priority of tasks without customer; None leaves them as they are.
        customer_from: The name of the argument that names the customer, or a function of the
            task's name, arguments and keyword arguments; asked where a call names no customer.
        name: Applications of different names share a ledger without sharing counts.
        timeout: How many seconds a check may wait for the ledger.

    Raises:
        InvalidSetting: a value is not what it should be, or the application already has this.
        MissingExtra: the library for the ledger is not installed.
    """

    def __init__(
        self,
        app: Celery,
        counters: str,
        *,
        reset_interval: float = DEFAULT_RESET_INTERVAL,
        thresholds: Sequence[int] = DEFAULT_THRESHOLDS,
        customers: Mapping[str, Mapping[str, Any]] | None = None,
        fallback: int = 5,
        others: int | None = None,
        customer_from: str | CustomerFrom | None = None,
        name: str = "default",
        timeout: float = 0.5,
    ) -> None:
        _check(app, customer_from)
        rules = CustomerRules(reset_interval, thresholds, customers)
        self._others = None if others is None else check_priority("others", others)
        self._customer_from = customer_from
        self._assigner = PriorityAssigner(
            open_counters(counters, name=name, timeout=timeout),
            rules,
            check_priority("fallback", fallback),
        )
        self._customer: ContextVar[object] = ContextVar("customer", default=None)
        self._brokers: dict[str, str] = {}
        self._has_looked = False
        self._said: set[str] = set()
        self.app = app
        self._hook()

    @contextmanager
    def customer(self, name: str | int | None) -> Iterator[None]:
        """Tasks that are sent in the block, and name no customer themselves, are this one's."""
        token = self._customer.set(None if name is None else customer_name(name))
        try:
            yield
        finally:
            self._customer.reset(token)

    def place(self, customer: str | int) -> Placement:
        """Count one submission of the customer by hand; its priority (1 is first) and count."""
        return self._assigner.place(customer_name(customer))

    def obstacles(self) -> list[str]:
        """What in the application's settings keeps priorities from counting; best: nothing."""
        broker = self._broker()
        settle(self.app.conf, broker)
        return list(obstacles(self.app, broker))

    def close(self) -> None:
        """Let go of the ledger's connections. The next task makes new ones."""
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
            """Send task by name; takes `customer` besides what Celery takes."""
            options = self._placed(name, args or (), kwargs or {}, options)
            with queues.explained():
                return send(name, args, kwargs, *rest, **options)

        send_task.fairlead = self  # type: ignore[attr-defined]
        self.app.send_task = send_task
        if self.app.configured:
            self._settle()
        else:
            self.app.on_after_configure.connect(self._settle, weak=False)
        signals.celeryd_after_setup.connect(self._at_the_start_of_a_worker, weak=False)

    def _settle(self, **_: Any) -> None:
        settle(self.app.conf, self._broker())

    def _at_the_start_of_a_worker(self, instance: Any, **_: Any) -> None:
        if instance.app is self.app:
            self._say_obstacles()
            if self._broker() == "amqp":
                queues.try_out(self.app)

    def _say_obstacles(self) -> None:
        for obstacle in self.obstacles():
            if obstacle not in self._said:
                self._said.add(obstacle)
                LOGGER.warning("fair priorities: %s.", obstacle)

    def _placed(
        self, task: str, args: Sequence[Any], kwargs: Mapping[str, Any], options: dict[str, Any]
    ) -> dict[str, Any]:
        """The options of the call with what the rule makes of them."""
        named = options.pop("customer", None)
        if options.get("retries") or self._is_given(options):
            return options
        if named is None and task != _NOT_SUBMITTED:
            named = self._customer.get() or self._asked(task, args, kwargs)
        if named is None and self._others is None:
            return options
        return self._with_priority(named, options)

    def _with_priority(self, named: object, options: dict[str, Any]) -> dict[str, Any]:
        broker = self._broker(options.get("connection"))
        self._say_obstacles_once()
        if named is None:
            number = native(broker, self._others or 0)
            return options if number is None else {**options, "priority": number}
        customer = customer_name(named)
        placement = self._assigner.place(customer)
        told = {"customer": customer, "priority": placement.priority, "count": placement.count}
        headers = {**(options.get("headers") or {}), HEADER: told}
        options = {**options, "headers": headers}
        number = native(broker, placement.priority)
        if number is None:
            return options
        return with_followers({**options, "priority": number}, number)

    def _say_obstacles_once(self) -> None:
        if not self._has_looked:
            self._has_looked = True
            self._say_obstacles()

    @staticmethod
    def _is_given(options: Mapping[str, Any]) -> bool:
        """Whether this call has a priority of its own, not only the default of its task."""
        given = options.get("priority")
        default = getattr(options.get("task_type"), "priority", None)
        return given is not None and given != default

    def _asked(self, task: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> object:
        """The customer as `customer_from` has it."""
        if self._customer_from is None:
            return None
        if callable(self._customer_from):
            return self._customer_from(task, args, kwargs)
        if self._customer_from in kwargs:
            return kwargs[self._customer_from]
        return _argument(self.app.tasks.get(task), self._customer_from, args)

    def _broker(self, connection: Any = None) -> str:
        if connection is not None:
            return broker_of(connection)
        url = str(self.app.conf.broker_write_url)
        if url not in self._brokers:
            self._brokers[url] = broker_of(self.app.connection_for_write())
        return self._brokers[url]


def _check(app: object, customer_from: object) -> None:
    if not isinstance(app, Celery):
        raise InvalidSetting(f"app must be a Celery application; got a {type(app).__name__}")
    if not (customer_from is None or isinstance(customer_from, str) or callable(customer_from)):
        raise InvalidSetting(
            "customer_from must be the name of an argument or a function; got a "
            f"{type(customer_from).__name__}"
        )


def _argument(task: Any, name: str, args: Sequence[Any]) -> object:
    """The positional argument that the task's function calls by this name."""
    if task is None:
        return None
    parameters = list(inspect.signature(task.run).parameters)
    place = parameters.index(name) if name in parameters else len(args)
    return args[place] if place < len(args) else None

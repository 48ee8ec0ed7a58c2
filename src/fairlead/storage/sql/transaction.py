"""One transaction: the connection, the rules in force, and what it is going to append.

Events of the public record and of the queue are collected and written together at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from fairlead.model.documents import EventKind
from fairlead.model.usage import DAY, UsageRow
from fairlead.model.webhooks import KINDS
from fairlead.policy.queue import PolicyName
from fairlead.policy.queue_events import Learned, QueueEvent, StoredEvent, Tallied
from fairlead.policy.rules import Rules
from fairlead.storage.sql.queries import Connection, sql
from fairlead.storage.sql.queue_rows import LoadedQueue, encode_events, load_folded
from fairlead.storage.sql.rows import data_text
from fairlead.storage.sql.webhook_rows import add_deliveries, refresh_webhook, subscriptions

NOBODY = 0
"""The customer of an event that is about the whole installation."""


@dataclass(slots=True)
class Transaction:
    """What every change of the store needs. `snapshot` gives a connection with one snapshot.

    That connection sees what was committed when it is asked for, and is only read. The time and the
    policy in force are asked for when they are first needed: statements that were sent before then
    travel to a server together with the beginning of the transaction.
    """

    connection: Connection
    rules: Rules
    clock: Callable[[], float]
    policy_in_force: Callable[[], PolicyName]
    snapshot: Callable[[], AbstractContextManager[Connection]]
    actor: str | None = None
    queue_events: list[StoredEvent] = field(default_factory=list)
    _events: list[tuple[Any, ...]] = field(default_factory=list)
    _tallies: Counter[tuple[str, int]] = field(default_factory=Counter)
    _deliveries: list[tuple[int, str, int | dict[str, Any]]] = field(default_factory=list)
    """Customers, kinds, and the documents or the data of which webhooks are told."""
    _usage: dict[int, UsageRow] = field(default_factory=dict)
    _now: float | None = None
    _policy: PolicyName | None = None

    @property
    def now(self) -> float:
        if self._now is None:
            self._now = self.clock()
        return self._now

    @property
    def policy(self) -> PolicyName:
        if self._policy is None:
            self._policy = self.policy_in_force()
        return self._policy

    @policy.setter
    def policy(self, switched_to: PolicyName) -> None:
        self._policy = switched_to

    @property
    def is_fair(self) -> bool:
        return self.policy == "fair"

    def slot(self, priority: int, number: int, *, urgent: bool) -> tuple[int, int]:
        """The slot of a document in the queue of its customer."""
        if self.is_fair:
            return (0 if urgent else 1), number
        return priority, number

    def load_queue(self, members: Collection[int]) -> LoadedQueue:
        """These members of the queue as they are now, with what this transaction did."""
        pending = [each for each in self.queue_events if not isinstance(each, Tallied | Learned)]
        with self.snapshot() as connection:
            return load_folded(connection, self.rules, members, pending)

    def add_queue_event(self, event: QueueEvent | Learned) -> None:
        self.queue_events.append(event)

    def count_state(self, state: str, priority: int, documents: int) -> None:
        """So many documents more, or fewer, are in this state."""
        self._tallies[state, priority] += documents

    def count_usage(self, customer: int, **amounts: float) -> None:
        """A customer used so much of this day: so many documents, pages, bytes or seconds."""
        row = UsageRow(customer, int(self.now // DAY), **amounts)  # type: ignore[arg-type]
        before = self._usage.get(customer)
        self._usage[customer] = row if before is None else before.plus(row)

    def add_event(
        self, kind: EventKind, customer: int = NOBODY, document: int | None = None, **data: object
    ) -> None:
        """Add an event, with a delivery for each webhook that asks for it."""
        values = (self.now, kind._value_, customer, document, data_text(data), self.actor)
        self._events.append(values)
        name = KINDS.get(kind)
        if name is not None and document is not None:
            self._deliveries.append((customer, name, document))

    def add_delivery(self, customer: int, kind: str, data: dict[str, Any]) -> None:
        """Tell the webhooks that ask for this kind of something other than a document."""
        self._deliveries.append((customer, kind, data))

    def write(self) -> None:
        """Write what was collected; the last thing in the transaction."""
        self.queue_events += [
            Tallied(state, priority, number)
            for (state, priority), number in sorted(self._tallies.items())
            if number
        ]
        if self.queue_events:
            body = encode_events(self.queue_events)
            self.connection.execute(sql("add_queue_event"), (body,))
        if self._usage:
            self.connection.executemany(sql("add_usage"), list(self._usage.values()))
        self.write_events()
        self.queue_events, self._tallies, self._usage = [], Counter(), {}

    def write_events(self) -> None:
        """Write the events of the public record, and the deliveries that follow from them."""
        if self._deliveries:
            self._add_deliveries()
        if self._events:
            self.connection.executemany(sql("add_event"), self._events)
        self._events, self._deliveries = [], []

    def _add_deliveries(self) -> None:
        told = subscriptions(self.connection, {customer for customer, *_ in self._deliveries})
        changed: set[str] = set()
        for customer, name, what in self._deliveries:
            listening = (*told.get(customer, ()), *told.get(None, ()))
            webhooks = [each.id for each in listening if name in each.kinds]
            if webhooks:
                add_deliveries(self.connection, self.now, sorted(webhooks), name, what)
                changed.update(webhooks)
        for webhook in sorted(changed):  # locks in one order, so that no two transactions block
            refresh_webhook(self.connection, webhook)

"""One transaction: the connection, the rules in force, and the state of the queue as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from fairlead.model.documents import EventKind
from fairlead.model.webhooks import KINDS
from fairlead.policy.fair import Clock
from fairlead.policy.fairness import start_bound
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.policy.rules import PolicyName, Rules
from fairlead.storage.sql.queries import Connection, sql
from fairlead.storage.sql.rows import THOUSANDTHS, data_text
from fairlead.storage.sql.webhook_rows import Subscription, add_deliveries, subscriptions

NOBODY = 0
"""The customer of an event that is about the whole installation."""


@dataclass(slots=True)
class Transaction:
    """What every change of the store needs, with the clocks brought to now."""

    connection: Connection
    rules: Rules
    now: float
    policy: PolicyName
    clock: Clock
    ideal: float
    credit: float
    backlog: int
    customers: int
    workers: int
    longest: float
    actor: str | None = None
    webhooks: dict[int, list[Subscription]] = field(default_factory=dict)

    @classmethod
    def read(cls, connection: Connection, rules: Rules, now: float) -> Transaction:
        """The state of the queue at `now`; nothing is saved."""
        row = connection.execute(sql("line_state"), (now,)).fetchone()
        assert row is not None  # noqa: S101 (the migration made it)
        policy, value, at, *others = row
        tx = cls(connection, rules, now, cast("PolicyName", policy), Clock(value, at), *others)
        tx._bring_clocks()
        return tx

    @classmethod
    def at(cls, connection: Connection, rules: Rules, now: float) -> Transaction:
        """The same, for a change."""
        tx = cls.read(connection, rules, now)
        clocks = (tx.clock.value, tx.clock.at, tx.ideal)
        connection.execute(sql("bring_clocks"), clocks)
        return tx

    @property
    def is_fair(self) -> bool:
        return self.policy == "fair"

    @property
    def lane(self) -> OverdueLane | None:
        return self.rules.lane_of(self.policy)

    @property
    def start_bound(self) -> float | None:
        """Within how many seconds each waiting customer gets a start."""
        return start_bound(
            self.lane, customers=self.customers, longest=self.longest, workers=self.workers
        )

    def save_clock(self, clock: Clock) -> None:
        if clock != self.clock:
            self.clock = clock
            self.connection.execute(sql("save_clock"), (clock.value,))

    def add_event(
        self, kind: EventKind, customer: int = NOBODY, document: int | None = None, **data: object
    ) -> None:
        """Add an event, with a delivery for each of the customer's webhooks that asks for it."""
        self.connection.execute(
            sql("add_event"),
            (self.now, kind.value, customer, document, data_text(data), self.actor),
        )
        name = KINDS.get(kind)
        if name is not None and document is not None:
            if customer not in self.webhooks:
                self.webhooks[customer] = subscriptions(self.connection, customer)
            webhooks = [each.id for each in self.webhooks[customer] if name in each.kinds]
            if webhooks:
                add_deliveries(self.connection, self.now, webhooks, name, document)

    def _bring_clocks(self) -> None:
        """Let the clocks run up to now. The ideal server serves all waiting accounts at once."""
        before, weights = self.clock, self.backlog / THOUSANDTHS
        self.clock = Clock(before.value, max(before.at, self.now))
        if self.is_fair:
            self.clock = self.rules.fair().advanced(
                before, now=self.now, workers=self.workers, backlog=weights
            )
        if weights:
            self.ideal += self.workers * (self.clock.at - before.at) / weights

"""One write: the connection, the rules in force, and the line as a whole at this moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from fairlead.model.documents import EventKind
from fairlead.model.webhooks import KINDS
from fairlead.policy.fair import Clock
from fairlead.policy.fairness import start_bound
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.policy.rules import PolicyName, Rules
from fairlead.storage.sql.connection import Connection
from fairlead.storage.sql.queries import sql
from fairlead.storage.sql.rows import THOUSANDTHS, data_text
from fairlead.storage.sql.webhook_rows import Subscription, asked, tell_webhooks

NOBODY = 0
"""The customer of an event that is about the whole installation."""


@dataclass(slots=True)
class Transaction:
    """What every change of the store needs to know, with the clocks brought to now."""

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
        """The line at `now`; nothing is saved."""
        row = connection.execute(sql("line_state"), (now,)).fetchone()
        assert row is not None  # noqa: S101 (the migration made it)
        policy, value, at, *others = row
        tx = cls(connection, rules, now, cast("PolicyName", policy), Clock(value, at), *others)
        tx._bring_clocks()
        return tx

    @classmethod
    def at(cls, connection: Connection, rules: Rules, now: float) -> Transaction:
        """The line at `now`, for a change."""
        tx = cls.read(connection, rules, now)
        clocks = (tx.clock.value, tx.clock.at, tx.ideal)
        connection.execute(sql("bring_clocks"), clocks)
        return tx

    @property
    def is_fair(self) -> bool:
        """Whether the fair rule is in force."""
        return self.policy == "fair"

    @property
    def lane(self) -> OverdueLane | None:
        """The overdue lane, as it reckons beside this policy."""
        return self.rules.lane_of(self.policy)

    @property
    def start_bound(self) -> float | None:
        """Within how many seconds each customer in the line gets a start."""
        return start_bound(
            self.lane, customers=self.customers, longest=self.longest, workers=self.workers
        )

    def save_clock(self, clock: Clock) -> None:
        """Move the virtual clock."""
        if clock != self.clock:
            self.clock = clock
            self.connection.execute(sql("save_clock"), (clock.value,))

    def tell(
        self, kind: EventKind, customer: int = NOBODY, document: int | None = None, **data: object
    ) -> None:
        """One line of the append-only record, in the transaction of what it tells.

        What the customer's webhooks are to be told of it is made at once.
        """
        self.connection.execute(
            sql("add_event"),
            (self.now, kind.value, customer, document, data_text(data), self.actor),
        )
        name = KINDS.get(kind)
        if name is not None and document is not None:
            self._tell_webhooks(name, customer, document)

    def _tell_webhooks(self, name: str, customer: int, document: int) -> None:
        if customer not in self.webhooks:
            self.webhooks[customer] = asked(self.connection, customer)
        told = [each.id for each in self.webhooks[customer] if name in each.kinds]
        if told:
            tell_webhooks(self.connection, self.now, told, name, document)

    def _bring_clocks(self) -> None:
        """Let the clocks run up to now. The ideal server works at full pace for all who wait."""
        before, weights = self.clock, self.backlog / THOUSANDTHS
        self.clock = Clock(before.value, max(before.at, self.now))
        if self.is_fair:
            self.clock = self.rules.fair().advanced(
                before, now=self.now, workers=self.workers, backlog=weights
            )
        if weights:
            self.ideal += self.workers * (self.clock.at - before.at) / weights

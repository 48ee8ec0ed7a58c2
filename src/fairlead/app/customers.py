"""Customers: their settings, and what their next document would get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import asdict

from fairlead.app.wiring import Wiring
from fairlead.errors import CustomerExists
from fairlead.model.customers import Check, Customer, CustomerRecord
from fairlead.model.names import check_customer
from fairlead.policy.classic import ClassicPolicy
from fairlead.policy.explain import why_reset
from fairlead.policy.fair import Clock, FairRule, Placed
from fairlead.policy.rules import PolicyName


class Customers(Wiring):
    """What is known and decided of customers."""

    def customer(self, name: str) -> CustomerRecord:
        """The customer of this name."""
        return self.store.customer(name)

    def customers(self) -> list[CustomerRecord]:
        """All customers, by name."""
        return self.store.customers()

    def add_customer(
        self, name: str, *, must_be_new: bool = False, by: str | None = None, **settings: Any
    ) -> CustomerRecord:
        """Make a customer known before it submits anything, with settings as of `set_customer`.

        One that is there gets the settings; with `must_be_new` it is refused, and stays as it is.
        """
        _check_account(settings)
        if not self.store.add_customer(check_customer(name), by=by, **settings):
            if must_be_new:
                raise CustomerExists(
                    f"customer {name!r} already exists; change it with set_customer"
                )
            if settings:
                return self.set_customer(name, by=by, **settings)
        return self.customer(name)

    def set_customer(self, name: str, *, by: str | None = None, **changes: Any) -> CustomerRecord:
        """Change settings of a customer: weight, account, caps, interval, thresholds.

        None: as for everybody. What is not named stays, whoever changes it meanwhile.
        """
        _check_account(changes)
        self.store.set_customer(name, by=by, **changes)
        return self.customer(name)

    def pause(self, name: str, *, by: str | None = None) -> CustomerRecord:
        """Let the customer's documents wait; new ones are accepted all the same."""
        self.store.pause(name, by=by)
        return self.customer(name)

    def resume(self, name: str, *, by: str | None = None) -> CustomerRecord:
        """Let the customer's documents run again."""
        self.store.resume(name, by=by)
        return self.customer(name)

    def reset(self, name: str, *, by: str | None = None) -> CustomerRecord:
        """Forget the customer's count: its next document is checked as its first."""
        self.store.reset(name, by=by)
        return self.customer(name)

    def policy_of(
        self, customer: CustomerRecord, policy: PolicyName | None = None
    ) -> ClassicPolicy | FairRule:
        """The rule in force, as it holds for this customer; `policy` where it is known already."""
        rules, own = self._sources.rules(), customer.settings
        make = rules.fair if (policy or self.policy) == "fair" else rules.classic
        return make(own.reset_interval, own.thresholds)

    def next_place(
        self, customer: CustomerRecord, policy: PolicyName | None = None, clock: Clock | None = None
    ) -> Check | Placed:
        """What the customer's next document would get now: `.count` and `.priority`.

        For many customers, read `policy` and `clock` once and pass them in.
        """
        rule = self.policy_of(customer, policy)
        if isinstance(rule, ClassicPolicy):
            return rule.check(customer.counter, now=self.now())
        return rule.submit(
            customer.tags,
            clock or self.store.clock(),
            cost=0,
            weight=customer.settings.weight,
            now=self.now(),
            has_pending=customer.pending > 0,
        )

    def next_priority(self, customer: CustomerRecord) -> int:
        """The priority that the customer's next document would get now."""
        return self.next_place(customer).priority

    def view(self, customer: CustomerRecord) -> Customer:
        """The customer with what follows from its records at this moment, as it is shown."""
        waits_since = customer.oldest_waiting_at
        return Customer(
            name=customer.name,
            pending=customer.pending,
            waiting=customer.waiting,
            processing=customer.processing,
            count=self._shown_count(customer),
            next_priority=self.next_priority(customer),
            resets_in=self._resets_in(customer),
            oldest_wait=None if waits_since is None else max(0.0, self.now() - waits_since),
            paused=customer.paused,
            created_at=customer.created_at,
            **asdict(customer.settings),
        )

    def _shown_count(self, customer: CustomerRecord) -> int | None:
        """The classic rule's count; under fair the one that the next document would be shown."""
        if isinstance(self.policy_of(customer), ClassicPolicy):
            return customer.counter.count if customer.counter else None
        return self.next_place(customer).count

    def _resets_in(self, customer: CustomerRecord) -> int | None:
        """After how many seconds without a document the customer starts over, if it must wait."""
        policy = self.policy_of(customer)
        if isinstance(policy, ClassicPolicy):
            left: int | None = why_reset(policy, customer, self.now()).params.get("seconds")
            return left
        if customer.tags is None or customer.pending:
            return None
        return max(0, round(customer.tags.submitted_at + policy.reset_interval - self.now()))


def _check_account(changes: Mapping[str, Any]) -> None:
    """An account has a name as a customer has one."""
    if changes.get("account") is not None:
        check_customer(changes["account"])

"""`fairlead.customers`: customers, their settings, and what their next document would get."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import asdict

from fairlead.errors import CustomerExists
from fairlead.model.customers import Check, Customer, CustomerRecord
from fairlead.model.names import check_customer
from fairlead.policy.classic import ClassicPolicy
from fairlead.policy.explain import why_reset
from fairlead.policy.fair import Clock, FairRule, Placed
from fairlead.policy.rules import PolicyName, Rules
from fairlead.storage import Store


class Customers:
    """Customers and their settings. `by` names who decides, in the audit record."""

    def __init__(self, store: Store, rules: Callable[[], Rules], actor: str | None) -> None:
        self._store = store
        self._rules = rules
        self._actor = actor

    def add(
        self, name: str, /, *, must_be_new: bool = False, by: str | None = None, **settings: Any
    ) -> Customer:
        """Make a customer known before it submits anything, with settings as of `set`.

        A known one gets the settings; with `must_be_new` it is refused and stays as it is.
        """
        _check_account(settings)
        if not self._store.add_customer(check_customer(name), by=by or self._actor, **settings):
            if must_be_new:
                raise CustomerExists(
                    f"customer {name!r} already exists; change it with customers.set"
                )
            if settings:
                return self.set(name, by=by, **settings)
        return self.show(name)

    def list(self) -> builtins.list[Customer]:
        """All customers, by name."""
        return [self.view(record) for record in self._store.customers()]

    def show(self, name: str, /) -> Customer:
        return self.view(self._store.customer(name))

    def set(self, name: str, /, *, by: str | None = None, **changes: Any) -> Customer:
        """Change settings of a customer: weight, account, caps, interval, thresholds.

        None: the installation's own setting. Settings that are not named stay as they are.
        """
        _check_account(changes)
        self._store.set_customer(name, by=by or self._actor, **changes)
        return self.show(name)

    def pause(self, name: str, /, *, by: str | None = None) -> Customer:
        """Stop starting the customer's documents; new ones are still accepted."""
        self._store.pause(name, by=by or self._actor)
        return self.show(name)

    def resume(self, name: str, /, *, by: str | None = None) -> Customer:
        """Start the customer's documents again."""
        self._store.resume(name, by=by or self._actor)
        return self.show(name)

    def reset(self, name: str, /, *, by: str | None = None) -> Customer:
        """Forget the customer's count: its next document is checked as its first."""
        self._store.reset(name, by=by or self._actor)
        return self.show(name)

    def rule(
        self, customer: CustomerRecord, policy: PolicyName | None = None
    ) -> ClassicPolicy | FairRule:
        """The rule in force, as it holds for this customer; `policy` where it is known already."""
        rules, own = self._rules(), customer.settings
        make = rules.fair if (policy or self._store.policy()) == "fair" else rules.classic
        return make(own.reset_interval, own.thresholds)

    def next_place(
        self, customer: CustomerRecord, policy: PolicyName | None = None, clock: Clock | None = None
    ) -> Check | Placed:
        """What the customer's next document would get now: `.count` and `.priority`.

        For many customers, read `policy` and `clock` once and pass them in.
        """
        rule = self.rule(customer, policy)
        if isinstance(rule, ClassicPolicy):
            return rule.check(customer.counter, now=self._store.now())
        return rule.submit(
            customer.tags,
            clock or self._store.clock(),
            cost=0,
            weight=customer.settings.weight,
            now=self._store.now(),
            has_pending=customer.pending > 0,
        )

    def view(self, record: CustomerRecord) -> Customer:
        """The customer as it is shown, with what follows from its record at this moment."""
        waits_since, now = record.oldest_waiting_at, self._store.now()
        rule, following = self.rule(record), self.next_place(record)
        if isinstance(rule, ClassicPolicy):
            count = record.counter.count if record.counter else None
        else:
            count = following.count
        return Customer(
            name=record.name,
            pending=record.pending,
            waiting=record.waiting,
            processing=record.processing,
            count=count,
            next_priority=following.priority,
            resets_in=_resets_in(rule, record, now),
            oldest_wait=None if waits_since is None else max(0.0, now - waits_since),
            paused=record.paused,
            created_at=record.created_at,
            **asdict(record.settings),
        )


def _resets_in(rule: ClassicPolicy | FairRule, record: CustomerRecord, now: float) -> int | None:
    """Seconds without a submission after which the customer starts over, if it must wait."""
    if isinstance(rule, ClassicPolicy):
        seconds: int | None = why_reset(rule, record, now).params.get("seconds")
        return seconds
    if record.tags is None or record.pending:
        return None
    return max(0, round(record.tags.submitted_at + rule.reset_interval - now))


def _check_account(changes: Mapping[str, Any]) -> None:
    if changes.get("account") is not None:
        check_customer(changes["account"])

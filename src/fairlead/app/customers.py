"""`fairlead.customers`: customers, their settings, and the priority of their next document."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from fairlead.app.expected_end import pending_end
from fairlead.app.keys import EmbeddedKeys
from fairlead.config.settings import Settings
from fairlead.errors import CustomerExists, Message, UnknownCustomer, UnknownDocument, UnknownKey
from fairlead.model.customers import Customer, CustomerRecord, check_reason
from fairlead.model.explanations import Explanation
from fairlead.model.keys import LINK_DAYS, Key, Limits, NewLink, Role, link_path
from fairlead.model.names import check_customer
from fairlead.model.usage import DAY, CustomerStanding, Usage, day_name, day_number
from fairlead.policy.classic import ClassicPolicy
from fairlead.policy.fair import FairRule
from fairlead.policy.queue import PolicyName
from fairlead.policy.rules import Rules
from fairlead.storage import Store

DELETED_AT_ONCE = 500


class NextPlace(Struct, frozen=True):
    """The count and priority that a customer's next document would get now."""

    count: int
    priority: int


class EmbeddedCustomers:
    """Customers and their settings. `by` is the actor in the audit record."""

    def __init__(
        self,
        store: Store,
        rules: Callable[[], Rules],
        actor: str | None,
        *,
        keys: EmbeddedKeys,
        settings: Callable[[], Settings],
        why: Callable[[str], Explanation],
        delete: Callable[..., None],
    ) -> None:
        self._store = store
        self._rules = rules
        self._actor = actor
        self._keys = keys
        self._settings = settings
        self._why = why
        self._delete_document = delete

    def add(
        self, name: str, /, *, must_be_new: bool = False, by: str | None = None, **settings: Any
    ) -> Customer:
        """Add a customer, with settings as for `set`; submitting also adds customers.

        An existing customer gets the settings; with `must_be_new`, CustomerExists is raised.
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
        policy, now = self._store.policy(), self._store.now()
        return [self.view(record, policy, now) for record in self._store.customers()]

    def show(self, name: str, /) -> Customer:
        return self.view(self._store.customer(name))

    def set(self, name: str, /, *, by: str | None = None, **changes: Any) -> Customer:
        """Change settings of a customer, such as its weight, account, caps or thresholds.

        None restores the installation's setting. Other settings keep their values.
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

    def block(self, name: str, /, *, reason: str, by: str | None = None) -> Customer:
        """Refuse new documents of the customer, with a reason; earlier ones are still processed."""
        return self.set(name, by=by, blocked=check_reason(reason))

    def unblock(self, name: str, /, *, by: str | None = None) -> Customer:
        """Accept the customer's documents again."""
        return self.set(name, by=by, blocked=None)

    def delete(self, name: str, /, *, by: str | None = None) -> None:
        """Delete a customer with everything: documents, texts, keys, webhooks, its name in events.

        Its usage stays, without its name. New documents are refused meanwhile and afterwards, until
        the customer is added again. After an interruption, call it again.
        """
        self.block(name, reason="the customer is being deleted", by=by)
        with suppress(UnknownCustomer):  # another call has deleted it
            while not self._store.delete_customer(name, by=by or self._actor):
                for document in self._store.documents(customer=name, limit=DELETED_AT_ONCE):
                    with suppress(UnknownDocument):  # as above
                        self._delete_document(document.id, by=by)

    def link(self, name: str, /, *, days: int = LINK_DAYS, by: str | None = None) -> NewLink:
        """Make a link that opens the customer's page without a key, for so many days.

        Only this call returns its path. The link permits nothing else.
        """
        secret, key = self._keys.add_link(name, days=days, by=by)
        return NewLink(link_path(secret), key.id, name, key.created_at, key.expires_at or 0.0)

    def links(self, name: str, /) -> builtins.list[Key]:
        """The valid links to the customer's page, oldest first."""
        return self._keys.links(name)

    def revoke_link(self, name: str, id_: str, /, *, by: str | None = None) -> Key:
        """Revoke a link immediately."""
        keys = {key.id: key for key in self._keys.list(name) if key.role is Role.LINK}
        if id_ not in keys:
            text = Message(
                "customer {name} has no link with the id {id}", name=repr(name), id=repr(id_[:100])
            )
            raise UnknownKey(text)
        return self._keys.revoke(id_, by=by)

    def standing(self, name: str, /) -> CustomerStanding:
        """The customer's count, next priority, pending documents, and usage of today."""
        record, now = self._store.customer(name), self._store.now()
        following = self.next_place(record)
        today = int(now // DAY)
        usage = self._store.usage(name, first=today, last=today)
        end = pending_end(self._store, self._why, self._settings().pipelines, record)
        return CustomerStanding(
            customer=name,
            count=self.count(record),
            next_priority=following.priority,
            resets_at=reset_time(self.rule(record), record, now),
            pending=record.pending,
            processing=record.processing,
            expected_end=end.at,
            waits_for=end.waits_for,
            limits=self.limits(record),
            usage=usage[0] if usage else Usage(name, day_name(today)),
            blocked=record.settings.blocked,
        )

    def count(self, customer: CustomerRecord | str, policy: PolicyName | None = None) -> int:
        """The count of the customer's last document, or 0 after a reset.

        Under fair, the count that its next document would get.
        """
        record = self._record(customer)
        rule = self.rule(record, policy)
        if not isinstance(rule, ClassicPolicy):
            return self.next_place(record, policy).count
        counter, now = record.counter, self._store.now()
        return 0 if counter is None or rule.is_reset(counter, now=now) else counter.count

    def limits(self, customer: CustomerRecord | None = None) -> Limits:
        """The limits of one request, and the caps of a customer."""
        settings = self._settings()
        request = Limits(
            settings.max_document_bytes, settings.max_upload_bytes, settings.max_upload_files
        )
        if customer is None:
            return request
        own = customer.settings
        daily, rate = own.bytes_a_day, own.requests_a_second
        return replace(
            request,
            pending_cap=own.pending_cap,
            processing_cap=own.processing_cap,
            bytes_a_day=settings.bytes_a_day if daily is None else daily,
            requests_a_second=settings.requests_a_second if rate is None else rate,
        )

    def usage(
        self, name: str | None = None, /, *, since: str | None = None, until: str | None = None
    ) -> builtins.list[Usage]:
        """The usage of a customer, or of each, by day (UTC); days are dates such as 2026-01-31."""
        if name is not None:
            self._store.customer(name)
        first = 0 if since is None else day_number(since)
        last = 2**31 if until is None else day_number(until)
        return self._store.usage(name, first=first, last=last)

    def rule(
        self, customer: CustomerRecord | str, policy: PolicyName | None = None
    ) -> ClassicPolicy | FairRule:
        """The rule in force for this customer; `policy` saves reading it again."""
        rules, settings = self._rules(), self._record(customer).settings
        rule_for = rules.fair if (policy or self._store.policy()) == "fair" else rules.classic
        return rule_for(settings.reset_interval, settings.thresholds)

    def next_place(
        self,
        customer: CustomerRecord | str,
        policy: PolicyName | None = None,
        now: float | None = None,
    ) -> NextPlace:
        """The count and priority that the customer's next document would get now.

        For many customers, read `policy` and `now` from the store once and pass them in.
        """
        record = self._record(customer)
        rule = self.rule(record, policy)
        if isinstance(rule, ClassicPolicy):
            check = rule.check(record.counter, now=self._store.now() if now is None else now)
            return NextPlace(check.count, check.priority)
        count = 0 if record.standing is None else record.standing.count
        return NextPlace(count, rule.priority_of(count))

    def view(
        self,
        customer: CustomerRecord | str,
        policy: PolicyName | None = None,
        now: float | None = None,
    ) -> Customer:
        """The customer with what follows from its record at this moment."""
        record = self._record(customer)
        now = self._store.now() if now is None else now
        waits_since = record.oldest_waiting_at
        rule, following = self.rule(record, policy), self.next_place(record, policy, now)
        if isinstance(rule, ClassicPolicy):
            count = record.counter.count if record.counter else None
        else:
            count = following.count
        resets_at = reset_time(rule, record, now)
        return Customer(
            name=record.name,
            pending=record.pending,
            waiting=record.waiting,
            processing=record.processing,
            count=count,
            next_priority=following.priority,
            resets_in=None if resets_at is None else round(resets_at - now),
            oldest_wait=None if waits_since is None else max(0.0, now - waits_since),
            paused=record.paused,
            created_at=record.created_at,
            **asdict(record.settings),
        )

    def _record(self, customer: CustomerRecord | str) -> CustomerRecord:
        return self._store.customer(customer) if isinstance(customer, str) else customer


def reset_time(
    rule: ClassicPolicy | FairRule, customer: CustomerRecord, now: float
) -> float | None:
    """When the count returns to 0; None if it is 0, or under fair depends on what waits alone.

    Under classic this holds if no document arrives until then, under fair if none starts.
    """
    if isinstance(rule, FairRule):
        standing = customer.standing
        is_faded = standing is None or standing.had_lately <= 0 or standing.fades_at <= now
        return None if is_faded or standing is None else standing.fades_at
    if customer.counter is None or rule.is_reset(customer.counter, now=now):
        return None
    return customer.counter.updated_at + rule.reset_interval


def _check_account(changes: Mapping[str, Any]) -> None:
    if changes.get("account") is not None:
        check_customer(changes["account"])

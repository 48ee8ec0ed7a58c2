"""`fairlead.webhooks`: webhooks and their deliveries."""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Iterable

from fairlead.errors import Message, UnknownDelivery, UnknownWebhook
from fairlead.model.installation import ListingPage, listing_page
from fairlead.model.names import new_id
from fairlead.model.webhooks import DEFAULT_KINDS, Delivery, Webhook, WebhookRecord, check_kinds
from fairlead.storage import Store
from fairlead.webhooks import Networks, check_url, new_secret


class EmbeddedWebhooks:
    """Webhooks and their deliveries.

    With `customer`, webhooks of others are unknown. `by` is the actor in the audit record.
    """

    def __init__(
        self,
        store: Store,
        networks: Callable[[], Networks],
        clock: Callable[[], float],
        actor: str | None,
    ) -> None:
        self._outbox = store.outbox
        self._networks = networks
        self._clock = clock
        self._actor = actor

    def add(
        self,
        url: str,
        kinds: Iterable[str] | None = None,
        *,
        customer: str | None = None,
        by: str | None = None,
    ) -> tuple[Webhook, str]:
        """Make a webhook; return it and its secret, which only this call returns.

        It gets the events of a customer; without one, those of all customers.
        """
        check_url(url, self._networks())
        secret = new_secret(os.urandom(32))
        checked = check_kinds(DEFAULT_KINDS if kinds is None else kinds)
        webhook = WebhookRecord(new_id(self._clock()), customer, url, checked, secret)
        return self._outbox.add(webhook, by=by or self._actor), secret

    def list(self, customer: str | None = None) -> builtins.list[Webhook]:
        """All webhooks, or those of a customer, oldest first."""
        return self._outbox.webhooks(customer)

    def show(self, id_: str, /, *, customer: str | None = None) -> Webhook:
        webhook = self._outbox.webhook(id_)
        if customer not in (None, webhook.customer):
            raise UnknownWebhook(
                Message("no webhook has the id {id}; list the webhooks", id=repr(id_))
            )
        return webhook

    def set(
        self,
        id_: str,
        /,
        *,
        url: str | None = None,
        kinds: Iterable[str] | None = None,
        enabled: bool | None = None,
        customer: str | None = None,
        by: str | None = None,
    ) -> Webhook:
        """Change a webhook; None: unchanged. Deliveries of a disabled webhook wait."""
        self.show(id_, customer=customer)
        if url is not None:
            check_url(url, self._networks())
        checked = None if kinds is None else check_kinds(kinds)
        return self._outbox.set(id_, url=url, kinds=checked, enabled=enabled, by=by or self._actor)

    def delete(self, id_: str, /, *, customer: str | None = None, by: str | None = None) -> None:
        """Delete a webhook and its deliveries."""
        self.show(id_, customer=customer)
        self._outbox.remove(id_, by=by or self._actor)

    def test(self, id_: str, /, *, customer: str | None = None) -> Delivery:
        """Queue a test delivery."""
        self.show(id_, customer=customer)
        return self._outbox.test(id_)

    def delivery(self, id_: str, /, *, customer: str | None = None) -> Delivery:
        delivery = self._outbox.delivery(id_)
        if customer not in (None, self.show(delivery.webhook).customer):
            raise UnknownDelivery(
                Message("no delivery has the id {id}; list the webhook's deliveries", id=repr(id_))
            )
        return delivery

    def deliveries(
        self,
        id_: str,
        /,
        *,
        cursor: str | None = None,
        limit: int = 100,
        customer: str | None = None,
    ) -> ListingPage[Delivery]:
        """Deliveries of a webhook, newest first; `cursor` is the last id of the previous page."""
        self.show(id_, customer=customer)

        def fetch(cursor: str | None) -> ListingPage[Delivery]:
            rows = self._outbox.deliveries(id_, before=cursor, limit=limit + 1)
            return listing_page(rows, limit, fetch)

        return fetch(cursor)

    def retry(self, delivery: str, /, *, customer: str | None = None) -> Delivery:
        """Send a delivery again, under its old id and with all its attempts."""
        self.delivery(delivery, customer=customer)
        return self._outbox.resend(delivery)

"""Webhooks: whom to tell what becomes of documents."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable

from fairlead.app.wiring import Wiring
from fairlead.errors import Message, UnknownDelivery, UnknownWebhook
from fairlead.model.names import new_id
from fairlead.model.webhooks import DEFAULT_KINDS, Delivery, NewWebhook, Webhook, check_kinds
from fairlead.webhooks import Deliverer, Networks, Sender, check_url, new_secret


class Webhooks(Wiring):
    """What is asked for, and what became of it."""

    def add_webhook(
        self,
        customer: str,
        url: str,
        kinds: Iterable[str] = DEFAULT_KINDS,
        *,
        by: str | None = None,
    ) -> tuple[Webhook, str]:
        """Tell a customer's own server what becomes of its documents from now on.

        Returns the webhook and its secret, which is never shown again.
        """
        check_url(url, self._networks())
        secret = new_secret(os.urandom(32))
        id_ = new_id(self._clock())
        new = NewWebhook(id_, customer, url, check_kinds(kinds), secret)
        return self.store.outbox.add(new, by=by), secret

    def webhook(self, id_: str, *, customer: str | None = None) -> Webhook:
        """The webhook of this id; with `customer`, another one's is as good as none."""
        found = self.store.outbox.webhook(id_)
        if customer not in (None, found.customer):
            raise UnknownWebhook(
                Message("no webhook has the id {id}; list the webhooks", id=repr(id_))
            )
        return found

    def webhooks(self, customer: str | None = None) -> list[Webhook]:
        """All webhooks, or those of a customer, oldest first."""
        return self.store.outbox.webhooks(customer)

    def set_webhook(
        self,
        id_: str,
        *,
        customer: str | None = None,
        url: str | None = None,
        kinds: Iterable[str] | None = None,
        enabled: bool | None = None,
        by: str | None = None,
    ) -> Webhook:
        """Change a webhook; None: as it is. What waits for a disabled one goes on when enabled."""
        self.webhook(id_, customer=customer)
        if url is not None:
            check_url(url, self._networks())
        wanted = None if kinds is None else check_kinds(kinds)
        return self.store.outbox.set(id_, url=url, kinds=wanted, enabled=enabled, by=by)

    def remove_webhook(
        self, id_: str, *, customer: str | None = None, by: str | None = None
    ) -> None:
        """Forget a webhook and its deliveries."""
        self.webhook(id_, customer=customer)
        self.store.outbox.remove(id_, by=by)

    def test_webhook(self, id_: str, *, customer: str | None = None) -> Delivery:
        """Queue a delivery that tells of nothing; look at it again to see what came of it."""
        self.webhook(id_, customer=customer)
        return self.store.outbox.test(id_)

    def delivery(self, id_: str, *, customer: str | None = None) -> Delivery:
        """The delivery of this id; with `customer`, another one's is as good as none."""
        found = self.store.outbox.delivery(id_)
        if customer not in (None, self.webhook(found.webhook).customer):
            raise UnknownDelivery(
                Message("no delivery has the id {id}; list the webhook's deliveries", id=repr(id_))
            )
        return found

    def deliveries(
        self,
        webhook: str,
        *,
        customer: str | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> list[Delivery]:
        """Deliveries of a webhook, newest first; `before` is the last id of the page before."""
        self.webhook(webhook, customer=customer)
        return self.store.outbox.deliveries(webhook, before=before, limit=limit)

    def resend(self, id_: str, *, customer: str | None = None) -> Delivery:
        """Send a delivery again, under its old id and with all its attempts."""
        self.delivery(id_, customer=customer)
        return self.store.outbox.resend(id_)

    def deliverer(self) -> Deliverer:
        """A service that delivers what is due."""
        sender = Sender(self._networks, clock=self._clock)
        return Deliverer(self.store.outbox, sender, clock=self.now, jitter=random.random)

    def _networks(self) -> Networks:
        return Networks(self.settings.webhook_networks)

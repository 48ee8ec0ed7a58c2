"""JSON of the API as the records it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.model.customers import Customer, Customers, Fairness
from fairlead.model.documents import Document, Documents, Event, EventKind, Page
from fairlead.model.explanations import Explanation
from fairlead.model.json import from_dict
from fairlead.model.keys import Key, Keys, Me
from fairlead.model.webhooks import Deliveries, Delivery, Webhook, Webhooks

Json = Mapping[str, Any]
_KINDS = frozenset(each.value for each in EventKind)


def document(plain: Json) -> Document:
    """A document."""
    return from_dict(Document, plain)


def documents(plain: Json) -> list[Document]:
    """The documents of an answer that has one or several."""
    return from_dict(Documents, plain).documents if "documents" in plain else [document(plain)]


def page(plain: Json) -> Page:
    """A page of documents."""
    return from_dict(Page, plain)


def me(plain: Json) -> Me:
    """Whose the key is."""
    return from_dict(Me, plain)


def customer(plain: Json) -> Customer:
    """A customer."""
    return from_dict(Customer, plain)


def overview(plain: Json) -> tuple[list[Customer], Fairness]:
    """All customers, and how fair the queue is."""
    read = from_dict(Customers, plain)
    return read.customers, read.fairness


def keys(plain: Json) -> list[Key]:
    """Keys."""
    return from_dict(Keys, plain).keys


def key(plain: Json) -> Key:
    """A key, without its secret."""
    return from_dict(Key, plain)


def explanation(plain: Json) -> Explanation:
    """Why a document has its place."""
    return from_dict(Explanation, plain)


def event(plain: Json) -> Event | None:
    """An event; None: of a kind that only a newer Fairlead knows."""
    return from_dict(Event, plain) if plain["kind"] in _KINDS else None


def webhooks(plain: Json) -> list[Webhook]:
    """Webhooks."""
    return from_dict(Webhooks, plain).webhooks


def webhook(plain: Json) -> Webhook:
    """A webhook, without its secret."""
    return from_dict(Webhook, plain)


def deliveries(plain: Json) -> tuple[list[Delivery], str | None]:
    """A page of deliveries, and the cursor of the next one."""
    read = from_dict(Deliveries, plain)
    return read.deliveries, read.next


def delivery(plain: Json) -> Delivery:
    """A delivery of a webhook."""
    return from_dict(Delivery, plain)

"""Deliveries of webhooks, added in the transaction of their event.

So a delivery exists exactly if its event does: a crash neither loses nor duplicates it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from fairlead.model.json import rfc3339, to_dict
from fairlead.model.webhooks import TEST_KIND
from fairlead.storage.sql import rows
from fairlead.storage.sql.queries import Connection, sql

_KEPT_FIELDS = frozenset(
    {
        "id",
        "customer",
        "pipeline",
        "state",
        "priority",
        "count",
        "policy",
        "urgent",
        "attempts",
        "error",
        "step",
        "step_attempt",
    }
    | {"submitted_at", "not_before", "started_at", "finished_at", "parent", "batch"}
    | {"parts", "parts_done"}
)
"""Fields of a deleted document that stay in deliveries: events contain them as well."""


class WebhookSubscription(NamedTuple):
    """A webhook, and the kinds of events that it subscribes to."""

    id: str
    kinds: list[str]


def subscriptions(
    connection: Connection, customers: Iterable[int]
) -> dict[int | None, list[WebhookSubscription]]:
    """The enabled webhooks by customer; under None, the webhooks for all customers."""
    by_customer: dict[int | None, list[WebhookSubscription]] = {}
    values = (connection.array(sorted(customers)),)
    for customer, id_, kinds in connection.execute(sql("enabled_webhooks"), values).fetchall():
        by_customer.setdefault(customer, []).append(WebhookSubscription(id_, json.loads(kinds)))
    return by_customer


def add_deliveries(
    connection: Connection,
    now: float,
    webhooks: Iterable[str],
    kind: str,
    subject: int | dict[str, Any],
) -> None:
    """Add a delivery of this kind to each of the webhooks; call `refresh_webhook` afterwards.

    Its data are the document of this number, or those given.
    """
    data = subject if isinstance(subject, dict) else _document_data(connection, subject)
    document = None if isinstance(subject, dict) else data["id"]
    for webhook in webhooks:
        _insert(connection, now, webhook, kind, data, document=document)


def _document_data(connection: Connection, document: int) -> dict[str, Any]:
    """The document, with the data of its result if the database stores them."""
    row = connection.execute(rows.DOCUMENT.select + " WHERE d.seq = ?", (document,)).fetchone()
    assert row is not None  # noqa: S101 (it was changed in this transaction)
    data: bytes | None = connection.execute(sql("short_data"), (document,)).get
    return to_dict(rows.DOCUMENT.read(row)) | {"data": None if data is None else json.loads(data)}


def add_test(connection: Connection, now: float, webhook: str) -> int:
    """Add a test delivery, due now; return its number."""
    number = _insert(connection, now, webhook, TEST_KIND, {"webhook": webhook})
    refresh_webhook(connection, webhook)
    return number


def _insert(
    connection: Connection,
    now: float,
    webhook: str,
    kind: str,
    data: dict[str, Any],
    *,
    document: str | None = None,
) -> int:
    """Add a delivery, due now; return its number.

    Its body is the same at every attempt, until its document is deleted.
    """
    body = _body({"type": kind, "timestamp": rfc3339(now), "data": data})
    values = (webhook, kind, document, body, now, now)
    number: int = connection.execute(sql("add_delivery"), values).get
    return number


def lock_webhook(connection: Connection, webhook: str) -> None:
    """Lock the deliveries of a webhook until the end of the transaction."""
    connection.execute(sql("lock_webhook"), (webhook,))


def refresh_webhook(connection: Connection, webhook: str) -> None:
    """Record when the first delivery is due; the lock lets it see all deliveries."""
    lock_webhook(connection, webhook)
    connection.execute(sql("refresh_webhook"), (webhook,))


def forget_document(connection: Connection, id_: str, number: int) -> None:
    """Remove a document's contents from its deliveries, and its name from those of its parts.

    Due deliveries are still sent. Responses of receivers may repeat the contents, so they are
    removed too.
    """
    _forget_contents(connection, id_)
    for delivery, body in connection.execute(sql("deliveries_of_parts"), (number,)).fetchall():
        content = json.loads(body)
        nameless = content | {"data": content["data"] | {"parent_names": []}}
        connection.execute(sql("empty_delivery"), (_body(nameless), delivery))


def _forget_contents(connection: Connection, id_: str) -> None:
    for number, body in connection.execute(sql("deliveries_of"), (id_,)).fetchall():
        content = json.loads(body)
        kept_fields = {
            name: value if name in _KEPT_FIELDS else None for name, value in content["data"].items()
        }
        connection.execute(sql("empty_delivery"), (_body(content | {"data": kept_fields}), number))


def forget_customer(connection: Connection, name: str) -> None:
    """Remove the name of a customer from all deliveries of webhooks for all customers.

    This scans the deliveries without an index; only the deletion of a customer needs it.
    """
    text = json.dumps(name, ensure_ascii=False)
    for mark in "!%_":
        text = text.replace(mark, f"!{mark}")
    for number, body in connection.execute(sql("deliveries_with"), (f"%{text}%",)).fetchall():
        content = json.loads(body)
        if content["data"].get("customer") == name:
            anonymous = content | {"data": content["data"] | {"customer": None}}
            connection.execute(sql("empty_delivery"), (_body(anonymous), number))


def _body(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))

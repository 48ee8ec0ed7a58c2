"""Deliveries of webhooks, made in the transaction of their event.

So a delivery exists exactly if its event does: a crash loses none and makes none twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from fairlead.model.json import rfc3339, to_dict
from fairlead.model.webhooks import TEST_KIND
from fairlead.storage.sql import rows
from fairlead.storage.sql.queries import Connection, sql

_LEFT_OF_A_DELETED = frozenset(
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
)
"""Fields that events show as well; the others say what the document was."""


class WebhookSubscription(NamedTuple):
    """A webhook, and the kinds of events that it asked for."""

    id: str
    kinds: list[str]


def subscriptions(
    connection: Connection, customers: Iterable[int]
) -> dict[int | None, list[WebhookSubscription]]:
    """The enabled webhooks of customers; None: those that are told of all customers."""
    told: dict[int | None, list[WebhookSubscription]] = {}
    values = (connection.array(sorted(customers)),)
    for customer, id_, kinds in connection.execute(sql("webhooks_told"), values).fetchall():
        told.setdefault(customer, []).append(WebhookSubscription(id_, json.loads(kinds)))
    return told


def add_deliveries(
    connection: Connection,
    now: float,
    webhooks: Iterable[str],
    kind: str,
    what: int | dict[str, Any],
) -> None:
    """Make a delivery of this kind for each of the webhooks, which `refresh_webhook` follows.

    It tells of the document of this number, or of these data.
    """
    shown = what if isinstance(what, dict) else _shown_document(connection, what)
    document = None if isinstance(what, dict) else shown["id"]
    for webhook in webhooks:
        _insert(connection, now, webhook, kind, shown, document=document)


def _shown_document(connection: Connection, document: int) -> dict[str, Any]:
    """The document, with the data of its result where the store keeps them."""
    row = connection.execute(rows.DOCUMENT.select + " WHERE d.seq = ?", (document,)).fetchone()
    assert row is not None  # noqa: S101 (it was changed in this transaction)
    data: bytes | None = connection.execute(sql("short_data"), (document,)).get
    return to_dict(rows.DOCUMENT.read(row)) | {"data": None if data is None else json.loads(data)}


def add_test(connection: Connection, now: float, webhook: str) -> int:
    """One delivery that tells of nothing, due now; its number."""
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
    """One more delivery, due now; its number.

    Its body is the same at every attempt, until its document is deleted.
    """
    body = _body({"type": kind, "timestamp": rfc3339(now), "data": data})
    values = (webhook, kind, document, body, now, now)
    number: int = connection.execute(sql("add_delivery"), values).get
    return number


def lock_webhook(connection: Connection, webhook: str) -> None:
    """Let nobody else change the deliveries of a webhook in this transaction."""
    connection.execute(sql("lock_webhook"), (webhook,))


def refresh_webhook(connection: Connection, webhook: str) -> None:
    """Note when the first delivery is due. The lock comes first, so that it sees all of them."""
    lock_webhook(connection, webhook)
    connection.execute(sql("refresh_webhook"), (webhook,))


def forget_document(connection: Connection, id_: str) -> None:
    """Remove what a document was from its deliveries; those that are due are still sent.

    Responses of receivers may repeat it, so they are removed too.
    """
    for number, body in connection.execute(sql("deliveries_of"), (id_,)).fetchall():
        content = json.loads(body)
        left = {
            name: value if name in _LEFT_OF_A_DELETED else None
            for name, value in content["data"].items()
        }
        connection.execute(sql("empty_delivery"), (_body(content | {"data": left}), number))


def forget_customer(connection: Connection, name: str) -> None:
    """Remove the name of a customer from what webhooks of all customers were told, or will be.

    No index leads there: they are looked through, which only the deletion of a customer does.
    """
    text = json.dumps(name, ensure_ascii=False)
    for mark in "!%_":
        text = text.replace(mark, f"!{mark}")
    for number, body in connection.execute(sql("deliveries_with"), (f"%{text}%",)).fetchall():
        content = json.loads(body)
        if content["data"].get("customer") == name:
            left = content | {"data": content["data"] | {"customer": None}}
            connection.execute(sql("empty_delivery"), (_body(left), number))


def _body(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))

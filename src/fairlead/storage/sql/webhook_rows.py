"""What a customer's webhooks are told: made in the transaction of the event itself.

So a delivery is there exactly when its event is: none is lost in a crash, none is made twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from fairlead.model.json import rfc3339, to_dict
from fairlead.storage.sql import rows
from fairlead.storage.sql.queries import Connection, sql

_LEFT_OF_A_DELETED = frozenset(
    {"id", "customer", "state", "priority", "count", "policy", "urgent", "attempts", "error"}
    | {"submitted_at", "started_at", "finished_at", "parent"}
)
"""What events tell of a document too; the other fields tell what it was."""


class Subscription(NamedTuple):
    """A webhook, and the kinds of events that it asked for."""

    id: str
    kinds: list[str]


def subscriptions(connection: Connection, customer: int) -> list[Subscription]:
    """The webhooks of a customer that are told of anything."""
    found = connection.execute(sql("webhooks_told"), (customer,)).fetchall()
    return [Subscription(id_, json.loads(kinds)) for id_, kinds in found]


def add_deliveries(
    connection: Connection, now: float, webhooks: Iterable[str], kind: str, document: int
) -> None:
    """Make a delivery of this kind for each of the webhooks."""
    row = connection.execute(rows.DOCUMENT.select + " WHERE d.seq = ?", (document,)).fetchone()
    assert row is not None  # noqa: S101 (it was changed in this transaction)
    shown = to_dict(rows.DOCUMENT.read(row))
    for webhook in webhooks:
        add_delivery(connection, now, webhook, kind, shown, document=shown["id"])


def add_delivery(
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
    connection.execute(sql("refresh_webhook"), (webhook,))
    return number


def forget_document(connection: Connection, id_: str) -> None:
    """Let deliveries tell nothing more of what a document was; those that are due still go out.

    What receivers answered may repeat it, so it goes too.
    """
    for number, body in connection.execute(sql("deliveries_of"), (id_,)).fetchall():
        told = json.loads(body)
        left = {
            name: value if name in _LEFT_OF_A_DELETED else None
            for name, value in told["data"].items()
        }
        connection.execute(sql("empty_delivery"), (_body(told | {"data": left}), number))


def _body(told: dict[str, Any]) -> str:
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))

"""What a customer's webhooks are told: made in the transaction of the event itself.

So a delivery is there exactly when its event is: none is lost in a crash, none is made twice.
"""

from __future__ import annotations

import json
from typing import Any

from fairlead.core import webhooks
from fairlead.core.documents import EventKind
from fairlead.core.shown import document_json, moment
from fairlead.stores.sql import rows
from fairlead.stores.sql.connection import Connection
from fairlead.stores.sql.queries import sql


def tell_webhooks(
    connection: Connection, now: float, kind: EventKind, customer: int, document: int | None
) -> None:
    """Make a delivery for each webhook of the customer that asked for events of this kind."""
    name = webhooks.KINDS.get(kind)
    if name is None or document is None:
        return
    found: list[rows.Row] = connection.execute(sql("webhooks_told"), (customer,)).fetchall()
    asked = [id_ for id_, kinds in found if name in json.loads(kinds)]
    if not asked:
        return
    row = connection.execute(sql("select_document") + " WHERE d.seq = ?", (document,)).fetchone()
    assert row is not None  # noqa: S101 (it was changed in this transaction)
    shown = document_json(rows.document(row))
    for webhook in asked:
        add_delivery(connection, now, webhook, name, shown, document=shown["id"])


def add_delivery(
    connection: Connection,
    now: float,
    webhook: str,
    kind: str,
    data: dict[str, Any],
    *,
    document: str | None = None,
) -> int:
    """One more delivery, due now; its number. Its body is the same at every attempt."""
    body = json.dumps(
        {"type": kind, "timestamp": moment(now), "data": data},
        ensure_ascii=False,
        separators=(",", ":"),
    )
    values = (webhook, kind, document, body, now, now)
    number: int = connection.execute(sql("add_delivery"), values).get
    connection.execute(sql("refresh_webhook"), (webhook,))
    return number

"""The append-only record of events."""

from __future__ import annotations

from typing import Any

import apsw

from fairlead.core.documents import EventKind
from fairlead.stores.sqlite.queries import sql
from fairlead.stores.sqlite.rows import data_text


def add_event(
    connection: apsw.Connection,
    now: float,
    kind: EventKind,
    customer: int,
    document: int | None = None,
    **data: Any,
) -> None:
    """One line of the record, in the transaction of what it tells."""
    connection.execute(sql("add_event"), (now, kind.value, customer, document, data_text(data)))

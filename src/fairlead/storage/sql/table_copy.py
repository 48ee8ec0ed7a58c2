"""All rows of a store, as one store hands them over to another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from fairlead.storage.sql.rows import Row

TABLES = (
    *("accounts", "customers", "documents", "line_state", "idempotency", "events"),
    *("attendance", "costs", "webhooks", "deliveries", "keys", "deleted", "short_texts"),
    *("short_originals", "tallies"),
)
"""Every table, those that others refer to first."""
NUMBERED = {"accounts": "id", "customers": "id", "events": "seq", "deliveries": "seq"}
"""Tables whose rows get the next number by themselves."""


class TableCopy(Protocol):
    """A store in which nothing changes while it is read."""

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[Row]:
        """All rows of a table."""
        ...

    def last_number(self, table: str) -> int:
        """The highest number that a row of this table ever had."""
        ...
